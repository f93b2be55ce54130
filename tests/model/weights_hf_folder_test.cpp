#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "../support/paths.h"
#include "weft/base/byte_order.h"
#include "weft/base/error.h"
#include "weft/base/files/durable_file.h"
#include "weft/model/weights/hf_folder.h"
#include "weft/model/weights/hf_folder_writer.h"
#include "weft/model/weights/load_parameter.h"
#include "weft/model/weights/safetensors_writer.h"
#include "weft/tensor/bfloat16.h"
#include "weft/tests/support/scratch_folder.h"

namespace weft {
namespace {

using testing::HasSubstr;

LlamaArchitecture small() {
  LlamaArchitecture config;
  config.vocab_size = 11;
  config.hidden_size = 6;
  config.intermediate_size = 5;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 2;
  return config;
}

/// Tensors of a model, each of its own values.
struct Model {
  std::vector<std::vector<float>> values;
  std::vector<StoredTensor> tensors;

  explicit Model(const LlamaArchitecture& config) {
    float next = 0;
    for (const auto& tensor : llama_tensors(config)) add(tensor.name, tensor.shape, next++);
  }
  void add(const std::string& name, const std::vector<std::uint64_t>& shape, float first) {
    std::size_t count = 1;
    for (const auto dim : shape) count *= dim;
    auto& of_this = values.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) of_this[i] = first + static_cast<float>(i) / 1024;
    tensors.push_back({name, "F32", DType::float32, shape, std::as_bytes(std::span(of_this))});
  }
  StoredTensor& at(const std::string& name) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  }
};

class HfFolders : public testing::Test {
 protected:
  void write(const LlamaArchitecture& config, const Model& model, std::uint64_t shard_bytes = 1 << 20) {
    std::filesystem::remove_all(folder);
    write_hf_folder(folder, to_hf_config(config, DType::float32), model.tensors, shard_bytes);
  }
  [[nodiscard]] std::string problem() const {
    try {
      const HfFolder opened(folder);
    } catch (const CheckpointError& error) {
      return error.what();
    }
    return "accepted";
  }
  void change_index(const std::function<void(nlohmann::json&)>& change) const {
    const auto path = folder / "model.safetensors.index.json";
    auto tree = nlohmann::json::parse(read_small_file(path, 1 << 20));
    change(tree);
    replace_file(path, tree.dump());
  }

  const test::ScratchFolder own_folder;
  const std::filesystem::path scratch = own_folder.path();
  const std::filesystem::path folder = scratch / "hf";
};

TEST_F(HfFolders, ListEveryTensorOfALlama) {
  auto config = small();
  config.attention_bias = true;
  const auto tensors = llama_tensors(config);
  EXPECT_EQ(tensors.size(), 3u + 2 * 13);
  const auto shape = [&](const std::string& name) {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
    return found == tensors.end() ? std::vector<std::uint64_t>{} : found->shape;
  };
  using Dims = std::vector<std::uint64_t>;
  EXPECT_EQ(shape("model.embed_tokens.weight"), (Dims{11, 6}));
  EXPECT_EQ(shape("model.layers.0.input_layernorm.weight"), (Dims{6}));
  EXPECT_EQ(shape("model.layers.1.self_attn.q_proj.weight"), (Dims{8, 6}));
  EXPECT_EQ(shape("model.layers.1.self_attn.q_proj.bias"), (Dims{8}));
  EXPECT_EQ(shape("model.layers.1.self_attn.k_proj.weight"), (Dims{4, 6}));
  EXPECT_EQ(shape("model.layers.1.self_attn.v_proj.bias"), (Dims{4}));
  EXPECT_EQ(shape("model.layers.1.self_attn.o_proj.weight"), (Dims{6, 8}));
  EXPECT_EQ(shape("model.layers.1.self_attn.o_proj.bias"), (Dims{6}));
  EXPECT_EQ(shape("model.layers.1.post_attention_layernorm.weight"), (Dims{6}));
  EXPECT_EQ(shape("model.layers.1.mlp.gate_proj.weight"), (Dims{5, 6}));
  EXPECT_EQ(shape("model.layers.1.mlp.up_proj.weight"), (Dims{5, 6}));
  EXPECT_EQ(shape("model.layers.1.mlp.down_proj.weight"), (Dims{6, 5}));
  EXPECT_EQ(shape("model.norm.weight"), (Dims{6}));
  EXPECT_EQ(shape("lm_head.weight"), (Dims{11, 6}));
}

