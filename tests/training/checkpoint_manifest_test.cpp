#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/training/checkpoint/manifest.h"

namespace weft {
namespace {

using testing::HasSubstr;

Manifest example() {
  Manifest manifest;
  auto& p = manifest.position;
  p.step = 18446744073709551615u;
  p.consumed_samples = 1;
  p.consumed_tokens = 2;
  p.data = {{"text", 3, "print"}, {"\"more\"\n", 4, ""}};
  p.optimizer = "adamw";
  p.learning_rate = 0.1 + 0.2;
  p.seed = -5;
  p.config = "a: 1\nb: \xC3\xA4\n";
  p.model = "{}";
  manifest.save_number = 7;
  manifest.weights_sha256 = std::string(64, 'a');
  manifest.files = {{FileKind::weights, {"weights-0000.safetensors", 10, std::string(64, 'b')}},
                    {FileKind::state, {"state-0000.safetensors", 20, std::string(64, '0')}}};
  return manifest;
}

std::string problem_of(const std::string& text) {
  try {
    (void)parse_manifest(text, "manifest.json");
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "accepted";
}

/// The example with one change, and a checksum that fits it.
std::string changed(const std::function<void(nlohmann::json&)>& change) {
  auto tree = nlohmann::json::parse(to_json(example()));
  tree.erase("sha256");
  change(tree);
  tree["sha256"] = sha256_hex(tree.dump());
  return tree.dump();
}

TEST(CheckpointManifest, KeepsEveryField) {
  EXPECT_EQ(parse_manifest(to_json(example()), "m"), example());
  EXPECT_EQ(parse_manifest(
                to_json(Manifest{
                    .position = {}, .save_number = 0, .weights_sha256 = std::string(64, '1'), .files = {}}),
                "m")
                .files.size(),
            0u);
  auto other = example();
  other.position.data[1].consumed_samples = 5;
  EXPECT_NE(parse_manifest(to_json(other), "m"), example());
}

TEST(CheckpointManifest, KeepsNamesOfStagesThatAreNotUtf8) {
  auto strange = example();
  strange.position.data[0].stage = "caf\xe9";
  EXPECT_EQ(parse_manifest(to_json(strange), "m"), strange);
  EXPECT_THAT(problem_of(changed([](auto& t) { t["data"][0]["stage_base64"] = "*"; })),
              HasSubstr("data[0].stage_base64 is not base64"));
}

TEST(CheckpointManifest, NeedsEveryField) {
  const auto tree = nlohmann::json::parse(to_json(example()));
  for (const auto& [key, value] : tree.items()) {
    if (key == "sha256") continue;
    const std::string name = key;
    EXPECT_THAT(problem_of(changed([&](auto& t) { t.erase(name); })), HasSubstr(name + " is missing"));
    EXPECT_THAT(problem_of(changed([&](auto& t) { t[name] = nlohmann::json::object(); })),
                HasSubstr(name + " is not a"));
  }
  for (const char* key : {"name", "kind", "bytes", "sha256"})
    EXPECT_THAT(problem_of(changed([&](auto& t) { t["files"][1].erase(key); })),
                HasSubstr(std::string("files[1].") + key));
  for (const char* key : {"stage", "consumed_samples", "fingerprint"})
    EXPECT_THAT(problem_of(changed([&](auto& t) { t["data"][0].erase(key); })),
                HasSubstr(std::string("data[0].") + key));
}

TEST(CheckpointManifest, RefusesWrongValues) {
  const auto file_named = [](const char* name) {
    return changed([&](auto& t) { t["files"][0]["name"] = name; });
  };
  for (const char* name : {"", ".", "..", "../x", "a/b", "/etc/passwd", ".hidden", "manifest.json"})
    EXPECT_THAT(problem_of(file_named(name)), HasSubstr("files[0].name")) << name;
  EXPECT_THAT(problem_of(file_named("state-0000.safetensors")), HasSubstr("given twice"));
  EXPECT_THAT(problem_of(changed([](auto& t) { t["version"] = 2; })),
              HasSubstr("this build reads version 1"));
  EXPECT_THAT(problem_of(changed([](auto& t) { t["format"] = "other"; })), HasSubstr("format"));
  EXPECT_THAT(problem_of(changed([](auto& t) { t["step"] = -1; })), HasSubstr("step"));
  EXPECT_THAT(problem_of(changed([](auto& t) { t["step"] = 1.0; })), HasSubstr("step"));
  EXPECT_THAT(problem_of(changed([](auto& t) { t["seed"] = 18446744073709551615u; })), HasSubstr("seed"));
  EXPECT_THAT(problem_of(changed([](auto& t) { t["weights_sha256"] = "abc"; })), HasSubstr("SHA-256"));
  EXPECT_THAT(problem_of(changed([](auto& t) { t["files"][0]["kind"] = "x"; })), HasSubstr("kind"));
  EXPECT_THAT(problem_of(changed([](auto& t) { t["files"] = 1; })), HasSubstr("files is not a list"));
  EXPECT_THAT(problem_of(changed([](auto& t) { t["data"][0] = 1; })), HasSubstr("data[0] is not an object"));
  EXPECT_EQ(problem_of(changed([](auto& t) { t["future"] = 1; })), "accepted");
}

TEST(CheckpointManifest, RefusesWhatIsNoManifest) {
  EXPECT_THAT(problem_of(""), HasSubstr("is empty"));
  EXPECT_THAT(problem_of("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(problem_of("{}"), HasSubstr("format is missing"));
  EXPECT_THAT(problem_of(R"({"a":1,"a":2})"), HasSubstr("\"a\" twice"));
  EXPECT_THAT(problem_of(std::string(100'000, '[')), HasSubstr("nested too deeply"));
  EXPECT_THAT(problem_of(to_json(example()) + std::string("\0x", 2)), HasSubstr("NUL"));
  auto bad_text = example();
  bad_text.position.config = "\xFF";
  EXPECT_THROW((void)to_json(bad_text), CheckpointError);
}

// A changed byte is noticed, or (in the white space between values) changes nothing.
TEST(CheckpointManifest, NoticesEveryChangedByte) {
  const std::string good = to_json(example());
  for (std::size_t i = 0; i < good.size(); ++i)
    for (const int flip : {1, 0x20, 0x80}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      try {
        EXPECT_EQ(parse_manifest(bad, "m"), example()) << i;
      } catch (const CheckpointError&) {
      }
    }
  for (std::size_t size = 0; size + 2 < good.size(); ++size)
    EXPECT_NE(problem_of(good.substr(0, size)), "accepted") << size;
}

}  // namespace
}  // namespace weft
