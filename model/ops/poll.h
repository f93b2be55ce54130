#pragma once

namespace weft {

/// What the calling thread runs now and then during a long op: a function and its argument.
struct Poll {
  void (*function)(void*) = nullptr;
  void* argument = nullptr;
};

}  // namespace weft
