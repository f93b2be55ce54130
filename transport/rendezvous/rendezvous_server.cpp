#include "weft/transport/rendezvous/rendezvous_server.h"

#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <deque>
#include <mutex>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/transport/rendezvous/roll.h"
#include "weft/transport/rendezvous/session.h"

namespace weft {

using namespace control;
using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

/// Connections that have not proved to know the token yet; the oldest goes when there are more than this and
/// the ranks' number. A stranger who holds connections open keeps nobody out.
constexpr std::size_t most_strangers = 64;

}  // namespace

struct RendezvousServer::Impl {
  explicit Impl(const RendezvousOptions& from);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void listen();
  void accept();
  void make_room();
  void introduce(const std::shared_ptr<Session>& session, const Introduction& who);
  void take(std::uint32_t rank, Type type, Reader payload);
  void take_pace(std::uint32_t rank, Reader& payload);
  void ended(std::optional<std::uint32_t> rank, const std::string& why);
  void watch();
  void answer_exchange();
  void to_all(Type type, const Bytes& payload);
  void report(RendezvousEvent event_to_report);
  Bytes failure_frame() const;

  asio::io_context io{1};  // first: everything with a socket or timer must go before it
  RendezvousOptions options;
  std::chrono::milliseconds period;
  Roll roll;
  std::vector<std::shared_ptr<Session>> sessions;  // by rank; null before it joins
  std::deque<std::shared_ptr<Session>>
      strangers;  // oldest first; those introduced or closed go at the next arrival
  Session::Handlers handlers;
  std::optional<Failure> cause;
  Pace pace;
  bool stop = false;
  bool judged = false;
  Time last_watch{};

  tcp::acceptor acceptor{io};
  asio::steady_timer watch_timer{io};
  asio::steady_timer accept_timer{io};
  std::thread thread;

  Descriptor event;
  std::mutex mutex;
  std::deque<RendezvousEvent> events;  // under mutex
};

RendezvousServer::Impl::Impl(const RendezvousOptions& from)
    : options(from),
      period(std::clamp(options.heartbeat_limit / 20, std::chrono::milliseconds(5ms),
                        std::chrono::milliseconds(500ms))),
      roll(options.world_size),
      sessions(options.world_size) {
  event = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) throw TransportError("the rendezvous server cannot make its event descriptor");
  handlers.introduced = [this](const std::shared_ptr<Session>& session, const Introduction& who) {
    introduce(session, who);
  };
  handlers.frame = [this](std::uint32_t rank, Type type, Reader payload) { take(rank, type, payload); };
  handlers.ended = [this](std::optional<std::uint32_t> rank, const std::string& why) { ended(rank, why); };
}

void RendezvousServer::Impl::listen() {
  try {
    const tcp::endpoint place(asio::ip::make_address(options.bind_address), 0);
    acceptor.open(place.protocol());
    acceptor.bind(place);
    acceptor.listen();
  } catch (const asio::system_error& e) {
    throw TransportError("the rendezvous server cannot listen on " + options.bind_address + ": " + e.what());
  }
}

void RendezvousServer::Impl::accept() {
  acceptor.async_accept([this](asio::error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) {  // out of descriptors, most likely: some will come back
      accept_timer.expires_after(100ms);
      accept_timer.async_wait([this](asio::error_code cancelled) {
        if (!cancelled) accept();
      });
      return;
    }
    asio::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    make_room();
    const auto session =
        std::make_shared<Session>(std::move(socket), options.token, options.world_size, handlers);
    strangers.push_back(session);
    session->start(options.handshake_limit);
    accept();
  });
}

void RendezvousServer::Impl::make_room() {
  std::erase_if(strangers, [](const auto& session) { return session->introduced() || !session->open(); });
  for (auto at = strangers.begin();
       at != strangers.end() && strangers.size() >= most_strangers + options.world_size;) {
    if ((*at)->proved()) {
      ++at;
      continue;
    }
    (*at)->close();
    at = strangers.erase(at);
  }
}

void RendezvousServer::Impl::introduce(const std::shared_ptr<Session>& session, const Introduction& who) {
  if (const auto objection = roll.objection(who.rank, who.world_size, who.facts)) {
    session->connection().send(Type::refused, Writer().string(*objection).take());
    session->connection().close_after_sending();
    if (who.rank < roll.size() && !roll.active(who.rank)) {
      report({RendezvousEvent::Kind::found,
              who.rank,
              0,
              "rank " + std::to_string(who.rank) + " was refused at the rendezvous: " + *objection,
              {}});
    }
    return;
  }
  session->accept_as(who.rank);
  sessions[who.rank] = session;
  roll.join(who.rank, who.facts, std::chrono::steady_clock::now());
  const auto interval = std::max<std::int64_t>(1, options.heartbeat_limit.count() / 10);
  session->connection().send(Type::welcome, Writer().u32(static_cast<std::uint32_t>(interval)).take());
  if (stop) session->connection().send(Type::stop, {});
  if (cause) session->connection().send(Type::failure, failure_frame());
  report({RendezvousEvent::Kind::joined, who.rank, 0, {}, {}});
}

