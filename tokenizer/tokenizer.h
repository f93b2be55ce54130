#pragma once
// Text to token ids and back.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// Token ids to text, one after another: what comes out, taken together, is what decoding all ids at once
/// gives. Characters that are not complete yet are held back.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  /// The text that `id` completes; UTF-8. Ids outside the vocabulary are no text.
  [[nodiscard]] virtual std::string next(std::uint32_t id) = 0;
  /// What was held back, with U+FFFD for what stays incomplete. The decoder begins anew.
  [[nodiscard]] virtual std::string finish() = 0;
};

/// Whether the text of special tokens (`</s>`, `<|endoftext|>`, ...) is left out or kept when decoding.
enum class SpecialTokens : std::uint8_t { leave_out, keep };

/// One tokenizer. An object belongs to one thread at a time, since it remembers words; `share()` gives other
/// threads objects over the same tables.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Appends the ids of `text`, without what a prompt has before and after it. Malformed UTF-8 is read as
  /// U+FFFD, one for each maximal part that could begin a character; returns their number. Time is
  /// n log n in the length of the text at most.
  virtual std::size_t encode(std::string_view text, std::vector<std::uint32_t>& ids) = 0;
  [[nodiscard]] std::vector<std::uint32_t> encode(std::string_view text);
  /// The same between what the tokenizer's own post-processor puts around a single text (bos, or nothing).
  [[nodiscard]] std::vector<std::uint32_t> encode_prompt(std::string_view text);

  [[nodiscard]] virtual std::unique_ptr<TokenDecoder> decoder(SpecialTokens special) const = 0;
  [[nodiscard]] std::string decode(std::span<const std::uint32_t> ids,
                                   SpecialTokens special = SpecialTokens::leave_out) const;

  /// Ids are smaller than this: the largest one + 1.
  [[nodiscard]] virtual std::size_t vocab_size() const noexcept = 0;
  [[nodiscard]] virtual std::optional<std::uint32_t> bos() const noexcept = 0;
  [[nodiscard]] virtual std::optional<std::uint32_t> eos() const noexcept = 0;
  /// What a prompt has before and after its text.
  [[nodiscard]] virtual std::span<const std::uint32_t> prompt_prefix() const noexcept = 0;
  [[nodiscard]] virtual std::span<const std::uint32_t> prompt_suffix() const noexcept = 0;
  /// `byte`, or the path it was loaded from, as the user wrote it.
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  /// SHA-256 in hexadecimal of the file that defines it, or `byte`: equal ones give equal ids.
  [[nodiscard]] virtual const std::string& fingerprint() const noexcept = 0;

  [[nodiscard]] virtual std::unique_ptr<Tokenizer> share() const = 0;
};

/// The tokenizer that `name_or_path` (`tokenizer.tokenizer_name_or_path`) stands for: `byte`, a folder with
/// tokenizer.json or tokenizer.model, or one of those files. Throws TokenizerError naming the file, and the
/// JSON path of what weft does not compute exactly.
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_path);

}  // namespace weft
