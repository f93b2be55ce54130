#include "weft/model/weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "weft/base/byte_order.h"
#include "weft/base/error.h"
#include "weft/model/weights/safetensors_writer.h"
#include "weft/tests/support/scratch_folder.h"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::byte> as_file(const std::string& header, std::size_t data_bytes, std::uint64_t length) {
  std::vector<std::byte> file(8 + header.size() + data_bytes);
  store_le(file.data(), length);
  std::memcpy(file.data() + 8, header.data(), header.size());
  for (std::size_t i = 0; i < data_bytes; ++i) file[8 + header.size() + i] = static_cast<std::byte>(i + 1);
  return file;
}
std::vector<std::byte> as_file(const std::string& header, std::size_t data_bytes = 0) {
  return as_file(header, data_bytes, header.size());
}

std::string problem_of(const std::vector<std::byte>& file) {
  try {
    (void)parse_safetensors(file, "weights.safetensors");
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), StartsWith("weights.safetensors: "));
    EXPECT_LT(std::strlen(error.what()), 600u);
    return error.what();
  }
  return "accepted";
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}";
}

class Scratch : public testing::Test {
 protected:
  const test::ScratchFolder scratch;
  const std::filesystem::path folder = scratch.path();
};

struct BadHeader {
  const char* what;
  std::string header;
  std::size_t data_bytes;
  const char* message;
};

TEST(SafetensorsReader, RefusesEveryMalformedHeader) {
  const std::string deep(100'000, '[');
  const BadHeader cases[] = {
      {"no JSON", "{", 0, "not valid JSON"},
      {"not UTF-8", "{\"\xFF\":1}", 0, "not valid JSON"},
      {"top level array", "[]", 0, "does not begin with '{'"},
      {"byte order mark", "\xEF\xBB\xBF{}", 0, "does not begin with '{'"},
      {"nothing but spaces", "   ", 0, "does not begin with '{'"},
      {"NUL after the end", std::string("{}\0{", 4), 0, "NUL"},
      {"two objects", "{}{}", 0, "not valid JSON"},
      {"raw control character", "{\"a\x01\":1}", 0, "not valid JSON"},
      {"lone surrogate", R"({"a\ud800":1})", 0, "not valid JSON"},
      {"NUL in a name", "{" + entry("a\\u0000b", "F32", "[1]", "[0,4]") + "}", 4,
       "NUL character in its name"},
      {"deep nesting", R"({"a":{"x":)" + deep, 0, "nested too deeply"},
      {"deep nesting in a shape", R"({"a":{"shape":)" + deep, 0, "an array in its shape"},
      {"entry is a number", R"({"a":1})", 0, "is a number, not an object"},
      {"entry is null", R"({"a":null})", 0, "is null, not an object"},
      {"entry is an array", R"({"a":[1]})", 0, "is an array, not an object"},
      {"no dtype", R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "has no dtype"},
      {"no shape", R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "has no shape"},
      {"no offsets", R"({"a":{"dtype":"F32","shape":[1]}})", 4, "has no data_offsets"},
      {"dtype twice", R"({"a":{"dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4]}})", 4,
       "dtype twice"},
      {"dtype is a number", R"({"a":{"dtype":5,"shape":[1],"data_offsets":[0,4]}})", 4,
       "a number for its dtype"},
      {"unknown dtype", "{" + entry("a", "F128", "[1]", "[0,16]") + "}", 16, "unknown dtype \"F128\""},
      {"shape is a number", "{" + entry("a", "F32", "1", "[0,4]") + "}", 4, "a number in its shape"},
      {"shape with a text", "{" + entry("a", "F32", "[\"1\"]", "[0,4]") + "}", 4, "a text in its shape"},
      {"negative dimension", "{" + entry("a", "F32", "[-1]", "[0,4]") + "}", 4,
       "a negative number in its shape"},
      {"float dimension", "{" + entry("a", "F32", "[1.0]", "[0,4]") + "}", 4, "no unsigned 64-bit integer"},
      {"too many dimensions",
       "{" +
           entry("a", "F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]") +
           "}",
       4, "more than 32 dimensions"},
      {"offset with exponent", "{" + entry("a", "F32", "[1]", "[0,1e3]") + "}", 4,
       "no unsigned 64-bit integer"},
      {"offset beyond 64 bits", "{" + entry("a", "F32", "[1]", "[0,18446744073709551616]") + "}", 4,
       "no unsigned 64-bit integer"},
      {"one offset", "{" + entry("a", "F32", "[1]", "[0]") + "}", 4, "fewer than two"},
      {"three offsets", "{" + entry("a", "F32", "[1]", "[0,4,8]") + "}", 4, "more than two"},
      {"offsets are an object", "{" + entry("a", "F32", "[1]", "{}") + "}", 4,
       "an object in its data_offsets"},
      {"metadata is a list", R"({"__metadata__":[]})", 0, "__metadata__ is an array"},
      {"metadata value is a number", R"({"__metadata__":{"a":1}})", 0, "not a text"},
      {"metadata like a tensor", "{" + entry("__metadata__", "F32", "[1]", "[0,4]") + "}", 4, "not a text"},
      {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__ twice"},
      {"metadata key twice", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "same key twice"},
      {"tensor twice",
       "{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("a", "F32", "[1]", "[4,8]") + "}", 8,
       "\"a\" twice"},
      {"same name, one escaped",
       "{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("\\u0061", "F32", "[1]", "[4,8]") + "}", 8,
       "\"a\" twice"},
      {"first does not begin at 0", "{" + entry("a", "F32", "[1]", "[4,8]") + "}", 8, "next free byte is 0"},
      {"hole", "{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("b", "F32", "[1]", "[8,12]") + "}", 12,
       "next free byte is 4"},
      {"overlap", "{" + entry("a", "F32", "[2]", "[0,8]") + "," + entry("b", "F32", "[1]", "[4,8]") + "}", 8,
       "next free byte is 8"},
      {"end before begin",
       "{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("b", "F32", "[1]", "[4,2]") + "}", 4,
       "next free byte is 4"},
      {"shared bytes",
       "{" + entry("a", "F32", "[2,2]", "[0,16]") + "," + entry("b", "F32", "[2,2]", "[0,16]") + "}", 16,
       "next free byte is 16"},
      {"data missing", "{" + entry("a", "F32", "[2]", "[0,8]") + "}", 6, "take 8 bytes, the file holds 6"},
      {"data left over", "{" + entry("a", "F32", "[2]", "[0,8]") + "}", 24,
       "take 8 bytes, the file holds 24"},
      {"shape and bytes differ", "{" + entry("a", "I32", "[2,2]", "[0,4]") + "}", 4, "I32 [2, 2] takes 16"},
      {"count overflows", "{" + entry("a", "I32", "[2,18446744073709551614]", "[0,16]") + "}", 16,
       "overflows"},
      {"bytes overflow", "{" + entry("a", "I32", "[2,9223372036854775807]", "[0,16]") + "}", 16, "overflows"},
      {"half a byte", "{" + entry("a", "F4", "[3]", "[0,1]") + "}", 1, "no whole number of bytes"},
  };
  for (const auto& bad : cases)
    EXPECT_THAT(problem_of(as_file(bad.header, bad.data_bytes)), HasSubstr(bad.message)) << bad.what;
}

