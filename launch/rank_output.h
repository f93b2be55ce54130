#pragma once
// What ranks print, in whole lines with the rank's number before them, written by a thread of its own so that
// a slow terminal or a full pipe never holds up the supervision.
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace weft {

/// Writes texts to descriptors in the order given. Texts for a descriptor that has failed are dropped.
class ConsoleWriter {
 public:
  ConsoleWriter();
  /// Writes what is left.
  ~ConsoleWriter();
  ConsoleWriter(const ConsoleWriter&) = delete;
  ConsoleWriter& operator=(const ConsoleWriter&) = delete;

  void write(int descriptor, std::string text);
  /// True while so much is waiting that no more should be produced.
  [[nodiscard]] bool full() const;

 private:
  struct Text {
    int descriptor;
    std::string text;
  };
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Text> texts_;   // under mutex_
  std::size_t waiting_ = 0;  // bytes, under mutex_
  bool end_ = false;         // under mutex_
  std::thread thread_;
};

/// One output stream of one rank: reads a pipe, cuts it into lines, prefixes them. Not a byte is lost: a last
/// line without an end gets one, a line above 64 KiB is cut in pieces of that length.
class RankStream {
 public:
  /// Takes over `pipe`, which is made non-blocking; -1 means a stream that has ended.
  RankStream(int pipe, int target, std::string prefix);
  ~RankStream();
  RankStream(RankStream&& other) noexcept;
  RankStream& operator=(RankStream&&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return pipe_; }
  /// Reads what is there, at most 256 KiB, and hands complete lines to `writer`.
  void pump(ConsoleWriter& writer);
  /// Reads what is there and closes.
  void finish(ConsoleWriter& writer);
  /// The last lines that were not empty, at most 20, without prefix.
  [[nodiscard]] const std::deque<std::string>& last_lines() const noexcept { return last_lines_; }

 private:
  void take(std::string_view bytes, std::string& out);
  void emit(std::string_view line, std::string& out);
  void end();

  int pipe_;
  int target_;
  std::string prefix_;
  std::string partial_;
  std::deque<std::string> last_lines_;
};

}  // namespace weft
