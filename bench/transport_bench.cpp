// Latency and bandwidth of `transport` between two processes, beside ucx_perftest in the same run with the
// same header, error mode and settings; and how long 1 MB takes to a rank that computes.
//
//   transport_bench [latency|bandwidth|busy|all] [rounds]      with UCX_TLS=tcp,self: over TCP
//
// Rounds of both programs alternate. Medians of the rounds' medians are shown for times, the best round for
// bandwidths: on a busy machine the best round is the one least disturbed.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/tests/transport/process_group.h"

namespace weft {
namespace {

constexpr std::size_t mib = 1024 * 1024;
constexpr Nanoseconds ms = 1'000'000;

void pin(std::uint32_t rank) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(rank % static_cast<std::uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))), &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// Counts what comes; every payload goes to the same memory.
class Counter final : public MessageSink {
 public:
  explicit Counter(std::size_t bytes) : memory_(bytes) {}
  Payload accept(std::uint32_t, const MessageHeader&) override { return {memory_.data(), {}}; }
  void delivered(std::uint32_t, const MessageHeader& header, Payload) override {
    ++received;
    if (header.step == 0) return;
    last_step = header.step;
    last_time_us = static_cast<std::uint32_t>(now_ns() / 1000);
  }
  void sent(SendToken) override { ++sent_count; }
  void peer_failed(std::uint32_t, const std::string& reason) override { throw TransportError(reason); }
  std::uint64_t received = 0;
  std::uint64_t sent_count = 0;
  std::uint32_t last_step = 0;
  std::uint32_t last_time_us = 0;

 private:
  std::vector<std::byte> memory_;
};

MessageHeader header_of(std::size_t bytes) {
  MessageHeader header;
  header.dtype = DType::uint8;
  header.shape = Shape{static_cast<std::uint32_t>(bytes)};
  header.payload_bytes = bytes;
  return header;
}

/// Runs `body` on two pinned processes and returns what rank 0 handed to `report`.
template <class Body>
double between_two(Body body) {
  int pipes[2];
  if (pipe(pipes) != 0) throw Error("no pipe");
  const auto endings = test::run_processes(2, [&](std::uint32_t rank, const ByteExchange& exchange) {
    pin(rank);
    const auto transport = make_ucx_transport(rank, 2, exchange);
    Counter counter(64 * mib);
    const Attachment attached = transport->attach(counter);
    const double value = body(rank, *transport, counter);
    if (rank == 0 && write(pipes[1], &value, sizeof(value)) != sizeof(value)) throw Error("no answer");
    transport->close(now_ns() + 10'000 * ms);
  });
  close(pipes[1]);
  double value = 0;
  const bool got = read(pipes[0], &value, sizeof(value)) == sizeof(value);
  close(pipes[0]);
  if (const std::string error = test::first_error(endings); !error.empty() || !got) throw Error(error);
  return value;
}

/// One way, in microseconds: the median of half the round trips.
double latency(std::size_t bytes) {
  return between_two([bytes](std::uint32_t rank, Transport& transport, Counter& counter) {
    const int warm_up = 1000;
    const int count = 20'000;
    const std::vector<std::byte> payload(bytes);
    const MessageHeader header = header_of(bytes);
    std::vector<double> times;
    times.reserve(count);
    for (int i = 0; i < warm_up + count; ++i) {
      const auto due = static_cast<std::uint64_t>(i) + 1;
      const Nanoseconds begin = now_ns();
      if (rank == 0) transport.send(1, header, {payload.data(), {}}, 0);
      while (counter.received < due) transport.progress();
      if (rank == 1) transport.send(0, header, {payload.data(), {}}, 0);
      if (i >= warm_up) times.push_back(static_cast<double>(now_ns() - begin) / 2000);
    }
    return median(std::move(times));
  });
}

/// GB/s of a stream of messages, at most four under way.
double bandwidth(std::size_t bytes) {
  return between_two([bytes](std::uint32_t rank, Transport& transport, Counter& counter) {
    const std::uint64_t count = std::max<std::uint64_t>(300 * mib / bytes, 20);
    const std::vector<std::byte> payload(bytes, std::byte{1});
    const MessageHeader header = header_of(bytes);
    double rate = 0;
    for (std::uint64_t round = 1; round <= 2; ++round) {  // the first warms up
      const Nanoseconds begin = now_ns();
      if (rank == 0) {
        for (std::uint64_t posted = (round - 1) * count; posted < round * count; ++posted) {
          while (posted - counter.sent_count >= 4) transport.progress();
          transport.send(1, header, {payload.data(), {}}, posted);
        }
        while (counter.received < round) transport.progress();
      } else {
        while (counter.received < round * count) transport.progress();
        transport.send(0, header_of(0), {}, 0);
      }
      rate = static_cast<double>(count * bytes) / static_cast<double>(now_ns() - begin);
    }
    return rate;
  });
}

/// Milliseconds from the send of 1 MiB to its arrival at a rank that computes in ops of 20 ms and calls
/// progress() every `poll_interval`; the median over 30 messages sent at different moments of an op.
double arrival_while_busy(Nanoseconds poll_interval) {
  return between_two([poll_interval](std::uint32_t rank, Transport& transport, Counter& counter) {
    const std::vector<std::byte> payload(mib, std::byte{1});
    std::vector<double> times;
    for (std::uint64_t i = 0; i < 30; ++i) {
      if (rank == 1) {
        const Nanoseconds start = now_ns() + static_cast<Nanoseconds>(i) * 700'000 % (15 * ms);
        while (now_ns() < start) transport.progress();
        MessageHeader header = header_of(mib);
        header.step = static_cast<std::uint32_t>(now_ns() / 1000);  // both processes read the same clock
        transport.send(0, header, {payload.data(), {}}, 0);
        while (counter.received <= i) transport.progress();
        continue;
      }
      while (counter.received <= i) {
        const Nanoseconds end = now_ns() + 20 * ms;  // one op
        Nanoseconds poll = now_ns() + poll_interval;
        while (now_ns() < end) {
          if (now_ns() < poll) continue;
          transport.progress();
          poll = now_ns() + poll_interval;
        }
        transport.progress();
      }
      times.push_back((counter.last_time_us - counter.last_step) / 1000.0);
      transport.send(1, header_of(0), {}, 0);
    }
    return median(std::move(times));
  });
}

std::uint16_t free_port() {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  bind(descriptor, reinterpret_cast<sockaddr*>(&address), length);
  getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length);
  close(descriptor);
  return ntohs(address.sin_port);
}

