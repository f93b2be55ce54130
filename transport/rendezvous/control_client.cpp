#include "weft/transport/rendezvous/control_client.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/transport/rendezvous/connection.h"
#include "weft/transport/rendezvous/pace.h"
#include "weft/transport/rendezvous/progress_board.h"

namespace weft {

using namespace control;
using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

constexpr auto connect_limit = 10s;
// How long to wait for the launcher's answer, should the machine be very busy.
constexpr auto last_words_limit = 2s;
constexpr auto done_limit = 10s;

/// The control thread takes no signal: they are for the program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

struct ControlClient::Impl {
  Impl(RankEnvironment of, std::function<void()> callback)
      : environment(std::move(of)), on_failure(std::move(callback)) {}

  void connect(const std::vector<CommonFact>& facts);
  void greet(const std::vector<CommonFact>& facts);
  void check_answer(const std::vector<CommonFact>& facts);
  void introduce(const std::vector<CommonFact>& facts);
  void take(Type type, Reader payload);
  void take_addresses(Reader payload);
  void note_failure(Failure what);
  void beat();
  void enter_step() noexcept;
  void say_and_wait(Type type, Bytes payload, std::chrono::milliseconds limit) noexcept;
  [[noreturn]] void cannot_join(const std::string& why) const;

  RankEnvironment environment;
  std::function<void()> on_failure;
  ProgressBoard board;
  PaceMeter pace;
  bool inside = false;  // a step, for the actor thread

