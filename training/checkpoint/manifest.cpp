#include "weft/training/checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "weft/base/error.h"
#include "weft/base/text/utf8.h"
#include "weft/model/weights/json_input.h"
#include "weft/training/config/binary_scalar.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::size_t size_limit = std::size_t{16} << 20;
constexpr std::string_view format_name = "weft-checkpoint";

/// Typed access to the fields of one object; every failure names the file and the field's path.
class Fields {
 public:
  Fields(const json& object, std::string file, std::string path)
      : object_(object), file_(std::move(file)), path_(std::move(path)) {
    if (!object_.is_object()) throw CheckpointError(fmt::format("{}: {} is not an object", file_, path_));
  }
  [[nodiscard]] std::uint64_t number(const char* key) const {
    const json& value = at(key);
    if (!value.is_number_unsigned()) fail(key, "is not a number");
    return value.get<std::uint64_t>();
  }
  [[nodiscard]] std::int64_t signed_number(const char* key) const {
    const json& value = at(key);
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() >> 63 != 0))
      fail(key, "is not a 64-bit number");
    return value.get<std::int64_t>();
  }
  [[nodiscard]] double real(const char* key) const {
    const json& value = at(key);
    if (!value.is_number() || !std::isfinite(value.get<double>())) fail(key, "is not a number");
    return value.get<double>();
  }
  [[nodiscard]] std::string text(const char* key) const {
    const json& value = at(key);
    if (!value.is_string()) fail(key, "is not a text");
    return value.get<std::string>();
  }
  [[nodiscard]] std::string digest(const char* key) const {
    std::string value = text(key);
    const bool right = value.size() == 64 && value.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!right) fail(key, "is not a SHA-256");
    return value;
  }
  /// The text of `key`, or what `key` + "_base64" holds.
  [[nodiscard]] std::string bytes(const std::string& key) const {
    const std::string coded = key + "_base64";
    if (!object_.contains(coded)) return text(key.c_str());
    const std::optional<std::string> value = from_base64(text(coded.c_str()));
    if (!value) fail(coded.c_str(), "is not base64");
    return *value;
  }
  [[nodiscard]] Fields object(const char* key) const { return {at(key), file_, inner(key)}; }
  [[nodiscard]] std::vector<Fields> objects(const char* key) const {
    const json& value = at(key);
    if (!value.is_array()) fail(key, "is not a list");
    std::vector<Fields> items;
    for (const json& item : value)
      items.emplace_back(item, file_, fmt::format("{}[{}]", inner(key), items.size()));
    return items;
  }
  [[noreturn]] void fail(const char* key, std::string_view what) const {
    throw CheckpointError(fmt::format("{}: {} {}", file_, inner(key), what));
  }

 private:
  [[nodiscard]] std::string inner(const char* key) const { return path_.empty() ? key : path_ + "." + key; }
  [[nodiscard]] const json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) fail(key, "is missing");
    return *found;
  }
  const json& object_;
  std::string file_;
  std::string path_;
};

json data_json(const std::vector<DataPosition>& data) {
  json list = json::array();
  for (const auto& stage : data) {
    const bool text = is_valid_utf8(stage.stage);
    list.push_back({{text ? "stage" : "stage_base64", text ? stage.stage : to_base64(stage.stage)},
                    {"consumed_samples", stage.consumed_samples},
                    {"fingerprint", stage.fingerprint}});
  }
  return list;
}

json files_json(const std::vector<CheckpointFile>& files) {
  json list = json::array();
  for (const auto& file : files)
    list.push_back({{"name", file.record.name},
                    {"kind", file.kind == FileKind::weights ? "weights" : "state"},
                    {"bytes", file.record.bytes},
                    {"sha256", file.record.sha256}});
  return list;
}

CheckpointFile read_file_entry(const Fields& fields) {
  CheckpointFile file;
  const std::string kind = fields.text("kind");
  if (kind != "weights" && kind != "state") fields.fail("kind", "is neither weights nor state");
  file.kind = kind == "weights" ? FileKind::weights : FileKind::state;
  file.record = {fields.text("name"), fields.number("bytes"), fields.digest("sha256")};
  const std::string& name = file.record.name;
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos ||
      name == Manifest::file_name)
    fields.fail("name", "is not the name of a file in the checkpoint's folder");
  return file;
}

/// Checksum of all other fields; keys are sorted and numbers round-trip, so that reading changes nothing.
std::string checksum(json tree) {
  tree.erase("sha256");
  return sha256_hex(tree.dump());
}

}  // namespace

std::string to_json(const Manifest& manifest) {
  const auto& position = manifest.position;
  json tree = {{"format", format_name},
               {"version", Manifest::version},
               {"save_number", manifest.save_number},
               {"step", position.step},
               {"consumed_samples", position.consumed_samples},
               {"consumed_tokens", position.consumed_tokens},
               {"data", data_json(position.data)},
               {"optimizer", position.optimizer},
               {"learning_rate", position.learning_rate},
               {"seed", position.seed},
               {"config", position.config},
               {"model", position.model},
               {"weights_sha256", manifest.weights_sha256},
               {"files", files_json(manifest.files)}};
  try {
    tree["sha256"] = checksum(tree);
    return tree.dump(1) + "\n";
  } catch (const json::exception&) {
    throw CheckpointError("manifest.json: a name or the configuration is not valid UTF-8");
  }
}

Manifest parse_manifest(std::string_view text, const std::string& file_name) {
  const json tree = parse_json_object(text, file_name);
  const Fields fields(tree, file_name, "");
  if (fields.text("format") != format_name) fields.fail("format", "is not \"weft-checkpoint\"");
  if (fields.number("version") != Manifest::version)
    fields.fail("version", fmt::format("is {}; this build reads version {}", fields.number("version"),
                                       Manifest::version));
  if (fields.digest("sha256") != checksum(tree)) throw CheckpointError(file_name + ": the checksum is wrong");

  Manifest manifest;
  auto& position = manifest.position;
  manifest.save_number = fields.number("save_number");
  position.step = fields.number("step");
  position.consumed_samples = fields.number("consumed_samples");
  position.consumed_tokens = fields.number("consumed_tokens");
  for (const Fields& stage : fields.objects("data"))
    position.data.push_back(
        {stage.bytes("stage"), stage.number("consumed_samples"), stage.text("fingerprint")});
  position.optimizer = fields.text("optimizer");
  position.learning_rate = fields.real("learning_rate");
  position.seed = fields.signed_number("seed");
  position.config = fields.text("config");
  position.model = fields.text("model");
  manifest.weights_sha256 = fields.digest("weights_sha256");
  std::set<std::string> names;
  for (const Fields& entry : fields.objects("files")) {
    manifest.files.push_back(read_file_entry(entry));
    if (!names.insert(manifest.files.back().record.name).second) entry.fail("name", "is given twice");
  }
  return manifest;
}

Manifest read_manifest(const std::filesystem::path& checkpoint) {
  const auto path = checkpoint / Manifest::file_name;
  return parse_manifest(read_small_file(path, size_limit), path.string());
}

}  // namespace weft
