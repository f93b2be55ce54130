#pragma once
// The one interface between actors and whatever carries their messages.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "weft/base/clock.h"
#include "weft/transport/message.h"
#include "weft/transport/payload.h"

namespace weft {

/// Names one send; chosen by the sender, given back by MessageSink::sent.
using SendToken = std::uint64_t;

/// What a transport tells its rank. Called from inside Transport::progress() and close() (and only there), on
/// the rank's thread. An implementation files what it is told and wakes nobody directly: coroutines are
/// resumed later by the event loop.
class MessageSink {
 public:
  virtual ~MessageSink() = default;
  /// A message begins to arrive from rank `from`. Returns where its payload (header.payload_bytes, may be 0)
  /// shall go; the memory stays valid until `delivered`, and is CPU memory unless the transport's
  /// capabilities say cuda_direct. Throws TransportError for a message that the plan
  /// does not allow.
  virtual Payload accept(std::uint32_t from, const MessageHeader& header) = 0;
  /// The whole payload lies where `accept` said. Messages of one sender may be delivered out of order.
  virtual void delivered(std::uint32_t from, const MessageHeader& header, Payload payload) = 0;
  /// The payload of the send may be used again. Says nothing about the receiver.
  virtual void sent(SendToken token) = 0;
  /// Rank `peer` is gone; told at most once a peer.
  virtual void peer_failed(std::uint32_t peer, const std::string& reason) = 0;
};

/// What a transport can do, known at start.
struct Capabilities {
  std::string name;          ///< "inproc", "ucx shared memory", "ucx tcp", ... for logs and `doctor`
  bool cuda_direct = false;  ///< device memory may be sent and received without staging
};

class Transport;

/// Ties a sink to a transport for as long as it lives: best the last member of the sink, so that it goes
/// first. When it ends, the transport forgets the sink and lets go of all memory that the sink gave it, both
/// payloads under way and places accepted for others. A transport that is destroyed earlier ends it, too.
class [[nodiscard]] Attachment {
 public:
  Attachment() = default;
  Attachment(Attachment&& other) noexcept;
  Attachment& operator=(Attachment&& other) noexcept;
  ~Attachment() { end(); }

  /// Unties them now. Messages that had not left are lost unless close() came before: the rank fails.
  void end() noexcept;

 private:
  friend class Transport;
  explicit Attachment(Transport& transport) noexcept;
  Transport* transport_ = nullptr;
};

/// Moves messages between the ranks of one pipeline. One object a rank; every function but wake() is called
/// on the rank's thread.
class Transport {
 public:
  Transport() = default;
  virtual ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] virtual std::uint32_t rank() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t world_size() const noexcept = 0;
  [[nodiscard]] virtual Capabilities capabilities() const = 0;

  /// Names the receiver of everything, before the first send() and progress(), for as long as the answer
  /// lives. Throws TransportError while another sink is attached, and after one went with messages under way:
  /// what the other ranks have of this one is incomplete from then on.
  virtual Attachment attach(MessageSink& sink);

  /// Starts to send `header` and its payload to another rank (never to oneself). `payload`
  /// (header.payload_bytes) stays untouched until sink.sent(token). Chunk and sequence numbers are the
  /// transport's to fill. Throws PeerFailure when the peer is known to be gone; TransportError for memory of
  /// a device unless capabilities().cuda_direct, and without a sink.
  virtual void send(std::uint32_t to, const MessageHeader& header, ConstPayload payload, SendToken token) = 0;

  /// Moves what can be moved without waiting; calls the sink. True when anything happened. Throws what the
  /// sink threw, and TransportError without a sink.
  virtual bool progress() = 0;

  /// A descriptor that becomes readable when progress() has work, after a call of arm() returned true; -1
  /// when there is none (simulated: only progress() moves time).
  [[nodiscard]] virtual int descriptor() const noexcept = 0;
  /// Prepares to block on descriptor(). False when something has come meanwhile: call progress() again
  /// instead.
  virtual bool arm() = 0;
  /// Makes descriptor() readable; from any thread.
  virtual void wake() noexcept = 0;

  /// After the last message: waits until everything sent has left and lets peers do the same, at most until
  /// `deadline` (now_ns clock). Further calls of send() are errors.
  virtual void close(Nanoseconds deadline) = 0;

 protected:
  [[nodiscard]] bool attached() const noexcept { return sink_ != nullptr; }
  /// Throws TransportError when there is none.
  [[nodiscard]] MessageSink& sink() const {
    if (sink_ == nullptr) throw_unattached();
    return *sink_;
  }
  /// The sink has gone: after this no memory of its is read or written, and it is not called. What had not
  /// left or not arrived is dropped; true when that was nothing. Connections stay until the transport goes,
  /// so that a rank which fails can say why before the others notice.
  virtual bool let_go() noexcept = 0;

 private:
  friend class Attachment;
  [[noreturn]] static void throw_unattached();
  void detach() noexcept;

  MessageSink* sink_ = nullptr;
  Attachment* attachment_ = nullptr;
  bool incomplete_ = false;  // a sink went with messages under way
};

}  // namespace weft
