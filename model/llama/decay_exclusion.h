#pragma once
// Which parameters are not decayed.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// Nanotron's name of the parameter that Hugging Face calls `name`; several share one where Nanotron fuses
/// them
/// (`model.layers.0.self_attn.q_proj.weight` is in `model.decoder.0.pp_block.attn.qkv_proj.weight`). Empty
/// for a name that no Llama has.
[[nodiscard]] std::string nanotron_name(std::string_view name);

/// A list of regular expressions (ECMAScript). Each names the parameters whose name, Hugging Face's or
/// Nanotron's, it matches from the beginning. A tied weight goes by the name that it is stored under.
class DecayExclusion {
 public:
  /// Throws std::regex_error.
  explicit DecayExclusion(const std::vector<std::string>& patterns);
  ~DecayExclusion();
  DecayExclusion(const DecayExclusion&) = delete;
  DecayExclusion& operator=(const DecayExclusion&) = delete;

  [[nodiscard]] bool excludes(const std::string& stored_name) const;
  [[nodiscard]] bool matches(std::size_t pattern, const std::string& stored_name) const;

 private:
  struct Patterns;
  std::unique_ptr<const Patterns> patterns_;
};

}  // namespace weft
