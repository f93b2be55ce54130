#pragma once
// Reads TensorBoard's event files as its own loader does: the files of a folder in the order of their names,
// and a session that starts at a step makes everything older from that step on void. Shares no code with the
// writer.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace weft::test {

/// Values by tag and step.
using EventScalars = std::map<std::string, std::map<std::uint64_t, float>>;

class EventFiles {
 public:
  explicit EventFiles(const std::filesystem::path& folder) {
    std::set<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().filename().string().find("tfevents") != std::string::npos) files.insert(entry.path());
    for (const auto& file : files) read_file(file);
  }
  [[nodiscard]] const EventScalars& scalars() const { return scalars_; }

 private:
  struct Field {
    std::uint64_t number = 0;
    std::uint64_t value = 0;  // of a varint or a fixed one
    std::string bytes;        // of a length-delimited one
  };

  static std::uint64_t fixed(const std::string& from, std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(from.at(at + i))) << 8 * i;
    return value;
  }
  static std::uint64_t varint(const std::string& from, std::size_t& at) {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(from.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
      if (byte < 0x80) return value;
    }
  }
  static std::uint32_t masked_crc(const std::string& bytes) {
    std::uint32_t crc = 0xffffffffU;
    for (const char c : bytes) {
      crc ^= static_cast<unsigned char>(c);
      for (int bit = 0; bit < 8; ++bit) crc = (crc & 1U) != 0 ? crc >> 1 ^ 0x82f63b78U : crc >> 1;
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8U;
  }
  static std::vector<Field> fields(const std::string& message) {
    std::vector<Field> all;
    for (std::size_t at = 0; at < message.size();) {
      const std::uint64_t key = varint(message, at);
      Field field{key >> 3, 0, {}};
      const std::uint64_t wire = key & 7U;
      if (wire == 0) {
        field.value = varint(message, at);
      } else if (wire == 2) {
        const std::uint64_t size = varint(message, at);
        field.bytes = message.substr(at, size);
        at += size;
      } else {
        const std::size_t size = wire == 1 ? 8 : 4;
        field.value = fixed(message, at, size);
        at += size;
      }
      all.push_back(std::move(field));
    }
    return all;
  }

  void read_file(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    const std::string file{std::istreambuf_iterator<char>(stream), {}};
    for (std::size_t at = 0; file.size() - at >= 12;) {
      const std::uint64_t size = fixed(file, at, 8);
      ASSERT_EQ(fixed(file, at + 8, 4), masked_crc(file.substr(at, 8))) << path << ", offset " << at;
      if (file.size() - at < size + 16) return;  // half a record, of a crash
      const std::string data = file.substr(at + 12, size);
      ASSERT_EQ(fixed(file, at + 12 + size, 4), masked_crc(data)) << path << ", offset " << at;
      take(data);
      at += size + 16;
    }
  }

  void take(const std::string& event) {
    std::uint64_t step = 0;
    for (const Field& field : fields(event)) {
      if (field.number == 2) step = field.value;
      if (field.number == 7 && fields(field.bytes).at(0).value == 1)
        for (auto& [tag, values] : scalars_) values.erase(values.lower_bound(step), values.end());
      if (field.number != 5) continue;
      for (const Field& value : fields(field.bytes)) {
        const std::vector<Field> parts = fields(value.bytes);
        const auto bits = static_cast<std::uint32_t>(parts.at(1).value);
        float number = 0;
        std::memcpy(&number, &bits, sizeof number);
        EXPECT_TRUE(scalars_[parts.at(0).bytes].emplace(step, number).second)
            << parts.at(0).bytes << " of step " << step << " twice";
      }
    }
  }

  EventScalars scalars_;
};

}  // namespace weft::test
