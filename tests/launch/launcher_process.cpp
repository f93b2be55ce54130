#include "weft/tests/launch/launcher_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "weft/base/error.h"
#include "weft/launch/supervise.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

/// A process that exists and is no zombie.
bool alive(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text;
  if (!std::getline(file, text)) return false;
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.substr(name_end + 2, 1) != "Z";
}

bool read_from(int& descriptor, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t got = read(descriptor, buffer.data(), buffer.size());
  if (got > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
    return true;
  }
  close(descriptor);
  descriptor = -1;
  return false;
}

}  // namespace

LauncherTest::LauncherTest() {
  std::string name = testing::TempDir() + "weft-launch-XXXXXX";
  folder_ = mkdtemp(name.data());
}

LauncherTest::~LauncherTest() {
  if (launcher_ > 0) {
    kill(launcher_, SIGKILL);
    finish();
  }
  std::filesystem::remove_all(folder_);
}

void LauncherTest::start(const Job& job) {
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (pipe(out.data()) != 0 || pipe(err.data()) != 0) throw Error("no pipe");
  outcome_ = {};
  std::fflush(nullptr);
  launcher_ = fork();
  if (launcher_ == 0) {
    dup2(out[1], 1);
    dup2(err[1], 2);
    for (const int one : {out[0], out[1], err[0], err[1]}) close(one);
    try {
      _exit(supervise(job).exit_status());
    } catch (const std::exception& e) {
      dprintf(2, "%s\n", e.what());
      _exit(99);
    }
  }
  close(out[1]);
  close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

Outcome LauncherTest::run(const Job& job) {
  start(job);
  return finish();
}

void LauncherTest::signal_launcher(int number) const { kill(launcher_, number); }

void LauncherTest::read_some() {
  std::array<pollfd, 2> waiting{{{out_, POLLIN, 0}, {err_, POLLIN, 0}}};
  poll(waiting.data(), waiting.size(), -1);
  if (waiting[0].revents != 0) read_from(out_, outcome_.out);
  if (waiting[1].revents != 0) read_from(err_, outcome_.err);
}

void LauncherTest::wait_for_output(const std::string& text) {
  while (out_ >= 0 && outcome_.out.find(text) == std::string::npos) read_some();
}

void LauncherTest::wait_until_signal_was_taken() const {
  for (;;) {
    std::ifstream file("/proc/" + std::to_string(launcher_) + "/status");
    std::stringstream text;
    text << file.rdbuf();
    if (text.str().find("ShdPnd:\t0000000000000000") != std::string::npos) return;
    std::this_thread::yield();
  }
}

void LauncherTest::stop_reading() {
  for (int* one : {&out_, &err_}) {
    close(*one);
    *one = -1;
  }
}

Outcome LauncherTest::finish() {
  while (out_ >= 0 || err_ >= 0) read_some();
  int status = 0;
  waitpid(launcher_, &status, 0);
  launcher_ = -1;
  outcome_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome_;
}

void LauncherTest::expect_nothing_left(std::size_t expected) const {
  std::size_t noted = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    ++noted;
    const std::string pid = entry.path().filename();
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (alive(pid) && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
    EXPECT_FALSE(alive(pid)) << "process " << pid << " is still there";
  }
  EXPECT_EQ(noted, expected);
}

}  // namespace weft
