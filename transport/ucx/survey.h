#pragma once
// What the installed UCX offers, for `weft doctor`. Nothing here is needed to send a message.
#include <map>
#include <string>
#include <vector>

namespace weft {

struct UcxSurvey {
  std::string version;  ///< "1.13.1"
  std::map<std::string, std::vector<std::string>>
      transports;                         ///< devices by transport, as in {"tcp": {"lo", "eth0"}}
  std::vector<std::string> memory_types;  ///< that UCX can move: "host", "cuda", ...
  std::string problem;                    ///< why UCX cannot start, or empty
};

/// Asks UCX. The environment's UCX_* variables apply.
[[nodiscard]] UcxSurvey survey_ucx();

}  // namespace weft
