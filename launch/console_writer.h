#pragma once
// What the launcher writes, by a thread of its own, so that a slow terminal or a full pipe never holds up the
// supervision.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
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

}  // namespace weft
