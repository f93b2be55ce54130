#include "weft/transport/transport.h"

#include <utility>

#include "weft/base/error.h"

namespace weft {

Attachment::Attachment(Transport& transport) noexcept : transport_(&transport) {
  transport.attachment_ = this;
}

Attachment::Attachment(Attachment&& other) noexcept : transport_(std::exchange(other.transport_, nullptr)) {
  if (transport_ != nullptr) transport_->attachment_ = this;
}

Attachment& Attachment::operator=(Attachment&& other) noexcept {
  if (this == &other) return *this;
  end();
  transport_ = std::exchange(other.transport_, nullptr);
  if (transport_ != nullptr) transport_->attachment_ = this;
  return *this;
}

void Attachment::end() noexcept {
  if (Transport* transport = std::exchange(transport_, nullptr)) transport->detach();
}

Transport::~Transport() {
  if (attachment_ != nullptr) attachment_->transport_ = nullptr;
}

Attachment Transport::attach(MessageSink& sink) {
  if (sink_ != nullptr) throw TransportError("a transport serves one sink at a time");
  if (incomplete_) throw TransportError("the last sink of this transport went with messages under way");
  sink_ = &sink;
  return Attachment(*this);
}

void Transport::detach() noexcept {
  attachment_ = nullptr;
  sink_ = nullptr;
  if (!let_go()) incomplete_ = true;
}

void Transport::throw_unattached() {
  throw TransportError("a transport without a sink neither sends nor receives");
}

}  // namespace weft
