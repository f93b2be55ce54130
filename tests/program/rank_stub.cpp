// A rank that does as its arguments say, one after the other; `2:ACTION` is for rank 2 only. For tests of the
// launcher.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "weft/base/error.h"
#include "weft/transport/rendezvous/build_identity.h"
#include "weft/transport/rendezvous/control_client.h"
#include "weft/transport/rendezvous/rank_environment.h"

namespace {

using namespace std::chrono_literals;

void note_pid(const std::string& folder, pid_t pid) {
  std::ofstream(folder + "/" + std::to_string(pid)) << pid;
}

class Stub {
 public:
  void act(const std::string& action) {
    const std::size_t equals = action.find('=');
    const std::string name = action.substr(0, equals);
    const std::string value = equals == std::string::npos ? std::string() : action.substr(equals + 1);
    if (name == "join") return join();
    if (name == "barrier") return control_->barrier();
    if (name == "done") return control_->done();
    if (name == "leave") return control_.reset();
    if (name == "fail") return control_->fail(value);
    if (name == "lost")
      return control_->fail_by_peer(static_cast<std::uint32_t>(std::stoul(value)), "no answer");
    if (name == "stuck") return control_->set_working(7, value);
    if (name == "hear-failure") return hear_failure();
    if (name == "wait-stop") return wait_stop();
    if (name == "sleep") return sleep_for_ever();
    if (name == "spin") return spin_for_ever();
    if (name == "exit") _exit(std::stoi(value));
    if (name == "abort") std::abort();
    if (name == "kill") return die_of(std::stoi(value));
    if (name == "ignore") return static_cast<void>(signal(std::stoi(value), SIG_IGN));
    if (name == "exit0-on") return static_cast<void>(signal(std::stoi(value), [](int) { _exit(0); }));
    if (name == "out") return say(1, value + "\n");
    if (name == "err") return say(2, value + "\n");
    if (name == "tail") return say(1, value);
    if (name == "lines") return many_lines(std::stoi(value));
    if (name == "wide") return say(1, std::string(std::stoul(value), 'w') + "\n");
    if (name == "env") return say(1, value + "=" + std::getenv(value.c_str()) + "\n");
    if (name == "input") return say(1, "input ends: " + std::to_string(std::cin.get() == EOF) + "\n");
    if (name == "pid") return note_pid(value, getpid());
    if (name == "child") return child(value);
    throw weft::Error("unknown action " + action);
  }

 private:
  void join() {
    const auto environment = weft::rank_environment();
    control_ = std::make_unique<weft::ControlClient>(
        *environment, std::vector<weft::CommonFact>{{"build", weft::build_identity()}});
  }
  void die_of(int number) {
    if (number == SIGBUS) signal(number, SIG_DFL);  // the address sanitizer would exit instead
    raise(number);
  }
  void hear_failure() {
    while (!control_->failure()) std::this_thread::sleep_for(1ms);
    say(1, "heard: " + control_->failure()->what + "\n");
    _exit(1);
  }
  void wait_stop() {
    while (!control_->stop_requested()) std::this_thread::sleep_for(1ms);
  }
  static void sleep_for_ever() {
    for (;;) pause();
  }
  static void spin_for_ever() {
    for (std::atomic<int> turns = 0;;) ++turns;
  }
  /// A grandchild of the launcher that would stay for ever, and that no signal but SIGKILL ends.
  static void child(const std::string& folder) {
    const pid_t pid = fork();
    if (pid != 0) return note_pid(folder, pid);
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) signal(number, SIG_IGN);
    sleep_for_ever();
  }
  static void say(int descriptor, const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
      const auto written = write(descriptor, text.data() + at, text.size() - at);
      if (written <= 0) return;
      at += static_cast<std::size_t>(written);
    }
  }
  static void many_lines(int count) {
    for (int line = 0; line < count; ++line) say(1, "line " + std::to_string(line) + " end\n");
  }

  std::unique_ptr<weft::ControlClient> control_;
};

}  // namespace

int main(int count, char** arguments) {
  const char* rank = std::getenv("WEFT_RANK");
  try {
    Stub stub;
    for (int i = 1; i < count; ++i) {
      std::string action = arguments[i];
      const std::size_t colon = action.find(':');
      if (colon != std::string::npos && colon < 3) {
        if (action.substr(0, colon) != rank) continue;
        action.erase(0, colon + 1);
      }
      stub.act(action);
    }
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
