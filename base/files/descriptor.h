#pragma once
// The sole owner of a file descriptor.
#include <string_view>
#include <utility>

namespace weft {

/// Closes its descriptor when it ends. Moves; a moved-from one, like one that failed to open, is none (-1).
class Descriptor {
 public:
  Descriptor() noexcept = default;
  /// Takes `number` over; -1 is none.
  explicit Descriptor(int number) noexcept : number_(number) {}
  ~Descriptor() { static_cast<void>(close()); }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) static_cast<void>(close());
    number_ = other.release();
    return *this;
  }

  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] explicit operator bool() const noexcept { return number_ >= 0; }
  /// Closes now. Returns 0 or what a delayed write met, as errno.
  int close() noexcept;
  /// Gives the descriptor up without closing it.
  [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

/// Both ends of a pipe, closed in children that run another program.
struct PipeEnds {
  Descriptor reading;
  Descriptor writing;
};
/// Throws Error.
[[nodiscard]] PipeEnds make_pipe();

/// Writes all of `text`, also to a pipe or terminal that somebody has made non-blocking. Returns 0 or errno.
[[nodiscard]] int write_fully(int descriptor, std::string_view text) noexcept;

}  // namespace weft
