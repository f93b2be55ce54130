#include "weft/launch/verdict.h"

namespace weft {

void Verdict::convict(const Failure& cause) {
  if (!convicted_) convicted_ = cause;
}

void Verdict::suspect(const Failure& sign, Time now) {
  if (suspected_) return;
  suspected_ = sign;
  patience_ends_ = now + patience;
}

std::optional<Failure> Verdict::cause(Time now) const {
  if (convicted_) return convicted_;
  if (suspected_ && now >= patience_ends_) return suspected_;
  return std::nullopt;
}

std::optional<Verdict::Time> Verdict::deadline() const {
  if (convicted_ || !suspected_) return std::nullopt;
  return patience_ends_;
}

}  // namespace weft