// 640 = 0x280 begins as a Python pickle does, 0x3c as HTML, 0x8b1f as gzip, 0x4b50 as zip.
TEST(SafetensorsReader, TakesNoLengthForAnotherFormat) {
  for (const std::size_t length : {0x280u, 0x380u, 0x480u, 0x580u, 0x3cu, 0x8b1fu, 0x4b50u})
    EXPECT_EQ(problem_of(as_file("{" + std::string(length - 2, ' ') + "}")), "accepted") << length;
}

TEST(SafetensorsReader, RefusesEveryWrongLength) {
  EXPECT_THAT(problem_of({}), HasSubstr("is empty"));
  EXPECT_THAT(problem_of(std::vector<std::byte>(7)), HasSubstr("has 7 bytes"));
  EXPECT_THAT(problem_of(as_file("{}", 0, 100'000'001)), HasSubstr("above the limit"));
  EXPECT_THAT(problem_of(as_file("{}", 0, ~std::uint64_t{0})), HasSubstr("above the limit"));
  EXPECT_THAT(problem_of(as_file("{}", 0, 0xFFFFFFFF0000003C)), HasSubstr("above the limit"));
  EXPECT_THAT(problem_of(as_file("", 0, 60)), HasSubstr("beyond the end of the file"));
  EXPECT_THAT(problem_of(as_file("{}", 100, 1000)), HasSubstr("beyond the end of the file"));
  EXPECT_THAT(problem_of(as_file("{}", 0, 3)), HasSubstr("beyond the end of the file"));
  EXPECT_THAT(problem_of(as_file("{}", 0, 0)), HasSubstr("does not begin with '{'"));
}