void RendezvousServer::Impl::take(std::uint32_t rank, Type type, Reader payload) {
  const Time now = std::chrono::steady_clock::now();
  const std::string name = "rank " + std::to_string(rank);
  const auto acknowledge = [&] { sessions[rank]->connection().send(Type::taken, {}); };
  switch (type) {
    case Type::heartbeat: {
      Heartbeat heartbeat;
      heartbeat.activity = static_cast<Activity>(std::min(payload.u32(), 2U));
      heartbeat.count = payload.u64();
      heartbeat.ticks = payload.u64();
      heartbeat.doing = payload.text();
      take_pace(rank, payload);
      return roll.beat(rank, heartbeat, now);
    }
    case Type::address: {
      const std::uint64_t round = payload.u64();
      const auto part = payload.bytes();
      roll.give(rank, round, Bytes(part.begin(), part.end()), now);
      if (roll.exchange_complete()) answer_exchange();
      return;
    }
    case Type::failed:
      report({RendezvousEvent::Kind::failed, rank, 0, name + " failed: " + payload.text(), {}});
      return acknowledge();
    case Type::lost_peer: {
      const std::uint32_t peer = payload.u32();
      report({RendezvousEvent::Kind::lost_peer,
              rank,
              peer,
              name + " lost rank " + std::to_string(peer) + ": " + payload.text(),
              {}});
      return acknowledge();
    }
    case Type::done:
      roll.finish(rank);
      report({RendezvousEvent::Kind::done, rank, 0, {}, {}});
      return acknowledge();
    default:
      throw TransportError("a rank sends what only the launcher sends");
  }
}

void RendezvousServer::Impl::take_pace(std::uint32_t rank, Reader& payload) {
  constexpr std::uint64_t most = 1'000'000'000;  // so that nobody's sums overflow
  const std::chrono::milliseconds step(std::min(payload.u64(), most));
  const std::chrono::milliseconds save(std::min(payload.u64(), most));
  const Pace longest{std::max(pace.step, step), std::max(pace.save, save)};
  if (longest == pace) return;
  pace = longest;
  report({RendezvousEvent::Kind::pace, rank, 0, {}, pace});
}

void RendezvousServer::Impl::ended(std::optional<std::uint32_t> rank, const std::string& why) {
  if (!rank) {
    log::debug("rendezvous: a connection was closed: " + why);
    return;
  }
  roll.leave(*rank);
  if (!roll.active(*rank)) return;
  report({RendezvousEvent::Kind::left,
          *rank,
          0,
          "the control connection of rank " + std::to_string(*rank) + " ended before its work was done (" +
              why + ")",
          {}});
}

void RendezvousServer::Impl::answer_exchange() {
  const auto parts = roll.take_exchange();
  for (std::uint32_t rank = 0; rank < roll.size(); ++rank) {
    Writer writer;
    writer.u64(parts[rank].round);
    for (const auto& part : parts) writer.bytes(part.bytes);
    sessions[rank]->connection().send(Type::addresses, writer.take());
  }
}

void RendezvousServer::Impl::watch() {
  const Time now = std::chrono::steady_clock::now();
  if (now - last_watch > 5 * period) roll.forgive(now);  // this process was stopped: nobody is to blame
  last_watch = now;
  if (!judged && !cause) {
    if (const auto found = roll.judge(now, options.heartbeat_limit, options.join_limit)) {
      judged = true;
      report({RendezvousEvent::Kind::found, found->rank, 0, found->what, {}});
    }
  }
  watch_timer.expires_after(period);
  watch_timer.async_wait([this](asio::error_code cancelled) {
    if (!cancelled) watch();
  });
}

Bytes RendezvousServer::Impl::failure_frame() const {
  return Writer().u32(cause->rank).string(std::string_view(cause->what).substr(0, most_words_bytes)).take();
}

void RendezvousServer::Impl::to_all(Type type, const Bytes& payload) {
  for (const auto& session : sessions) {
    if (session) session->connection().send(type, payload);
  }
}

void RendezvousServer::Impl::report(RendezvousEvent event_to_report) {
  const std::lock_guard lock(mutex);
  events.push_back(std::move(event_to_report));
  eventfd_write(event.number(), 1);
}

RendezvousServer::RendezvousServer(const RendezvousOptions& options)
    : impl_(std::make_unique<Impl>(options)) {
  impl_->listen();
  impl_->last_watch = std::chrono::steady_clock::now();
  impl_->accept();
  impl_->watch();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  impl_->thread = std::thread([impl = impl_.get()] { impl->io.run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

RendezvousServer::~RendezvousServer() {
  impl_->io.stop();
  impl_->thread.join();
}

std::uint16_t RendezvousServer::port() const noexcept {
  asio::error_code ignored;
  return impl_->acceptor.local_endpoint(ignored).port();
}

int RendezvousServer::event_descriptor() const noexcept { return impl_->event.number(); }

std::optional<RendezvousEvent> RendezvousServer::next_event() {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->events.empty()) return std::nullopt;
  RendezvousEvent next = std::move(impl_->events.front());
  impl_->events.pop_front();
  if (impl_->events.empty()) {
    eventfd_t ignored = 0;
    eventfd_read(impl_->event.number(), &ignored);
  }
  return next;
}

void RendezvousServer::announce_failure(const Failure& cause) {
  asio::post(impl_->io, [impl = impl_.get(), cause] {
    if (impl->cause) return;
    impl->cause = cause;
    impl->to_all(Type::failure, impl->failure_frame());
  });
}

void RendezvousServer::request_stop() {
  asio::post(impl_->io, [impl = impl_.get()] {
    if (impl->stop) return;
    impl->stop = true;
    impl->to_all(Type::stop, {});
  });
}

}  // namespace weft