TEST_F(HfFolders, GiveBackTheSameBytesInAnyNumberOfFiles) {
  for (const bool tied : {false, true}) {
    auto config = small();
    config.tie_word_embeddings = tied;
    config.attention_bias = tied;
    const Model model(config);
    for (const std::uint64_t shard_bytes : {1u << 20, 500u, 100u, 1u}) {
      write(config, model, shard_bytes);
      const HfFolder opened(folder);
      EXPECT_EQ(opened.config_text(), to_hf_config(config, DType::float32));
      ASSERT_EQ(opened.tensors().size(), model.tensors.size());
      for (std::size_t i = 0; i < model.tensors.size(); ++i) {
        EXPECT_EQ(opened.tensors()[i]->name, model.tensors[i].name);
        EXPECT_TRUE(std::equal(model.tensors[i].bytes.begin(), model.tensors[i].bytes.end(),
                               opened.tensors()[i]->bytes.begin(), opened.tensors()[i]->bytes.end()));
      }
      const bool single = std::filesystem::exists(folder / "model.safetensors");
      EXPECT_EQ(single, shard_bytes == 1u << 20);
      if (shard_bytes == 1) {
        EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}),
                  static_cast<std::ptrdiff_t>(model.tensors.size() + 2));
      }
      for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".safetensors") {
          EXPECT_EQ(SafetensorsFile(entry.path()).metadata().at("format"), "pt");
        }
    }
  }
}

TEST_F(HfFolders, OfTransformersThemselvesAreRead) {
  for (const char* name : {"mha_tied", "gqa_untied", "deep_gqa"}) {
    const HfFolder golden(std::filesystem::path(weft::test::data_dir()) / "llama" / name);
    EXPECT_EQ(golden.tensors().size(), SafetensorsFile(std::filesystem::path(weft::test::data_dir()) /
                                                       "llama" / name / "model.safetensors")
                                           .tensors()
                                           .size());
    EXPECT_EQ(golden.config().dtype, DType::float32);
  }
}

TEST_F(HfFolders, AreNotWrittenOverAnything) {
  const Model model(small());
  write(small(), model);
  EXPECT_THROW(write_hf_folder(folder, "{}", model.tensors), CheckpointError);
  std::ofstream(scratch / "file") << "x";
  EXPECT_THROW(write_hf_folder(scratch / "file", "{}", model.tensors), CheckpointError);
  std::filesystem::create_directory(scratch / "empty");
  write_hf_folder(scratch / "empty" / "", to_hf_config(small(), DType::float32), model.tensors);
  EXPECT_EQ(HfFolder(scratch / "empty").tensors().size(), model.tensors.size());
  auto broken = model.tensors;
  broken[3].name = broken[2].name;
  EXPECT_THROW(write_hf_folder(scratch / "broken", "{}", broken), CheckpointError);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch), {}), 3)
      << "something was left behind";
}

TEST_F(HfFolders, NameTensorsThatAreMissingUnexpectedOrOfAnotherShape) {
  Model model(small());
  model.at("model.norm.weight").name = "model.norm.wieght";
  write(small(), model);
  EXPECT_THAT(problem(), HasSubstr("missing: \"model.norm.weight\"; unexpected: \"model.norm.wieght\""));
  model.at("model.norm.wieght").name = "model.norm.weight";
  model.at("lm_head.weight").shape = {6, 11};
  write(small(), model);
  EXPECT_THAT(problem(), HasSubstr("lm_head.weight is F32 [6, 11], config.json makes it F32 [11, 6]"));

  auto more_layers = small();
  more_layers.num_hidden_layers = 3;
  write(more_layers, Model(small()));
  EXPECT_THAT(problem(), HasSubstr("model.layers.2.input_layernorm.weight"));
  EXPECT_THAT(problem(), HasSubstr("and 1 more"));
  more_layers.num_hidden_layers = 200'000'000;
  write(more_layers, Model(small()));
  EXPECT_THAT(problem(), HasSubstr("200000000 layers"));
  auto biased = small();
  biased.attention_bias = true;
  write(biased, Model(small()));
  EXPECT_THAT(problem(), HasSubstr("model.layers.0.self_attn.k_proj.bias"));
  write(small(), Model(biased));
  EXPECT_THAT(problem(), HasSubstr("unexpected: \"model.layers.0.self_attn.k_proj.bias\""));
}