struct Perftest {
  double latency_us = 0;
  double bandwidth = 0;  // GB/s
};

/// One run of ucx_perftest with weft's settings; none when it is not there or fails.
std::optional<Perftest> perftest(const std::string& kind, std::size_t bytes, int count) {
  const std::string settings =
      "UCX_MM_ERROR_HANDLING=y UCX_MM_SEG_SIZE=32k UCX_MM_FIFO_SIZE=256 UCX_WARN_UNUSED_ENV_VARS=n "
      "UCX_NET_DEVICES=lo";
  const std::uint16_t port = free_port();
  const std::string command = fmt::format(
      "{0} timeout 60 ucx_perftest -p {1} -c 0 >/dev/null 2>&1 & sleep 0.3; {0} timeout 60 ucx_perftest "
      "127.0.0.1 -p {1} -c 1 -t {2} -s {3} -H 64 -e -n {4} -w {5} -f -v 2>/dev/null | tail -1; wait",
      settings, port, kind, bytes, count, count / 10);
  std::FILE* output = popen(command.c_str(), "r");
  if (output == nullptr) return std::nullopt;
  std::array<char, 512> line{};
  const bool got = std::fgets(line.data(), static_cast<int>(line.size()), output) != nullptr;
  pclose(output);
  double values[6] = {};
  if (!got || std::sscanf(line.data(), "%lf,%lf,%lf,%lf,%lf,%lf", &values[0], &values[1], &values[2],
                          &values[3], &values[4], &values[5]) < 6)
    return std::nullopt;
  return Perftest{values[1], values[5] * static_cast<double>(mib) / 1e9};
}

/// Why there is nothing to compare with.
const char* no_perftest() {
  static const bool installed = std::system("command -v ucx_perftest >/dev/null 2>&1") == 0;
  return installed ? "ucx_perftest gave no answer" : "ucx_perftest is not installed (package ucx-utils)";
}

void show_latency(int rounds) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{64}, std::size_t{4096}}) {
    std::vector<double> own;
    std::vector<double> other;
    for (int round = 0; round < rounds; ++round) {
      own.push_back(latency(bytes));
      if (const auto result = perftest("ucp_am_lat", bytes, 20'000)) other.push_back(result->latency_us);
    }
    if (other.empty()) {
      fmt::print("{:>9} bytes: weft {:>6.2f} us; {}\n", bytes, median(own), no_perftest());
      continue;
    }
    fmt::print("{:>9} bytes: weft {:>6.2f} us, ucx_perftest {:>6.2f} us, {:+.2f} us\n", bytes, median(own),
               median(other), median(own) - median(other));
  }
}

void show_bandwidth(int rounds) {
  for (const std::size_t bytes : {64 * std::size_t{1024}, mib, 4 * mib, 16 * mib}) {
    double own = 0;
    double other = 0;
    for (int round = 0; round < rounds; ++round) {
      own = std::max(own, bandwidth(bytes));
      if (const auto result = perftest("ucp_am_bw", bytes, static_cast<int>(300 * mib / bytes)))
        other = std::max(other, result->bandwidth);
    }
    if (other == 0) {
      fmt::print("{:>9} bytes: weft {:>6.2f} GB/s; {}\n", bytes, own, no_perftest());
      continue;
    }
    fmt::print("{:>9} bytes: weft {:>6.2f} GB/s, ucx_perftest {:>6.2f} GB/s, {:.0f} %\n", bytes, own, other,
               100 * own / other);
  }
}

void show_busy() {
  for (const Nanoseconds poll : {200'000, 20'000'000})
    fmt::print("1 MiB to a rank that computes, with progress every {:.1f} ms: {:.2f} ms\n",
               static_cast<double>(poll) / static_cast<double>(ms), arrival_while_busy(poll));
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  setenv("UCX_ERROR_SIGNALS", "", 1);
  setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 1);
  try {
    const std::string what = argc > 1 ? argv[1] : "all";
    const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 5;
    if (what == "all" || what == "latency") weft::show_latency(rounds);
    if (what == "all" || what == "bandwidth") weft::show_bandwidth(rounds);
    if (what == "all" || what == "busy") weft::show_busy();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