TEST(SafetensorsReader, RefusesMoreTensorsThanTheLimit) {
  std::string header = "{";
  for (std::size_t i = 0; i <= safetensors_tensor_limit; ++i)
    header.append(i ? "," : "").append(entry(std::to_string(i), "F32", "[0]", "[0,0]"));
  EXPECT_THAT(problem_of(as_file(header + "}")), HasSubstr("more than 200000 tensors"));
}

TEST(SafetensorsReader, ReadsWhatOthersMayWrite) {
  EXPECT_EQ(problem_of(as_file("{}")), "accepted");
  EXPECT_EQ(problem_of(as_file(" \r\t\n{} \r\t\n")), "accepted");
  EXPECT_EQ(problem_of(as_file("{" + entry("a", "F32", "[2,0]", "[0,0]") + "}")), "accepted");
  EXPECT_EQ(problem_of(as_file("{" + entry("a", "F32", "[]", "[0,4]") + "}", 4)), "accepted");
  EXPECT_EQ(problem_of(as_file("{" + entry("a", "F4", "[2]", "[0,1]") + "}", 1)), "accepted");
  EXPECT_EQ(problem_of(as_file("{" + entry("", "U8", "[1]", "[0,1]") + "}", 1)), "accepted");
  const std::string unknown_fields =
      R"({"a":{"x":[1,{"y":[null,"z",-1,2.5,true]}],"dtype":"U8","shape":[1],"data_offsets":[0,1],"w":{"v":{}},"u":3}})";
  EXPECT_EQ(problem_of(as_file(unknown_fields, 1)), "accepted");

  const auto file =
      as_file("{" + entry("b", "F8_E4M3", "[2]", "[0,2]") + R"(,"__metadata__":{"format":"pt"},)" +
                  entry("a", "BF16", "[1,2]", "[2,6]") + "}",
              6);
  const auto content = parse_safetensors(file, "f");
  ASSERT_EQ(content.tensors.size(), 2u);
  EXPECT_EQ(content.tensors[0].name, "a");
  EXPECT_EQ(content.tensors[0].dtype, DType::bfloat16);
  EXPECT_TRUE(content.tensors[0].has_shape(Shape{1, 2}));
  EXPECT_FALSE(content.tensors[0].has_shape(Shape{1}));
  EXPECT_FALSE(content.tensors[0].has_shape(Shape{1, 2, 1}));
  EXPECT_EQ(content.tensors[0].bytes.front(), std::byte{3});
  EXPECT_EQ(content.tensors[1].dtype, DType::none);
  EXPECT_EQ(content.tensors[1].type, "F8_E4M3");
  EXPECT_EQ(content.metadata.at("format"), "pt");
}

TEST(SafetensorsReader, NeverCrashesOnAMutatedFile) {
  const auto good =
      as_file("{" + entry("weight", "F32", "[2,3]", "[0,24]") + "," +
                  entry("bias", "BF16", "[3]", "[24,30]") + R"(,"__metadata__":{"format":"pt"}})",
              30);
  ASSERT_EQ(problem_of(good), "accepted");
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto file = good;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
      file[random() % file.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) file.resize(random() % file.size());
    if (problem_of(file) != "accepted") ++refused;
  }
  EXPECT_GT(refused, 10'000);
}

using SafetensorsFiles = Scratch;

std::vector<float> numbers(std::size_t count, float start) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), start);
  return values;
}

TEST_F(SafetensorsFiles, HoldWhatWasWritten) {
  const auto weight = numbers(6, 1.5f);
  const std::vector<std::uint16_t> half{1, 2, 3};
  const std::vector<std::int64_t> longs{-1};
  const std::vector<StoredTensor> tensors{
      {"b", {}, DType::bfloat16, {3}, std::as_bytes(std::span(half))},
      {"\xC3\xA4 \"quoted\"\n", {}, DType::float32, {2, 3}, std::as_bytes(std::span(weight))},
      {"scalar", {}, DType::int64, {}, std::as_bytes(std::span(longs))},
      {"empty", {}, DType::float32, {0, 7}, {}}};
  const auto record =
      write_new_safetensors(folder / "a.safetensors", tensors, {{"format", "pt"}, {"n", "1"}});
  EXPECT_EQ(record.name, "a.safetensors");
  EXPECT_EQ(record, hash_file(folder / "a.safetensors"));

  const SafetensorsFile file(folder / "a.safetensors");
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"format", "pt"}, {"n", "1"}}));
  ASSERT_EQ(file.tensors().size(), 4u);
  for (const auto& written : tensors) {
    const auto& read = file.at(written.name);
    EXPECT_EQ(read.dtype, written.dtype);
    EXPECT_EQ(read.shape, written.shape);
    ASSERT_EQ(read.bytes.size(), written.bytes.size());
    if (!read.bytes.empty()) {
      EXPECT_EQ(std::memcmp(read.bytes.data(), written.bytes.data(), read.bytes.size()), 0);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.bytes.data()) % dtype_size(read.dtype), 0u)
          << "not aligned";
    }
  }
  EXPECT_EQ(file.find("nothing"), nullptr);
  EXPECT_THROW((void)file.at("nothing"), CheckpointError);
}

