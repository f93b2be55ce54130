#include "weft/tests/transport/process_group.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <optional>

#include "weft/base/error.h"

namespace weft::test {
namespace {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

// A packet begins with one byte that says what follows.
constexpr std::byte to_exchange{1};
constexpr std::byte error_text{2};

void send_packet(int socket, std::byte what, const void* data, std::size_t size) {
  Bytes packet(1 + size);
  packet[0] = what;
  if (size != 0) std::memcpy(packet.data() + 1, data, size);
  // The other side may be gone already; that is found when it is waited for.
  [[maybe_unused]] const auto sent = send(socket, packet.data(), packet.size(), MSG_NOSIGNAL);
}

/// The next packet; empty at the end.
Bytes receive_packet(int socket) {
  Bytes packet(128 * 1024);
  const auto size = recv(socket, packet.data(), packet.size(), 0);
  packet.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return packet;
}

ByteExchange exchange_over(int socket, std::uint32_t ranks) {
  return [socket, ranks](const Bytes& mine) {
    send_packet(socket, to_exchange, mine.data(), mine.size());
    std::vector<Bytes> all;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      Bytes packet = receive_packet(socket);
      if (packet.empty() || packet[0] != to_exchange)
        throw PeerFailure(rank, "a process ended during an exchange");
      all.emplace_back(packet.begin() + 1, packet.end());
    }
    return all;
  };
}

[[noreturn]] void be_child(int socket, std::uint32_t rank, std::uint32_t ranks,
                           const std::function<void(std::uint32_t, const ByteExchange&)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    body(rank, exchange_over(socket, ranks));
  } catch (const std::exception& error) {
    send_packet(socket, error_text, error.what(), std::strlen(error.what()));
    _exit(1);
  }
  _exit(0);
}

struct Child {
  pid_t pid = 0;
  int socket = -1;
  bool ended = false;
  std::optional<Bytes> offered;
  Ending ending;
};

void reap(Child& child) {
  int status = 0;
  waitpid(child.pid, &status, 0);
  child.ended = true;
  close(child.socket);
  if (WIFSIGNALED(status)) child.ending.signal = WTERMSIG(status);
  if (!child.ending.error.empty()) return;
  if (WIFSIGNALED(status))
    child.ending.error = "ended by signal " + std::to_string(WTERMSIG(status));
  else if (WEXITSTATUS(status) != 0)
    child.ending.error = "exit status " + std::to_string(WEXITSTATUS(status));
}

void pass_on_offers(std::vector<Child>& children) {
  std::size_t offers = 0;
  bool somebody_ended = false;
  for (const Child& child : children) {
    offers += child.offered.has_value();
    somebody_ended = somebody_ended || child.ended;
  }
  if (offers == 0) return;
  if (somebody_ended) {  // the exchange cannot come about any more
    for (Child& child : children)
      if (child.offered.has_value() && !child.ended) send_packet(child.socket, error_text, nullptr, 0);
  } else if (offers == children.size()) {
    for (const Child& child : children)
      for (const Child& from : children)
        send_packet(child.socket, to_exchange, from.offered->data(), from.offered->size());
  } else {
    return;
  }
  for (Child& child : children) child.offered.reset();
}

}  // namespace

std::vector<Ending> run_processes(std::uint32_t ranks,
                                  const std::function<void(std::uint32_t, const ByteExchange&)>& body,
                                  std::chrono::seconds limit) {
  std::fflush(nullptr);
  std::vector<Child> children(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) throw Error("no socket pair");
    const pid_t pid = fork();
    if (pid < 0) throw Error("cannot fork");
    if (pid == 0) {
      for (const Child& sibling : children)
        if (sibling.socket >= 0) close(sibling.socket);
      close(sockets[0]);
      be_child(sockets[1], rank, ranks, body);
    }
    close(sockets[1]);
    children[rank].pid = pid;
    children[rank].socket = sockets[0];
  }

  const auto deadline = Clock::now() + limit;
  for (;;) {
    std::vector<pollfd> descriptors;
    std::vector<Child*> waiting;
    for (Child& child : children)
      if (!child.ended) {
        descriptors.push_back({child.socket, POLLIN, 0});
        waiting.push_back(&child);
      }
    if (waiting.empty()) break;
    poll(descriptors.data(), descriptors.size(), 100);
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (descriptors[i].revents == 0) continue;
      const Bytes packet = receive_packet(waiting[i]->socket);
      if (packet.empty())
        reap(*waiting[i]);  // at once: UCX notices a dead process only when it is reaped
      else if (packet[0] == error_text)
        waiting[i]->ending.error.assign(reinterpret_cast<const char*>(packet.data()) + 1, packet.size() - 1);
      else
        waiting[i]->offered.emplace(packet.begin() + 1, packet.end());
    }
    pass_on_offers(children);
    if (Clock::now() < deadline) continue;
    for (Child* child : waiting)
      if (!child->ended) {
        child->ending.error = "hung, and was killed";
        kill(child->pid, SIGKILL);
      }
  }
  std::vector<Ending> endings;
  for (const Child& child : children) endings.push_back(child.ending);
  return endings;
}

std::string first_error(const std::vector<Ending>& endings) {
  for (std::size_t rank = 0; rank < endings.size(); ++rank)
    if (!endings[rank].error.empty()) return "rank " + std::to_string(rank) + ": " + endings[rank].error;
  return "";
}

}  // namespace weft::test