  asio::io_context io{1};
  asio::steady_timer heartbeat{io};
  std::shared_ptr<Connection> connection;
  Nonce nonce = make_nonce();
  std::array<std::byte, std::max(greeting_bytes, answer_bytes)> handshake{};
  std::chrono::milliseconds interval{1000};
  std::string refusal;
  bool welcome = false;
  std::thread thread;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::optional<Failure> failure;         // under mutex
  std::uint64_t round = 0;                // under mutex
  std::optional<std::vector<Bytes>> all;  // under mutex: the answer to the current round
  bool taken = false;                     // under mutex: the launcher has last words or `done`
  bool said_failure = false;              // under mutex
  std::atomic<bool> left{false};          // the launcher's end of the connection is no failure any more
  std::atomic<bool> stop{false};
};

void ControlClient::Impl::cannot_join(const std::string& why) const {
  const std::string where = environment.host_name.empty() ? "" : " on " + environment.host_name;
  throw TransportError("rank " + std::to_string(environment.rank) + where + " cannot join the run at " +
                       environment.launcher_host + ":" + std::to_string(environment.launcher_port) + ": " +
                       why);
}

void ControlClient::Impl::connect(const std::vector<CommonFact>& facts) {
  asio::error_code error;
  tcp::resolver resolver(io);
  const auto places =
      resolver.resolve(environment.launcher_host, std::to_string(environment.launcher_port), error);
  if (error) cannot_join(error.message());
  connection = std::make_shared<Connection>(tcp::socket(io));
  asio::async_connect(connection->socket(), places,
                      [this, &facts](asio::error_code failed, const tcp::endpoint&) {
                        if (failed) {
                          refusal = failed.message();
                          return;
                        }
                        connection->socket().set_option(tcp::no_delay(true));
                        greet(facts);
                      });
  const auto deadline = std::chrono::steady_clock::now() + connect_limit;
  while (!welcome && refusal.empty() && io.run_one_until(deadline) > 0) {
  }
  if (!refusal.empty()) cannot_join(refusal);
  if (!welcome) cannot_join("no answer within 10 s");
}

void ControlClient::Impl::greet(const std::vector<CommonFact>& facts) {
  std::copy_n(reinterpret_cast<const std::byte*>(magic.data()), magic.size(), handshake.begin());
  std::copy(nonce.begin(), nonce.end(), handshake.begin() + magic.size());
  asio::async_write(connection->socket(), asio::buffer(handshake.data(), greeting_bytes),
                    [this, &facts](asio::error_code failed, std::size_t) {
                      if (failed) {
                        refusal = failed.message();
                        return;
                      }
                      asio::async_read(connection->socket(), asio::buffer(handshake.data(), answer_bytes),
                                       [this, &facts](asio::error_code ended, std::size_t) {
                                         if (ended) {
                                           refusal = "the other side is no launcher of this run (" +
                                                     ended.message() + ")";
                                           return;
                                         }
                                         check_answer(facts);
                                       });
                    });
}

void ControlClient::Impl::check_answer(const std::vector<CommonFact>& facts) {
  if (std::memcmp(handshake.data(), magic.data(), magic.size()) != 0) {
    refusal = std::memcmp(handshake.data(), magic.data(), 6) == 0
                  ? "the launcher speaks another version of the control protocol; start ranks and launcher "
                    "from one build"
                  : "the other side is no weft launcher";
    return;
  }
  Nonce theirs;
  std::copy_n(handshake.begin() + magic.size(), theirs.size(), theirs.begin());
  const std::span<const std::byte> proof(handshake.data() + magic.size() + theirs.size(), sizeof(Digest));
  if (!same(prove(environment.token, "launcher", nonce, theirs), proof)) {
    refusal = "the other side does not know this run's token";
    return;
  }
  const Digest mine = prove(environment.token, "rank", nonce, theirs);
  std::copy(mine.begin(), mine.end(), handshake.begin());
  const std::uint32_t world = environment.mesh.world_size();
  Channel from_launcher(environment.token, "from launcher", nonce, theirs, world);
  Channel from_rank(environment.token, "from rank", nonce, theirs, world);
  asio::async_write(
      connection->socket(), asio::buffer(handshake.data(), proof_bytes),
      [this, &facts, from_launcher, from_rank](asio::error_code failed, std::size_t) {
        if (failed) {
          refusal = failed.message();
          return;
        }
        connection->start(
            from_launcher, from_rank, [this](Type type, Reader payload) { take(type, payload); },
            [this](const std::string& why) {
              if (!welcome && refusal.empty())
                refusal = "the launcher has closed the connection (" + why + ")";
              if (welcome && !left)
                note_failure({launcher_rank, "the connection to the launcher is lost (" + why + ")"});
            });
        introduce(facts);
      });
}

void ControlClient::Impl::introduce(const std::vector<CommonFact>& facts) {
  Writer writer;
  writer.u32(environment.rank)
      .u32(environment.mesh.world_size())
      .u32(static_cast<std::uint32_t>(facts.size()));
  for (const CommonFact& fact : facts) writer.string(fact.name).string(fact.value);
  connection->send(Type::hello, writer.take());
}

void ControlClient::Impl::take(Type type, Reader payload) {
  switch (type) {
    case Type::welcome:
      interval = std::chrono::milliseconds(std::max<std::uint32_t>(1, payload.u32()));
      welcome = true;
      return;
    case Type::refused:
      refusal = payload.text();
      return;
    case Type::addresses:
      return take_addresses(payload);
    case Type::failure: {
      const std::uint32_t rank = payload.u32();
      return note_failure({rank, payload.text()});
    }
    case Type::stop:
      stop = true;
      return;
    case Type::taken: {
      const std::lock_guard lock(mutex);
      taken = true;
      changed.notify_all();
      return;
    }
    default:
      throw TransportError("the launcher sends what only ranks send");
  }
}

void ControlClient::Impl::take_addresses(Reader payload) {
  const std::lock_guard lock(mutex);
  if (payload.u64() != round) throw TransportError("addresses of another round");
  std::vector<Bytes> gathered;
  for (std::uint32_t rank = 0; rank < environment.mesh.world_size(); ++rank) {
    const auto one = payload.bytes();
    gathered.emplace_back(one.begin(), one.end());
  }
  payload.end();
  all = std::move(gathered);
  changed.notify_all();
}

void ControlClient::Impl::note_failure(Failure what) {
  {
    const std::lock_guard lock(mutex);
    if (failure) return;
    failure = std::move(what);
    changed.notify_all();
  }
  if (on_failure) on_failure();
}

void ControlClient::Impl::beat() {
  const ProgressBoard::Reading now = board.read();
  Writer writer;
  const Pace longest = pace.read(now_ns());
  writer.u32(static_cast<std::uint32_t>(now.activity)).u64(now.count).u64(now.ticks).string(now.doing);
  writer.u64(static_cast<std::uint64_t>(longest.step.count()));
  writer.u64(static_cast<std::uint64_t>(longest.save.count()));
  connection->send(Type::heartbeat, writer.take());
  heartbeat.expires_after(interval);
  heartbeat.async_wait([this](asio::error_code cancelled) {
    if (!cancelled && connection->socket().is_open()) beat();
  });
}

void ControlClient::Impl::say_and_wait(Type type, Bytes payload, std::chrono::milliseconds limit) noexcept {
  try {
    {
      const std::lock_guard lock(mutex);
      if (said_failure || left) return;
      said_failure = type != Type::done;
      taken = false;
    }
    asio::post(io, [this, type, bytes = std::move(payload)] {
      if (type == Type::done) left = true;
      connection->send(type, bytes);
    });
    std::unique_lock lock(mutex);
    changed.wait_for(lock, limit, [this] { return taken || failure.has_value(); });
  } catch (const std::exception&) {
    // nothing better can be done: the launcher will see the connection end
  }
}

ControlClient::ControlClient(const RankEnvironment& environment, std::vector<CommonFact> facts,
                             std::function<void()> on_failure)
    : impl_(std::make_unique<Impl>(environment, std::move(on_failure))) {
  impl_->connect(facts);
  const SignalsBlocked blocked;
  impl_->thread = std::thread([impl = impl_.get()] {
    impl->beat();
    impl->io.run();
  });
}

ControlClient::~ControlClient() {
  impl_->left = true;
  asio::post(impl_->io, [impl = impl_.get()] {
    impl->heartbeat.cancel();
    impl->connection->close();
  });
  impl_->thread.join();
}

std::vector<ControlClient::Bytes> ControlClient::exchange(std::span<const std::byte> own) {
  if (own.size() > most_address_bytes) throw TransportError("more than 64 KiB in an exchange");
  if (impl_->left) throw TransportError("an exchange after this rank has said that it is done");
  std::unique_lock lock(impl_->mutex);
  ++impl_->round;
  impl_->all.reset();
  Writer writer;
  writer.u64(impl_->round).bytes(own);
  asio::post(impl_->io,
             [impl = impl_.get(), bytes = writer.take()] { impl->connection->send(Type::address, bytes); });
  impl_->changed.wait(lock, [this] { return impl_->all.has_value() || impl_->failure.has_value(); });
  if (impl_->all) return *std::exchange(impl_->all, std::nullopt);
  throw PeerFailure(impl_->failure->rank, impl_->failure->what);
}

void ControlClient::barrier() { static_cast<void>(exchange({})); }

void ControlClient::Impl::enter_step() noexcept {
  if (!std::exchange(inside, true)) pace.begin_step(now_ns());
}

void ControlClient::set_working(std::uint64_t count, std::string_view doing) noexcept {
  impl_->enter_step();
  impl_->board.set(Activity::working, count, doing);
}
void ControlClient::set_waiting(std::uint64_t count, std::string_view what) noexcept {
  impl_->enter_step();
  impl_->board.set(Activity::waiting, count, what);
}
void ControlClient::set_outside() noexcept {
  if (std::exchange(impl_->inside, false)) impl_->pace.end_step(now_ns());
  impl_->board.set_outside();
}
void ControlClient::begin_save() noexcept { impl_->pace.begin_save(now_ns()); }
void ControlClient::end_save() noexcept { impl_->pace.end_save(now_ns()); }
void ControlClient::tick() noexcept { impl_->board.tick(); }

void ControlClient::fail(std::string_view what) noexcept {
  try {
    Writer writer;
    writer.string(what.substr(0, most_words_bytes));
    impl_->say_and_wait(Type::failed, writer.take(), last_words_limit);
  } catch (const std::bad_alloc&) {
  }
}

void ControlClient::fail_by_peer(std::uint32_t peer, std::string_view what) noexcept {
  try {
    Writer writer;
    writer.u32(peer).string(what.substr(0, most_words_bytes));
    impl_->say_and_wait(Type::lost_peer, writer.take(), last_words_limit);
  } catch (const std::bad_alloc&) {
  }
}

void ControlClient::done() noexcept { impl_->say_and_wait(Type::done, {}, done_limit); }

std::optional<Failure> ControlClient::failure() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->failure;
}

bool ControlClient::stop_requested() const noexcept { return impl_->stop; }

}  // namespace weft
