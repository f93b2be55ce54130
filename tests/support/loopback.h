#pragma once
// Whether UCX can use TCP here.
#include <filesystem>
#include <string>

namespace weft::test {

/// Why not, for GTEST_SKIP; empty where it can. UCX looks for devices in /sys, which a bare chroot lacks.
inline std::string no_loopback() {
  return std::filesystem::exists("/sys/class/net/lo") ? ""
                                                      : "UCX has no TCP here: there is no /sys/class/net/lo";
}

}  // namespace weft::test
