#include "weft/training/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <system_error>
#include <vector>

#include "weft/base/byte_order.h"

namespace weft {
namespace {

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> crc_table = make_crc_table();

template <class T>
void put(std::string& out, T value) {
  std::array<std::byte, sizeof(T)> bytes;
  store_le(bytes.data(), value);
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U; }

// Protocol buffers: a field is its number and kind in one varint, then the value.
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, length = 2, fixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(static_cast<std::uint8_t>(value) | 0x80U);
  out += static_cast<char>(value);
}

void put_key(std::string& out, std::uint64_t field, Wire wire) {
  put_varint(out, (field << 3) | static_cast<std::uint64_t>(wire));
}

void put_bytes(std::string& out, std::uint64_t field, std::string_view bytes) {
  put_key(out, field, Wire::length);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event(double wall_time) {
  std::string out;
  put_key(out, 1, Wire::fixed64);
  put(out, wall_time);
  return out;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

constexpr std::string_view name_start = "events.out.tfevents.";

/// Seconds since 1970, or what puts a name behind those of all event files in the folder: two may begin
/// within one second, and hosts' clocks differ.
std::int64_t time_of_new_file(const std::filesystem::path& folder) {
  auto time = static_cast<std::int64_t>(seconds_since_1970());
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::int64_t other = 0;
    if (!name.starts_with(name_start)) continue;
    std::from_chars(name.data() + name_start.size(), name.data() + name.size(), other);
    constexpr std::int64_t longest = 9'999'999'998;  // ten digits are ordered as texts
    if (other >= time && other <= longest) time = other + 1;
  }
  return time;
}

std::string file_name(const std::filesystem::path& folder) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("{}{:010d}.{}.{}.{}", name_start, time_of_new_file(folder),
                     host[0] == '\0' ? "localhost" : host.data(), ::getpid(), ::getuid());
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) noexcept {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) crc = (crc >> 8) ^ crc_table[(crc ^ static_cast<std::uint8_t>(c)) & 0xFFU];
  return ~crc;
}

std::string event_record(std::string_view data) {
  std::string out;
  put(out, static_cast<std::uint64_t>(data.size()));
  put(out, masked_crc(out));
  out += data;
  put(out, masked_crc(data));
  return out;
}

std::string version_event(double wall_time) {
  std::string out = event(wall_time);
  put_bytes(out, 3, "brain.Event:2");
  return out;
}

std::string start_event(double wall_time, std::uint64_t first_step) {
  constexpr std::uint64_t start = 1;
  std::string session;
  put_key(session, 1, Wire::varint);
  put_varint(session, start);
  std::string out = event(wall_time);
  put_key(out, 2, Wire::varint);
  put_varint(out, first_step);
  put_bytes(out, 7, session);
  return out;
}

std::string scalars_event(double wall_time, std::uint64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_key(value, 2, Wire::fixed32);
    put(value, scalar.value);
    put_bytes(summary, 1, value);
  }
  std::string out = event(wall_time);
  put_key(out, 2, Wire::varint);
  put_varint(out, step);
  put_bytes(out, 5, summary);
  return out;
}

TensorBoardFile::TensorBoardFile(const std::filesystem::path& folder, std::uint64_t first_step)
    : file_(folder / file_name(folder)) {
  const double now = seconds_since_1970();
  file_.append(event_record(version_event(now)) + event_record(start_event(now, first_step)));
}

void TensorBoardFile::write(const StepMetrics& m) {
  std::vector<Scalar> scalars = {{"loss", static_cast<float>(m.loss)},
                                 {"grad_norm", static_cast<float>(m.grad_norm)},
                                 {"lr", static_cast<float>(m.lr)},
                                 {"step_ms", static_cast<float>(m.step_ms)},
                                 {"tokens_per_sec", static_cast<float>(m.tokens_per_sec)},
                                 {"model_tflops", static_cast<float>(m.model_tflops)}};
  if (m.val_loss) scalars.push_back({"val_loss", static_cast<float>(*m.val_loss)});
  file_.append(event_record(scalars_event(seconds_since_1970(), m.step, scalars)));
}

}  // namespace weft
