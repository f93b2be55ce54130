#include "weft/launch/version.h"

#include "weft/transport/rendezvous/build_identity.h"

namespace weft {

std::string version_line() {
  return std::string("weft ") + WEFT_VERSION + " (g++ " + __VERSION__ + ", build " + build_identity() + ")";
}

}  // namespace weft
