#include "weft/model/weights/weights_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

#include "weft/base/error.h"
#include "weft/base/sha256.h"

namespace weft {
namespace {

TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 pieces;
  pieces.update("a");
  pieces.update("");
  pieces.update("bc");
  EXPECT_EQ(pieces.hex(), sha256_hex("abc"));
}

std::vector<std::byte> ones() {
  std::vector<std::byte> bytes(8);
  bytes[2] = bytes[6] = std::byte{0x80};
  bytes[3] = bytes[7] = std::byte{0x3f};
  return bytes;
}

TEST(WeightsHash, HasTheLineThatItsHeaderDescribes) {
  auto values = ones();
  EXPECT_EQ(weights_hash_line("model.norm.weight", DType::float32, std::vector<std::uint64_t>{2}, values),
            "model.norm.weight F32 [2] " + sha256_hex(values));
  EXPECT_EQ(weights_hash_line("x", DType::bfloat16, std::vector<std::uint64_t>{2, 2}, values),
            "x BF16 [2,2] " + sha256_hex(values));
  EXPECT_EQ(weights_hash_line("s", DType::int64, {}, values), "s I64 [] " + sha256_hex(values));
  EXPECT_THROW((void)weights_hash_line("x", DType::float32, std::vector<std::uint64_t>{3}, values), Error);
}

TEST(WeightsHash, LeavesOutTheSecondUseOfATiedWeight) {
  auto values = ones();
  Parameter embedding;
  embedding.name = "embed";
  embedding.shape = Shape{2};
  embedding.value = values.data();
  Parameter head = embedding;
  head.name = "lm_head";
  head.tied_to = "embed";
  const std::vector<Parameter*> parameters{&head, &embedding};
  EXPECT_EQ(weights_hash_lines(parameters), std::vector<std::string>{"embed F32 [2] " + sha256_hex(values)});
}

TEST(WeightsHash, IsTheHashOfTheSortedLinesWhateverTheirOrder) {
  const std::vector<std::string> sorted{"a.10 F32 [1] x", "a.2 F32 [1] y", "b F32 [1] z"};
  const std::string expected = sha256_hex("a.10 F32 [1] x\na.2 F32 [1] y\nb F32 [1] z\n");
  auto lines = sorted;
  do {
    EXPECT_EQ(weights_sha256(lines), expected);
  } while (std::next_permutation(lines.begin(), lines.end()));
  EXPECT_NE(weights_sha256({"a F32 [1] x"}), weights_sha256({"a F32 [1] y"}));
}

TEST(WeightsHash, RefusesAParameterThatTwoRanksGave) {
  EXPECT_THROW((void)weights_sha256({"a F32 [1] x", "b F32 [1] x", "a F32 [1] y"}), Error);
}

}  // namespace
}  // namespace weft
