#pragma once
// The exceptions of weft. Every one carries a message a user can act on; there are no error codes to look up.
#include <cstdint>
#include <stdexcept>
#include <string>

namespace weft {

/// Base of every exception that weft throws on purpose.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Wrong configuration or command line: found before anything starts, exit status 2.
/// The message has one line for each thing that is wrong, `FILE:LINE:COLUMN: key: what is wrong; allowed:
/// ...`.
class ConfigError : public Error {
 public:
  using Error::Error;
};

/// A schedule that breaks a rule: missing, repeated or wrongly ordered ops, a deadlock, a rule on p, v, m.
class ScheduleError : public Error {
 public:
  using Error::Error;
};

/// A message or connection that is not what the plan allows, or a transport that cannot be set up.
class TransportError : public Error {
 public:
  using Error::Error;
};

/// Another rank died, stopped or reported a failure. `rank()` is the rank that failed first, as far as known.
class PeerFailure : public Error {
 public:
  PeerFailure(std::uint32_t rank, const std::string& what) : Error(what), rank_(rank) {}
  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }

 private:
  std::uint32_t rank_;
};

/// A checkpoint or weight file that cannot be written, found, read or trusted.
class CheckpointError : public Error {
 public:
  using Error::Error;
};

/// A device, or work on one, that cannot be had: this build or this machine lacks it, or its memory is used
/// up.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A tokenizer file that cannot be read, or asks for what weft does not compute.
class TokenizerError : public Error {
 public:
  using Error::Error;
};

/// Does `work`; whatever Error it throws is a CheckpointError then.
template <class Work>
auto as_checkpoint_error(Work work) {
  try {
    return work();
  } catch (const CheckpointError&) {
    throw;
  } catch (const Error& e) {
    throw CheckpointError(e.what());
  }
}

/// A loss, norm or tensor that is not finite; names step, micro-batch and tensor.
class NonFiniteError : public Error {
 public:
  using Error::Error;
};

}  // namespace weft
