#pragma once
// TensorBoard's event files, written without TensorFlow.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "weft/base/files/appended_file.h"
#include "weft/training/metrics.h"

namespace weft {

/// CRC-32C (Castagnoli) of `bytes`.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes) noexcept;

/// One record of an event file: length, its masked checksum, `data`, its masked checksum.
[[nodiscard]] std::string event_record(std::string_view data);
/// The first event of every file.
[[nodiscard]] std::string version_event(double wall_time);

/// The event by which readers of a folder drop what older files say of `first_step` and later.
[[nodiscard]] std::string start_event(double wall_time, std::uint64_t first_step);

/// One named value of a step.
struct Scalar {
  std::string_view tag;
  float value;
};
/// An event with scalars. `wall_time` in seconds since 1970.
[[nodiscard]] std::string scalars_event(double wall_time, std::uint64_t step,
                                        std::span<const Scalar> scalars);

/// A new event file in the run's folder, `events.out.tfevents.TIME.HOST.PID.UID`. A resumed run adds another
/// one, which comes after all others in the order of names, in which readers go through them.
class TensorBoardFile {
 public:
  /// `first_step`: the first that will be written; what older files hold from there on no longer counts.
  /// Throws Error, naming the file.
  TensorBoardFile(const std::filesystem::path& folder, std::uint64_t first_step);

  /// Appends the step's scalars (loss, grad_norm, lr, ...; val_loss where there is one), readable at once.
  /// Throws Error, naming the file, on a full disk.
  void write(const StepMetrics& metrics);

 private:
  AppendedFile file_;
};

}  // namespace weft
