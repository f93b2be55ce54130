#pragma once
// Hugging Face's tokenizer.json with a BPE model: GPT-2, Llama 3, SmolLM2, Qwen (tokens are bytes), and
// TinyLlama, Llama 2, Mistral (SentencePiece's tokens in this form).
#include <filesystem>
#include <memory>
#include <string>

#include "weft/tokenizer/tokenizer.h"

namespace weft {

/// Reads `file` (and, for bos and eos, tokenizer_config.json beside it). `name` stands for it in messages.
/// Gives the same ids as the `tokenizers` package. Throws TokenizerError that names the file, and the JSON
/// path of whatever weft does not compute exactly.
[[nodiscard]] std::unique_ptr<Tokenizer> load_json_tokenizer(const std::filesystem::path& file,
                                                             const std::string& name);

/// The same from text in memory, without what lies beside it.
[[nodiscard]] std::unique_ptr<Tokenizer> parse_json_tokenizer(std::string_view json, const std::string& name);

}  // namespace weft
