#include "weft/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../support/paths.h"
#include "weft/base/error.h"
#include "weft/tests/support/scratch_folder.h"
#include "weft/tokenizer/json/json_tokenizer.h"

namespace {

using namespace weft;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// A vocabulary of bytes with a few merges: "th", "the", " th", " the".
json small_json() {
  json vocab = json::object();
  const std::string blank = "\u0120";
  std::uint32_t id = 0;
  for (const char* token : {"t", "h", "e", "c", "a", "x", "th", "the"}) vocab[token] = id++;
  vocab[blank] = id++;
  vocab[blank + "th"] = id++;
  vocab[blank + "the"] = id++;
  vocab["\u00C3"] = id++;  // the byte C3
  vocab["\u00A9"] = id++;  // the byte A9
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", json::array({{{"id", 13},
                                         {"content", "<end>"},
                                         {"single_word", false},
                                         {"lstrip", false},
                                         {"rstrip", false},
                                         {"normalized", false},
                                         {"special", true}}})},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"vocab", vocab},
            {"merges", json::array({"t h", blank + " th", "th e", blank + "th e"})}}}};
}

std::unique_ptr<Tokenizer> small() { return parse_json_tokenizer(small_json().dump(), "small.json"); }

std::string refusal(const json& file) {
  try {
    (void)parse_json_tokenizer(file.dump(), "small.json");
  } catch (const TokenizerError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(JsonTokenizer, MergesByRankAndFindsAddedTokens) {
  const auto tokenizer = small();
  EXPECT_THAT(tokenizer->encode("the cat"), ElementsAre(7, 8, 3, 4, 0));
  EXPECT_THAT(tokenizer->encode("the the<end>the"), ElementsAre(7, 10, 13, 7));
  EXPECT_EQ(tokenizer->vocab_size(), 14u);
  EXPECT_EQ(tokenizer->eos(), std::nullopt);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("the cat<end>"), SpecialTokens::keep), "the cat<end>");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("the cat<end>")), "the cat");
}

TEST(JsonTokenizer, CountsMalformedBytesAndHoldsIncompleteCharactersBack) {
  const auto tokenizer = small();
  std::vector<std::uint32_t> ids;
  EXPECT_EQ(tokenizer->encode("\xFF the \xC3", ids), 2u);
  const auto decoder = tokenizer->decoder(SpecialTokens::leave_out);
  EXPECT_EQ(decoder->next(11), "");
  EXPECT_EQ(decoder->next(12), "\u00E9");
  EXPECT_EQ(decoder->next(11), "");
  EXPECT_EQ(decoder->finish(), "\uFFFD");
  EXPECT_EQ(decoder->next(99), "") << "outside of the vocabulary";
}

TEST(JsonTokenizer, SharedTablesGiveTheSameIds) {
  const auto one = small();
  const auto other = one->share();
  EXPECT_EQ(one->encode("the xthe cat"), other->encode("the xthe cat"));
  EXPECT_EQ(one->fingerprint(), other->fingerprint());
}

TEST(JsonTokenizer, AWordOfAMegabyteIsMergedAsAWhole) {
  std::string word;
  while (word.size() < 1'000'000) word += "the";
  const auto ids = small()->encode(word);
  EXPECT_EQ(ids.size(), word.size() / 3);
  EXPECT_EQ(ids.back(), 7u);
}

TEST(JsonTokenizer, TheTemplateStandsAroundPromptsOnly) {
  json file = small_json();
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", json::array({{{"SpecialToken", {{"id", "<end>"}, {"type_id", 0}}}},
                              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                              {{"SpecialToken", {{"id", "<end>"}, {"type_id", 0}}}}})},
      {"pair", json::array()},
      {"special_tokens", {{"<end>", {{"id", "<end>"}, {"ids", {13}}, {"tokens", {"<end>"}}}}}}};
  const auto tokenizer = parse_json_tokenizer(file.dump(), "small.json");
  EXPECT_THAT(tokenizer->encode("the"), ElementsAre(7));
  EXPECT_THAT(tokenizer->encode_prompt("the"), ElementsAre(13, 7, 13));
}