TEST_F(HfFolders, RefuseTypesThatAreNoWeights) {
  Model model(small());
  model.at("model.norm.weight").dtype = DType::int32;
  write(small(), model);
  EXPECT_THAT(problem(), HasSubstr("model.norm.weight is I32 [6]; weft reads F32, BF16 and F16"));
}

TEST_F(HfFolders, TakeAStoredHeadOfATiedModelOnlyIfItIsTheEmbedding) {
  auto config = small();
  config.tie_word_embeddings = true;
  Model model(config);
  model.add("lm_head.weight", {11, 6}, 0);  // the embedding's values
  write(config, model);
  EXPECT_EQ(HfFolder(folder).tensors().size(), model.tensors.size() - 1);
  model.values.back()[3] += 1;
  write(config, model);
  EXPECT_THAT(problem(), HasSubstr("lm_head.weight differs"));
}

TEST_F(HfFolders, PassOverRotaryFrequenciesOfOldFiles) {
  Model model(small());
  model.add("model.layers.0.self_attn.rotary_emb.inv_freq", {1}, 0);
  for (const std::uint64_t shard_bytes : {1u << 20, 100u}) {
    write(small(), model, shard_bytes);
    EXPECT_EQ(HfFolder(folder).tensors().size(), model.tensors.size() - 1);
  }
  change_index([](auto& t) { t["weight_map"].erase("model.layers.0.self_attn.rotary_emb.inv_freq"); });
  EXPECT_EQ(problem(), "accepted");
}

TEST_F(HfFolders, CheckTheIndexAgainstTheFiles) {
  const Model model(small());
  const auto with = [&](const std::function<void(nlohmann::json&)>& change) {
    write(small(), model, 500);
    change_index(change);
    return problem();
  };
  EXPECT_EQ(with([](auto&) {}), "accepted");
  for (const char* name : {"../hf/model-00001-of-00004.safetensors", "/etc/passwd", "", ".", ".."})
    EXPECT_THAT(with([&](auto& t) { t["weight_map"]["model.norm.weight"] = name; }),
                HasSubstr("not in a file of this folder"))
        << name;
  EXPECT_THAT(with([](auto& t) { t["weight_map"]["model.norm.weight"] = 5; }),
              HasSubstr("not in a file of this folder"));
  // entries that nothing is behind do not matter, as long as all tensors are there
  EXPECT_EQ(with([](auto& t) { t["weight_map"]["model.norm.weight"] = "none.safetensors"; }), "accepted");
  EXPECT_EQ(with([](auto& t) {
              t["weight_map"]["model.norm.weight"] = t["weight_map"]["model.embed_tokens.weight"];
            }),
            "accepted");
  EXPECT_EQ(with([](auto& t) { t["weight_map"]["ghost"] = t["weight_map"]["model.norm.weight"]; }),
            "accepted");
  EXPECT_EQ(with([](auto& t) { t["weight_map"].erase("model.norm.weight"); }), "accepted");
  write(small(), model, 500);
  const std::string first =
      nlohmann::json::parse(read_small_file(folder / "model.safetensors.index.json", 1 << 20))
          .at("weight_map")
          .at("model.embed_tokens.weight");
  std::filesystem::remove(folder / first);
  EXPECT_THAT(problem(), HasSubstr("\"" + first +
                                   "\", which model.safetensors.index.json names, is not there: missing: "));
  EXPECT_THAT(with([](auto& t) { t.erase("weight_map"); }), HasSubstr("no weight_map"));
  EXPECT_THAT(with([](auto& t) { t["weight_map"] = 1; }), HasSubstr("no weight_map"));
}

TEST_F(HfFolders, TakeTheFileThatTheIndexNamesForATensorOfTwoFiles) {
  const Model model(small());
  write(small(), model, 500);
  Model other(small());
  other.values.back()[0] = 77;  // of lm_head.weight
  write_new_safetensors(folder / "second.safetensors", std::span(&other.tensors.back(), 1));
  const auto first_of_head = [&] { return load_le<float>(HfFolder(folder).tensors().back()->bytes.data()); };
  const float kept = model.values.back()[0];
  change_index([](auto& t) { t["weight_map"]["extra"] = "second.safetensors"; });
  EXPECT_EQ(first_of_head(), kept);
  change_index([](auto& t) { t["weight_map"]["lm_head.weight"] = "second.safetensors"; });
  EXPECT_EQ(first_of_head(), 77);
  change_index([](auto& t) { t["weight_map"].erase("lm_head.weight"); });
  EXPECT_THAT(problem(), HasSubstr("both hold tensor \"lm_head.weight\", and the index names neither"));
}

