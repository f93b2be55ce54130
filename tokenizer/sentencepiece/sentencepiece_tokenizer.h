#pragma once
// SentencePiece's `.model` files (Llama 2, Mistral), by the SentencePiece library.
#include <filesystem>
#include <memory>
#include <string>

#include "weft/tokenizer/tokenizer.h"

namespace weft {

/// Reads `file`; `name` stands for it in messages. A prompt begins with bos where the model has one, unless
/// tokenizer_config.json beside it says `add_bos_token: false`. Throws TokenizerError.
[[nodiscard]] std::unique_ptr<Tokenizer> load_sentencepiece_tokenizer(const std::filesystem::path& file,
                                                                      const std::string& name);

}  // namespace weft
