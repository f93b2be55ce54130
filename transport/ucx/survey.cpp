#include "weft/transport/ucx/survey.h"

#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

#include <fmt/format.h>

namespace weft {
namespace {

/// The transports of one memory domain of a component.
void add_transports(uct_component_h component, const char* domain, UcxSurvey& survey) {
  uct_md_config_t* config = nullptr;
  if (uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK) return;
  uct_md_h opened = nullptr;
  const ucs_status_t status = uct_md_open(component, domain, config, &opened);
  uct_config_release(config);
  if (status != UCS_OK) return;
  uct_tl_resource_desc_t* resources = nullptr;
  unsigned count = 0;
  if (uct_md_query_tl_resources(opened, &resources, &count) == UCS_OK) {
    for (unsigned i = 0; i < count; ++i)
      survey.transports[resources[i].tl_name].emplace_back(resources[i].dev_name);
    uct_release_tl_resource_list(resources);
  }
  uct_md_close(opened);
}

void add_component(uct_component_h component, UcxSurvey& survey) {
  uct_component_attr_t attributes{};
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
  if (uct_component_query(component, &attributes) != UCS_OK || attributes.md_resource_count == 0) return;
  std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
  attributes.md_resources = domains.data();
  if (uct_component_query(component, &attributes) != UCS_OK) return;
  for (const auto& domain : domains) add_transports(component, domain.md_name, survey);
}

void add_memory_types(UcxSurvey& survey) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  ucp_context_h context = nullptr;
  if (status == UCS_OK) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM;
    status = ucp_init(&params, config, &context);
    ucp_config_release(config);
  }
  if (status != UCS_OK) {
    survey.problem = ucs_status_string(status);
    return;
  }
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  ucp_context_query(context, &attributes);
  for (int type = 0; type < UCS_MEMORY_TYPE_LAST; ++type) {
    if ((attributes.memory_types & UCS_BIT(type)) != 0)
      survey.memory_types.emplace_back(ucs_memory_type_names[type]);
  }
  ucp_cleanup(context);
}

}  // namespace

UcxSurvey survey_ucx() {
  UcxSurvey survey;
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp_get_version(&major, &minor, &release);
  survey.version = fmt::format("{}.{}.{}", major, minor, release);
  uct_component_h* components = nullptr;
  unsigned count = 0;
  if (uct_query_components(&components, &count) == UCS_OK) {
    for (unsigned i = 0; i < count; ++i) add_component(components[i], survey);
    uct_release_component_list(components);
  }
  add_memory_types(survey);
  return survey;
}

}  // namespace weft
