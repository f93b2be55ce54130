#pragma once
// The text of a configuration on its way from the launcher to the ranks that it starts.
#include <optional>
#include <string>
#include <utility>

#include "weft/base/files/descriptor.h"

namespace weft {

/// Holds the text that the launcher has read and checked where its children can read it, so that what was
/// checked is what runs: the file may be a pipe, or change, or be gone by the time a rank starts.
class HandedConfig {
 public:
  /// Throws Error.
  explicit HandedConfig(const std::string& text);

  /// For children to inherit; close-on-exec until then.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }
  /// For their environment: WEFT_CONFIG_FD.
  [[nodiscard]] std::pair<std::string, std::string> variable() const;

 private:
  Descriptor descriptor_;
};

/// The text that this process was handed; none without WEFT_CONFIG_FD. Throws ConfigError when the descriptor
/// does not hold one.
[[nodiscard]] std::optional<std::string> handed_config();

}  // namespace weft
