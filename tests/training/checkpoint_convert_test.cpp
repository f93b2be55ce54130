#include <gmock/gmock.h>

#include <fstream>

#include "weft/base/error.h"
#include "weft/model/weights/hf_folder.h"
#include "weft/model/weights/hf_folder_writer.h"
#include "weft/tests/training/checkpoint_fixture.h"
#include "weft/training/checkpoint/checkpoint_search.h"
#include "weft/training/checkpoint/convert.h"

namespace weft {
namespace {

using testing::HasSubstr;

class CheckpointConvert : public CheckpointTest {
 protected:
  /// A Hugging Face folder with tensors of this type and random bits.
  void make_folder(const std::filesystem::path& where, DType dtype, bool tied, std::uint64_t shard_bytes) {
    LlamaArchitecture config;
    config.vocab_size = 9;
    config.hidden_size = 4;
    config.intermediate_size = 3;
    config.num_hidden_layers = 2;
    config.num_attention_heads = 2;
    config.num_key_value_heads = 1;
    config.head_dim = 2;
    config.tie_word_embeddings = tied;
    config.attention_bias = tied;
    std::mt19937 random(tied);
    std::vector<std::vector<std::byte>> bytes;
    std::vector<StoredTensor> tensors;
    for (auto& tensor : llama_tensors(config)) {
      std::size_t size = dtype_size(dtype);
      for (const auto dim : tensor.shape) size *= dim;
      auto& of_this = bytes.emplace_back(size);
      for (auto& byte : of_this) byte = static_cast<std::byte>(random());
      tensors.push_back({tensor.name, safetensors_type(dtype), dtype, tensor.shape, of_this});
    }
    const std::string text = to_hf_config(config, DType::float32, R"({"eos_token_id": 2})") + "  \n";
    write_hf_folder(where, text, tensors, shard_bytes);
  }

  static void expect_same(const std::filesystem::path& left, const std::filesystem::path& right) {
    const HfFolder a(left);
    const HfFolder b(right);
    EXPECT_EQ(a.config_text(), b.config_text());
    ASSERT_EQ(a.tensors().size(), b.tensors().size());
    for (std::size_t i = 0; i < a.tensors().size(); ++i) {
      const auto& x = *a.tensors()[i];
      const auto& y = *b.tensors()[i];
      EXPECT_EQ(x.name, y.name);
      EXPECT_EQ(x.describe(), y.describe());
      EXPECT_TRUE(std::equal(x.bytes.begin(), x.bytes.end(), y.bytes.begin(), y.bytes.end())) << x.name;
    }
  }
};

TEST_F(CheckpointConvert, ThereAndBackGivesTheSameBytes) {
  int number = 0;
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16})
    for (const bool tied : {false, true})
      for (const std::uint64_t shard_bytes : {1u << 20, 64u}) {
        const auto base = folder / std::to_string(number++);
        make_folder(base / "hf", dtype, tied, shard_bytes);
        const auto report = convert_hf_to_weft(base / "hf", base / "weft");
        const auto manifest = verify_checkpoint(base / "weft");
        EXPECT_EQ(manifest.position.step, 0u);
        EXPECT_EQ(manifest.position.optimizer, "");
        EXPECT_THAT(report.text, HasSubstr(manifest.weights_sha256));
        EXPECT_EQ(hash_report(base / "weft").text.substr(hash_report(base / "weft").text.size() - 65),
                  manifest.weights_sha256 + "\n");
        (void)convert_weft_to_hf(base / "weft", base / "again", shard_bytes);
        expect_same(base / "hf", base / "again");
      }
}

TEST_F(CheckpointConvert, TakesTheNewestValidOneOfAFolder) {
  make_folder(folder / "old", DType::float32, false, 1 << 20);
  make_folder(folder / "new", DType::float32, true, 1 << 20);
  (void)convert_hf_to_weft(folder / "old", checkpoints / "step-00000000");
  std::filesystem::create_directories(checkpoints / "step-00000005");
  const auto report = convert_weft_to_hf(checkpoints, folder / "out");
  EXPECT_THAT(report.skipped, testing::ElementsAre(HasSubstr("step-00000005")));
  expect_same(folder / "old", folder / "out");
}

TEST_F(CheckpointConvert, NeverWritesOverAnything) {
  make_folder(folder / "hf", DType::float32, false, 1 << 20);
  (void)convert_hf_to_weft(folder / "hf", folder / "weft");
  EXPECT_THROW((void)convert_hf_to_weft(folder / "hf", folder / "weft"), CheckpointError);
  EXPECT_THROW((void)convert_hf_to_weft(folder / "hf", folder / "hf"), CheckpointError);
  EXPECT_THROW((void)convert_weft_to_hf(folder / "weft", folder / "hf"), CheckpointError);
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW((void)convert_weft_to_hf(folder / "weft", folder / "file"), CheckpointError);
}

TEST_F(CheckpointConvert, RefusesWhatIsNoLlama) {
  EXPECT_THROW((void)convert_hf_to_weft(folder / "nowhere", folder / "weft"), CheckpointError);
  FakeModel model(1, DType::float32);
  const auto checkpoint = save(model, checkpoints, 1);
  try {
    (void)convert_weft_to_hf(checkpoint, folder / "hf");
    ADD_FAILURE();
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("not a Llama"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "weft"));
  EXPECT_FALSE(std::filesystem::exists(folder / "hf"));
}

}  // namespace
}  // namespace weft