double sum(const StoredTensor& tensor) {
  double total = 0;
  for (std::size_t i = 0; i < tensor.bytes.size() / 4; ++i)
    total += load_le<float>(tensor.bytes.data() + 4 * i);
  return total;
}

TEST_F(HfFolders, ReadATiedPairThatIsStoredUnderTheHeadsName) {
  const HfFolder opened(std::filesystem::path(weft::test::data_dir()) / "llama" / "head_only");
  ASSERT_EQ(opened.tensors().front()->name, "model.embed_tokens.weight");
  EXPECT_NEAR(sum(*opened.tensors().front()), -0.8461438, 1e-6);
  EXPECT_EQ(opened.tensors().size(), llama_tensors(opened.config().llama).size());

  auto config = small();
  config.tie_word_embeddings = true;
  Model model(config);
  model.at("model.embed_tokens.weight").name = "lm_head.weight";  // without a word in the metadata
  write(config, model);
  EXPECT_EQ(HfFolder(folder).tensors().front()->name, "model.embed_tokens.weight");
  write(config, model, 100);
  EXPECT_EQ(problem(), "accepted");
  write(small(), model);
  EXPECT_THAT(problem(), HasSubstr("missing: \"model.embed_tokens.weight\"")) << "untied they are two";
}

TEST_F(HfFolders, ReadTensorsUnderTheNamesThatTheMetadataGiveThem) {
  Model model(small());
  model.at("model.norm.weight").name = "shared";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << to_hf_config(small(), DType::float32);
  // a text that is no name of the model's stays text
  write_new_safetensors(folder / "model.safetensors", model.tensors,
                        {{"model.norm.weight", "shared"}, {"author", "lm_head.weight"}, {"format", "pt"}});
  EXPECT_EQ(problem(), "accepted");
  std::filesystem::remove(folder / "model.safetensors");
  model.at("shared").name = "model.norm.weight";
  model.at("lm_head.weight").name = "model.embed_tokens.weight.copy";
  auto tensors = model.tensors;
  std::erase_if(tensors, [](const auto& t) { return t.name == "model.embed_tokens.weight.copy"; });
  write_new_safetensors(folder / "model.safetensors", tensors,
                        {{"lm_head.weight", "model.embed_tokens.weight"}});
  EXPECT_EQ(HfFolder(folder).tensors().back()->name, "lm_head.weight");
}

TEST_F(HfFolders, CallCommonMistakesByTheirNames) {
  using namespace std::string_literals;
  write(small(), Model(small()));
  const std::string whole = read_small_file(folder / "model.safetensors", 1 << 20);
  const std::pair<std::string, std::string> cases[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 2471645608\n",
       "is a git-LFS pointer, not the file itself of 2471645608 bytes; fetch it with `git lfs pull`"},
      {"\n<!DOCTYPE html><html>Sign in</html>", "is a page of a web server"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "is a page of a web server"},
      {"PK\x03\x04\x00\x00"s, "is a zip archive, as PyTorch saves pickles"},
      {"\x80\x02}q\x00"s, "is a Python pickle"},
      {"GGUF\x03\x00\x00\x00"s, "is a GGUF file"},
      {"", "is empty"},
      {std::string(100, '\0'), "begins with zeros only"},
      {whole.substr(0, 5), "has 5 bytes"},
      {whole.substr(0, 200), "is cut short, or no safetensors file"},
      {whole.substr(0, whole.size() - 9), "is cut short: the tensors take"},
      {"Not found, sorry", "does not begin as a safetensors file"}};
  for (const auto& [bytes, expected] : cases) {
    std::ofstream(folder / "model.safetensors", std::ios::binary) << bytes;
    EXPECT_THAT(problem(), testing::AllOf(HasSubstr("model.safetensors: "), HasSubstr(expected)));
  }
  std::ofstream(folder / "config.json") << cases[0].first;
  EXPECT_THAT(problem(), HasSubstr("config.json: is a git-LFS pointer"));
}