TEST(JsonTokenizer, RefusesWhatItDoesNotComputeByItsPath) {
  const auto with = [](const char* pointer, json value) {
    json file = small_json();
    file[json::json_pointer(pointer)] = std::move(value);
    return refusal(file);
  };
  EXPECT_EQ(refusal(small_json()), "accepted");
  EXPECT_THAT(with("/model/type", "Unigram"), HasSubstr("small.json: model.type: Unigram is not computed"));
  EXPECT_THAT(with("/model/dropout", 0.1), HasSubstr("model.dropout: "));
  EXPECT_THAT(with("/model/continuing_subword_prefix", "##"), HasSubstr("model.continuing_subword_prefix: "));
  EXPECT_THAT(with("/model/unk_token", "<unk>"), HasSubstr("model.unk_token: is not in model.vocab"));
  EXPECT_THAT(with("/model/merges/2", "th z"), HasSubstr("model.merges[2]: "));
  EXPECT_THAT(with("/model/merges/1", "th"), HasSubstr("model.merges[1]: "));
  EXPECT_THAT(with("/model/merges/1", json::array({"th"})), HasSubstr("model.merges[1]: "));
  EXPECT_THAT(with("/model/vocab/t", -1), HasSubstr("model.vocab.\"t\": is no id"));
  EXPECT_THAT(with("/model/vocab/t", 1), HasSubstr("have one id, 1"));
  EXPECT_THAT(with("/model/vocab", 3), HasSubstr("model.vocab: is no object"));
  EXPECT_THAT(with("/normalizer", {{"type", "Lowercase"}}),
              HasSubstr("normalizer: Lowercase is not computed"));
  EXPECT_THAT(with("/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "NFKC"}}}}}),
              HasSubstr("normalizer.normalizers[0]: NFKC"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "BertPreTokenizer"}}), HasSubstr("pre_tokenizer: "));
  const auto split = [&](const std::string& regex) {
    return with(
        "/pre_tokenizer",
        {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}});
  };
  EXPECT_EQ(split(R"([^\r\n\p{L}\p{N}]?\p{L}+|\S)"), "accepted");
  EXPECT_THAT(split(R"(\p{Han}+)"), HasSubstr("pre_tokenizer.pattern: \\p{Han} is no general category"));
  EXPECT_THAT(split("[a-z&&[b]]"), HasSubstr("sets inside of sets"));
  EXPECT_THAT(split("(?x) a"), HasSubstr("pre_tokenizer.pattern: the group"));
  EXPECT_THAT(split("(a"), HasSubstr("cannot be compiled"));
  EXPECT_THAT(split(R"(\b)"), HasSubstr("\\b has no meaning here"));
  EXPECT_THAT(with("/decoder", {{"type", "WordPiece"}}), HasSubstr("decoder: WordPiece is not computed"));
  EXPECT_THAT(with("/post_processor", {{"type", "BertProcessing"}}), HasSubstr("post_processor: "));
  EXPECT_THAT(with("/truncation", {{"max_length", 8}}), HasSubstr("truncation: "));
  EXPECT_THAT(with("/added_tokens/0/id", 3), HasSubstr("added_tokens[0]: its id 3 is that of \"c\""));
  EXPECT_THAT(refusal(json::array()), HasSubstr("no tokenizer.json"));
  try {
    (void)parse_json_tokenizer("{\"model\": ", "cut.json");
    FAIL();
  } catch (const TokenizerError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cut.json: the file is not JSON, or not all of it"));
  }
}

class LoadTokenizer : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  std::string error_of(const std::string& name) {
    try {
      (void)load_tokenizer(name);
    } catch (const TokenizerError& error) {
      return error.what();
    }
    return "loaded";
  }

  const test::ScratchFolder scratch_;
  const std::filesystem::path folder_ = scratch_.path();
};

TEST_F(LoadTokenizer, ByteIsBytes) {
  const auto tokenizer = load_tokenizer("byte");
  const std::string all(
      "\x00\xFF"
      "a\xC3",
      4);
  EXPECT_THAT(tokenizer->encode(all), ElementsAre(0, 255, 'a', 0xC3));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(all)), all);
  EXPECT_EQ(tokenizer->vocab_size(), 256u);
}

TEST_F(LoadTokenizer, TakesAFolderOrAFileAndItsSpecialTokensFromBesideIt) {
  write("tokenizer.json", small_json().dump());
  write("tokenizer_config.json", R"({"eos_token": {"content": "<end>"}, "bos_token": null})");
  const auto tokenizer = load_tokenizer(folder_.string());
  EXPECT_EQ(tokenizer->eos(), 13u);
  EXPECT_EQ(tokenizer->bos(), std::nullopt);
  EXPECT_EQ(tokenizer->name(), (folder_ / "tokenizer.json").string());
  EXPECT_EQ(load_tokenizer((folder_ / "tokenizer.json").string())->fingerprint(), tokenizer->fingerprint());
}

TEST_F(LoadTokenizer, SaysWhatIsMissing) {
  EXPECT_THAT(error_of("gpt2"), HasSubstr("gpt2: there is no such folder or file; allowed: byte, a folder"));
  EXPECT_THAT(error_of(folder_.string()), HasSubstr("holds no tokenizer.json and no tokenizer.model"));
  write("words.txt", "x");
  EXPECT_THAT(error_of((folder_ / "words.txt").string()), HasSubstr("neither a .json nor a .model file"));
  write("tokenizer.model", "x");
  EXPECT_THAT(error_of(folder_.string()), HasSubstr("tokenizer.model: is no SentencePiece model"));
}

TEST_F(LoadTokenizer, SentencePieceComesBackAsItWentIn) {
  const auto prefix = (folder_ / "tokenizer").string();
  const auto trained = sentencepiece::SentencePieceTrainer::Train(
      "--input=" + test::source_dir() + "/LICENSE --model_prefix=" + prefix +
      " --vocab_size=500 --model_type=bpe --byte_fallback=true --character_coverage=0.99 --minloglevel=2 "
      "--normalization_rule_name=identity --remove_extra_whitespaces=false");
  ASSERT_TRUE(trained.ok()) << trained.ToString();
  const auto tokenizer = load_tokenizer(folder_.string());
  EXPECT_EQ(tokenizer->vocab_size(), 500u);
  EXPECT_EQ(tokenizer->bos(), 1u);
  EXPECT_EQ(tokenizer->eos(), 2u);
  EXPECT_EQ(tokenizer->encode_prompt("License").front(), 1u);
  for (const std::string text :
       {"the License", "  two blanks", "a\u00E9\u65E5b \U0001F642!", "", "  ", "a   b"}) {
    const auto ids = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(ids), text);
    const auto decoder = tokenizer->decoder(SpecialTokens::leave_out);
    std::string streamed;
    for (const auto id : ids) {
      streamed += decoder->next(id);
      EXPECT_EQ(text.compare(0, streamed.size(), streamed), 0) << "nothing is taken back";
    }
    EXPECT_EQ(streamed + decoder->finish(), text);
  }
  write("tokenizer_config.json", R"({"add_bos_token": false})");
  EXPECT_TRUE(load_tokenizer(folder_.string())->prompt_prefix().empty());
}

}  // namespace
