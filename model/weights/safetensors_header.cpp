#include "weft/model/weights/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/text/foreign_text.h"

namespace weft {
namespace {

// An unknown field of an entry may hold anything, down to this depth.
constexpr int skipped_depth_limit = 16;

/// Takes the parser's events. `where` says which value comes next; what is below an unknown field is passed
/// over by counting brackets.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(SafetensorsHeader& header) : header_(header) {}
  std::string problem;  // of the first event that was refused

  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("a truth value"); }
  bool number_integer(number_integer_t) override { return scalar("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return scalar("a number that is no unsigned 64-bit integer");
  }
  bool binary(binary_t&) override { return scalar("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (skipped_ > 0 || where_ == Where::unknown) return scalar("a number");
    if (where_ == Where::shape) {
      if (entry().shape.size() == safetensors_dims_limit)
        return refuse("has more than " + std::to_string(safetensors_dims_limit) + " dimensions");
      entry().shape.push_back(value);
      return true;
    }
    if (where_ == Where::offsets) {
      if (offsets_ == 2) return refuse("has more than two data_offsets");
      (offsets_++ == 0 ? entry().begin : entry().end) = value;
      return true;
    }
    return scalar("a number");
  }

  bool string(string_t& value) override {
    if (skipped_ > 0 || where_ == Where::unknown) return scalar("a text");
    if (where_ == Where::metadata_value) {
      where_ = Where::metadata_key;
      const bool fresh = header_.metadata.emplace(std::move(key_), std::move(value)).second;
      return fresh || refuse_header("the metadata has the same key twice");
    }
    if (where_ == Where::type) {
      entry().type = std::move(value);
      where_ = Where::entry_key;
      return true;
    }
    return scalar("a text");
  }

  bool start_object(std::size_t) override {
    if (skipped_ > 0 || where_ == Where::unknown) return skip_deeper();
    if (where_ == Where::start) {
      where_ = Where::root_key;
    } else if (where_ == Where::entry) {
      where_ = Where::entry_key;
    } else if (where_ == Where::metadata) {
      where_ = Where::metadata_key;
    } else {
      return scalar("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    if (skipped_ > 0) return true;
    if (where_ == Where::root_key) return root_key(name);
    if (where_ == Where::metadata_key) {
      key_ = std::move(name);
      where_ = Where::metadata_value;
      return true;
    }
    return entry_key(name);
  }

  bool end_object() override {
    if (skipped_ > 0) return skip_back();
    if (where_ == Where::entry_key) {
      if (seen_ != 7)
        return refuse(seen_ & 1 ? (seen_ & 2 ? "has no data_offsets" : "has no shape") : "has no dtype");
      where_ = Where::root_key;
    } else if (where_ == Where::metadata_key) {
      where_ = Where::root_key;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (skipped_ > 0 || where_ == Where::unknown) return skip_deeper();
    if (where_ == Where::shape_start) {
      where_ = Where::shape;
    } else if (where_ == Where::offsets_start) {
      where_ = Where::offsets;
      offsets_ = 0;
    } else {
      return scalar("an array");
    }
    return true;
  }

  bool end_array() override {
    if (skipped_ > 0) return skip_back();
    if (where_ == Where::offsets && offsets_ != 2) return refuse("has fewer than two data_offsets");
    where_ = Where::entry_key;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    std::string text = error.what();
    if (const auto end = text.find("] "); end != std::string::npos) text.erase(0, end + 2);
    problem = "the header is not valid JSON at byte " + std::to_string(position) + ": " + text.substr(0, 200);
    return false;
  }

 private:
  enum class Where {
    start,
    root_key,
    entry,
    entry_key,
    type,
    shape_start,
    shape,
    offsets_start,
    offsets,
    unknown,
    metadata,
    metadata_key,
    metadata_value
  };

  SafetensorsEntry& entry() { return header_.entries.back(); }
  bool refuse_header(std::string what) {
    problem = std::move(what);
    return false;
  }
  bool refuse(const std::string& what) {
    return refuse_header("tensor " + quoted_name(entry().name) + " " + what);
  }

  bool root_key(string_t& name) {
    if (name == "__metadata__") {
      if (std::exchange(has_metadata_, true)) return refuse_header("the header has __metadata__ twice");
      where_ = Where::metadata;
      return true;
    }
    if (header_.entries.size() == safetensors_tensor_limit)
      return refuse_header("the header has more than " + std::to_string(safetensors_tensor_limit) +
                           " tensors");
    header_.entries.push_back({std::move(name), {}, {}, 0, 0});
    if (entry().name.find('\0') != std::string::npos) return refuse("has a NUL character in its name");
    seen_ = 0;
    where_ = Where::entry;
    return true;
  }

  bool entry_key(const string_t& name) {
    constexpr std::string_view names[] = {"dtype", "shape", "data_offsets"};
    constexpr Where next[] = {Where::type, Where::shape_start, Where::offsets_start};
    for (unsigned i = 0; i < 3; ++i) {
      if (name != names[i]) continue;
      if (seen_ & (1u << i)) return refuse("has " + name + " twice");
      seen_ |= 1u << i;
      where_ = next[i];
      return true;
    }
    where_ = Where::unknown;
    return true;
  }

  bool scalar(const std::string& what) {
    if (skipped_ > 0) return true;
    if (where_ == Where::unknown) {
      where_ = Where::entry_key;
      return true;
    }
    if (where_ == Where::start) return refuse_header("the header is " + what + ", not an object");
    if (where_ == Where::metadata) return refuse_header("__metadata__ is " + what + ", not an object");
    if (where_ == Where::metadata_value)
      return refuse_header("the metadata value of " + quoted_name(key_) + " is " + what + ", not a text");
    if (where_ == Where::entry) return refuse("is " + what + ", not an object");
    if (where_ == Where::type) return refuse("has " + what + " for its dtype");
    return refuse(
        "has " + what +
        (where_ == Where::shape || where_ == Where::shape_start ? " in its shape" : " in its data_offsets"));
  }

  bool skip_deeper() {
    if (++skipped_ > skipped_depth_limit) return refuse("is nested too deeply");
    return true;
  }
  bool skip_back() {
    if (--skipped_ == 0) where_ = Where::entry_key;
    return true;
  }

  SafetensorsHeader& header_;
  Where where_ = Where::start;
  std::string key_;
  int skipped_ = 0;
  int offsets_ = 0;
  unsigned seen_ = 0;
  bool has_metadata_ = false;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& file_name) {
  // the parser takes a byte order mark for nothing and a NUL for the end
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos || text[start] != '{')
    throw CheckpointError(file_name + ": the header does not begin with '{'");
  if (text.find('\0') != std::string_view::npos)
    throw CheckpointError(file_name + ": the header holds a NUL character");
  SafetensorsHeader header;
  HeaderReader reader(header);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader))
    throw CheckpointError(file_name + ": " + printable(reader.problem, 400));
  std::sort(header.entries.begin(), header.entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(
      header.entries.begin(), header.entries.end(),
      [](const SafetensorsEntry& a, const SafetensorsEntry& b) { return a.name == b.name; });
  if (twice != header.entries.end())
    throw CheckpointError(file_name + ": the header has tensor " + quoted_name(twice->name) + " twice");
  return header;
}

}  // namespace weft