TEST_F(HfFolders, SayWhatIsMissing) {
  EXPECT_THAT(problem(), HasSubstr("config.json cannot be opened"));
  write(small(), Model(small()));
  std::filesystem::remove(folder / "model.safetensors");
  EXPECT_THAT(problem(), HasSubstr("neither model.safetensors nor"));
  std::ofstream(folder / "pytorch_model.bin") << "x";
  EXPECT_THAT(problem(),
              HasSubstr("; save pytorch_model.bin as safetensors first, weft does not read pickles"));
  std::ofstream(folder / "model-00001-of-00002.safetensors") << "x";
  EXPECT_THAT(problem(),
              HasSubstr("; model-00001-of-00002.safetensors is there: if it is one of several, their "
                        "index is missing"));
  std::ofstream(folder / "adapter_model.safetensors") << "x";
  EXPECT_THAT(problem(), HasSubstr("it holds an adapter"));
}

/// A parameter with memory of its own.
struct Loaded {
  std::vector<float> value;
  std::vector<float> master;
  Parameter parameter;
  Loaded(const std::string& name, const Shape& shape, DType dtype)
      : value(shape.elements()), master(shape.elements()) {
    parameter.name = name;
    parameter.shape = shape;
    parameter.dtype = dtype;
    parameter.value = reinterpret_cast<std::byte*>(value.data());
    if (dtype == DType::bfloat16) parameter.master = master.data();
  }
};

TEST_F(HfFolders, FillTheParametersThatARankAsksFor) {
  auto config = small();
  config.tie_word_embeddings = true;
  Model model(config);
  write(config, model);
  const HfFolder opened(folder);
  Loaded norm("model.norm.weight", Shape{6}, DType::float32);
  Loaded head("lm_head.weight", Shape{11, 6}, DType::bfloat16);
  head.parameter.tied_to = "model.embed_tokens.weight";
  const std::vector<Parameter*> wanted{&norm.parameter, &head.parameter};
  opened.load(wanted);
  EXPECT_EQ(std::memcmp(norm.value.data(), model.at("model.norm.weight").bytes.data(), 24), 0);
  for (std::size_t i = 0; i < 66; ++i) {
    const float exact = static_cast<float>(i) / 1024;
    EXPECT_EQ(head.master[i], exact);
    EXPECT_EQ(load_le<std::uint16_t>(head.parameter.value + 2 * i), to_bfloat16(exact).bits);
  }
  Loaded wrong("model.norm.weight", Shape{7}, DType::float32);
  Loaded unknown("model.norm.bias", Shape{6}, DType::float32);
  for (auto* bad : {&wrong.parameter, &unknown.parameter})
    EXPECT_THROW(opened.load(std::vector<Parameter*>{bad}), CheckpointError);
}

// 16-bit numbers: every one of them, against the definition of the formats.
TEST(StoredNumbers, AreConvertedExactly) {
  std::vector<std::byte> bytes(2 * 65536);
  for (std::size_t i = 0; i < 65536; ++i) store_le(bytes.data() + 2 * i, static_cast<std::uint16_t>(i));
  const StoredTensor half{"h", "F16", DType::float16, {65536}, bytes};
  const StoredTensor brain{"b", "BF16", DType::bfloat16, {65536}, bytes};
  Loaded from_half("h", Shape{65536}, DType::float32);
  Loaded rounded("h", Shape{65536}, DType::bfloat16);
  Loaded from_brain("b", Shape{65536}, DType::float32);
  load_parameter(from_half.parameter, half, "f");
  load_parameter(rounded.parameter, half, "f");
  load_parameter(from_brain.parameter, brain, "f");
  for (std::size_t i = 0; i < 65536; ++i) {
    const int exponent = static_cast<int>(i >> 10 & 31);
    const double fraction = static_cast<double>(i & 1023) / 1024;
    const double sign = i >> 15 ? -1 : 1;
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(from_half.value[i]), fraction != 0);
      EXPECT_EQ(std::isinf(from_half.value[i]), fraction == 0);
      EXPECT_EQ(std::signbit(from_half.value[i]), sign < 0);
    } else {
      const double expected =
          sign * (exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15));
      EXPECT_EQ(from_half.value[i], expected);
      EXPECT_EQ(std::signbit(from_half.value[i]), sign < 0);
    }
    const auto bits = std::bit_cast<std::uint32_t>(from_half.value[i]);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(rounded.master[i]), bits);
    EXPECT_EQ(load_le<std::uint16_t>(rounded.parameter.value + 2 * i), to_bfloat16(from_half.value[i]).bits);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(from_brain.value[i]), static_cast<std::uint32_t>(i) << 16);
  }
}

}  // namespace
}  // namespace weft