TEST_F(SafetensorsFiles, DoNotDependOnTheOrderOfTheTensors) {
  const auto values = numbers(8, 0);
  const auto bytes = std::as_bytes(std::span(values));
  std::vector<StoredTensor> tensors{{"x", {}, DType::float32, {2}, bytes.subspan(0, 8)},
                                    {"y", {}, DType::uint8, {3}, bytes.subspan(8, 3)},
                                    {"a", {}, DType::bfloat16, {4}, bytes.subspan(16, 8)}};
  const auto first = write_new_safetensors(folder / "1", tensors);
  std::reverse(tensors.begin(), tensors.end());
  EXPECT_EQ(write_new_safetensors(folder / "2", tensors).sha256, first.sha256);
}

TEST_F(SafetensorsFiles, AreRefusedWhenTheTensorsMakeNoSense) {
  const auto values = numbers(2, 0);
  const auto bytes = std::as_bytes(std::span(values));
  const auto write = [&](std::vector<StoredTensor> tensors) { write_new_safetensors(folder / "x", tensors); };
  EXPECT_THROW(write({{"a", {}, DType::float32, {3}, bytes}}), CheckpointError);
  EXPECT_THROW(write({{"a", {}, DType::none, {8}, bytes}}), CheckpointError);
  EXPECT_THROW(write({{"a", {}, DType::float32, {2}, bytes}, {"a", {}, DType::float32, {2}, bytes}}),
               CheckpointError);
  EXPECT_THROW(write({{"__metadata__", {}, DType::float32, {2}, bytes}}), CheckpointError);
  EXPECT_THROW(write({{"\xFF", {}, DType::float32, {2}, bytes}}), CheckpointError);
  EXPECT_THROW(write({{"a", {}, DType::float32, {std::uint64_t{1} << 63, 8}, bytes}}), CheckpointError);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST_F(SafetensorsFiles, AreNeverOverwrittenByWriteNew) {
  std::ofstream(folder / "x") << "mine";
  EXPECT_THROW(write_new_safetensors(folder / "x", {}), CheckpointError);
  EXPECT_EQ(read_small_file(folder / "x", 100), "mine");
}

TEST_F(SafetensorsFiles, MustBeRegularFiles) {
  EXPECT_THROW(SafetensorsFile{folder}, CheckpointError);
  EXPECT_THROW(SafetensorsFile{folder / "missing"}, CheckpointError);
  EXPECT_THROW(SafetensorsFile{"/dev/zero"}, CheckpointError);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(SafetensorsFile{folder / "pipe"}, CheckpointError);
  std::ofstream(folder / "empty");
  EXPECT_THROW(SafetensorsFile{folder / "empty"}, CheckpointError);
}

// Runs `body` in a child that may write files of at most `limit` bytes; true when it threw an error that
// names `file`.
bool fails_with_full_disk(rlim_t limit, const std::string& file, const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit bound{limit, limit};
    ::setrlimit(RLIMIT_FSIZE, &bound);
    try {
      body();
    } catch (const CheckpointError& error) {
      ::_exit(std::string(error.what()).find(file) != std::string::npos ? 0 : 2);
    }
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(SafetensorsFiles, NameTheFileOnAFullDiskAndLeaveNothingBehind) {
  const auto values = numbers(5000, 1);
  const std::vector<StoredTensor> tensors{
      {"w", {}, DType::float32, {5000}, std::as_bytes(std::span(values))}};
  for (const rlim_t limit : {0, 5, 100, 10'000, 20'000}) {
    EXPECT_TRUE(fails_with_full_disk(limit, "new", [&] { write_new_safetensors(folder / "new", tensors); }))
        << limit;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

}  // namespace
}  // namespace weft
