#include "weft/transport/ucx/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "weft/base/error.h"

namespace weft::ucx {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t mb = 1'000'000;

HostFacts host(const std::string& name, std::uint64_t free_bytes, bool sysv = true) {
  return {name, free_bytes, sysv, true, ""};
}

std::map<std::string, std::string> values_of(const Settings& settings) {
  return {settings.values.begin(), settings.values.end()};
}

TEST(UcxSettings, SurviveTheWay) {
  for (const auto& [sysv, loopback] : {std::pair{true, false}, {false, true}, {true, true}}) {
    const HostFacts facts{"host a", 123'456'789'012, sysv, loopback, "UCX_MM_SEG_SIZE=16k\n"};
    const HostFacts got = decode_host_facts(encode(facts));
    EXPECT_EQ(got.host, facts.host);
    EXPECT_EQ(got.shared_memory, facts.shared_memory);
    EXPECT_EQ(got.sysv, facts.sysv);
    EXPECT_EQ(got.loopback, facts.loopback);
    EXPECT_EQ(got.overrides, facts.overrides);
  }
}

TEST(UcxSettings, ThatAreCutOrTooLongAreRefused) {
  const auto bytes = encode(host("host a", 1));
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(static_cast<void>(decode_host_facts(std::span(bytes).first(length))), TransportError);
  auto longer = bytes;
  longer.push_back({});
  EXPECT_THROW(static_cast<void>(decode_host_facts(longer)), TransportError);
  auto overlong = bytes;
  overlong[13] = overlong[14] = overlong[15] = overlong[16] = std::byte{0xff};  // a text of 4 GiB
  EXPECT_THROW(static_cast<void>(decode_host_facts(overlong)), TransportError);
}

TEST(UcxSettings, OfThisHostAreTheSameAtEachLook) {
  EXPECT_EQ(observe_host().host, observe_host().host);
  EXPECT_FALSE(observe_host().host.empty());
}

TEST(UcxSettings, TakeLargeSegmentsWhereTheyFitForAllRanksOfAHost) {
  const std::vector<HostFacts> two{host("a", 40 * mb), host("a", 39 * mb)};
  EXPECT_EQ(agree(two, 0).segment_bytes, 32u * 1024);
  EXPECT_EQ(values_of(agree(two, 0))["MM_SEG_SIZE"], "32768");
  const std::vector<HostFacts> four(4, host("a", 40 * mb));
  EXPECT_LT(agree(four, 0).segment_bytes, 16u * 1024);
  EXPECT_EQ(values_of(agree(four, 0)).count("MM_SEG_SIZE"), 0u);
  EXPECT_EQ(values_of(agree(four, 0))["TLS"], "^cma,sysv");
  EXPECT_EQ(agree(four, 0).warning, "");
}

TEST(UcxSettings, AreTheSameForAllRanksOfAHostWhateverEachSaw) {
  // Rank 1 looked when less was free: with different segments the ranks would overwrite each other.
  const std::vector<HostFacts> ranks{host("a", 100 * mb), host("a", 20 * mb), host("a", 100 * mb)};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(agree(ranks, rank).segment_bytes, agree(ranks, 0).segment_bytes);
    EXPECT_EQ(agree(ranks, rank).values, agree(ranks, 0).values);
  }
}

TEST(UcxSettings, TakeTheNextTransportWithOneWarningWhereNothingFits) {
  const std::vector<HostFacts> sysv(2, host("a", 64 * 1024));
  EXPECT_EQ(values_of(agree(sysv, 0))["TLS"], "^cma,posix");
  EXPECT_THAT(agree(sysv, 0).warning, HasSubstr("65536 bytes of shared memory are free"));
  const std::vector<HostFacts> none(2, host("a", 64 * 1024, false));
  EXPECT_EQ(values_of(agree(none, 0))["TLS"], "^cma,posix,sysv");
  EXPECT_THAT(agree(none, 0).warning, HasSubstr("loopback"));
}

TEST(UcxSettings, UseTheLoopbackDeviceOnlyOnOneHost) {
  std::vector<HostFacts> one(2, host("a", 100 * mb));
  EXPECT_EQ(values_of(agree(one, 0))["NET_DEVICES"], "lo");
  one[1].loopback = false;
  EXPECT_EQ(values_of(agree(one, 0)).count("NET_DEVICES"), 0u) << "UCX would warn about it";
  const std::vector<HostFacts> two{host("a", 100 * mb), host("b", 100 * mb)};
  EXPECT_EQ(values_of(agree(two, 0)).count("NET_DEVICES"), 0u);
  EXPECT_EQ(values_of(agree(two, 0))["TLS"], "^cma,posix,sysv") << "nobody to share memory with";
  EXPECT_EQ(agree(two, 0).warning, "");
}

TEST(UcxSettings, RefuseDifferentSegmentsOnOneHost) {
  std::vector<HostFacts> ranks(2, host("a", 100 * mb));
  ranks[1].overrides = "UCX_MM_SEG_SIZE=8k\n";
  EXPECT_THROW(static_cast<void>(agree(ranks, 0)), TransportError);
  ranks[1].host = "b";
  EXPECT_NO_THROW(static_cast<void>(agree(ranks, 0)));
}

TEST(UcxSettings, FollowSegmentsThatTheUserSet) {
  std::vector<HostFacts> ranks(2, host("a", 100 * mb));
  for (HostFacts& facts : ranks) facts.overrides = "UCX_MM_SEG_SIZE=16k\nUCX_POSIX_SEG_SIZE=65536\n";
  EXPECT_EQ(agree(ranks, 0).segment_bytes, 16u * 1024);
  EXPECT_EQ(values_of(agree(ranks, 0)).count("MM_SEG_SIZE"), 0u);
  for (HostFacts& facts : ranks) facts.overrides = "UCX_MM_SEG_SIZE=nonsense";
  EXPECT_GT(chunk_bytes(agree(ranks, 0).segment_bytes), 1000u);
}

TEST(UcxSettings, YieldToVariablesOfTheEnvironment) {
  const Settings settings = agree(std::vector<HostFacts>(2, host("a", 100 * mb)), 0);
  const auto names = [&] {
    std::map<std::string, std::string> map;
    for (const auto& [key, value] : applicable(settings)) map[key] = value;
    return map;
  };
  unsetenv("UCX_TLS");
  EXPECT_EQ(names().at("MM_ERROR_HANDLING"), "y");
  EXPECT_EQ(names().at("KEEPALIVE_INTERVAL"), "1s");
  setenv("UCX_KEEPALIVE_INTERVAL", "7s", 1);
  EXPECT_EQ(names().count("KEEPALIVE_INTERVAL"), 0u);
  unsetenv("UCX_KEEPALIVE_INTERVAL");
  for (const char* without : {"tcp,self", "self", "^shm", "^posix,sysv", "^sm"}) {
    setenv("UCX_TLS", without, 1);
    EXPECT_EQ(names().count("MM_ERROR_HANDLING"), 0u) << without;
  }
  for (const char* with : {"all", "posix,self", "self,sysv", "shm", "^cma", "^posix", "^tcp"}) {
    setenv("UCX_TLS", with, 1);
    EXPECT_EQ(names().count("MM_ERROR_HANDLING"), 1u) << with;
  }
  unsetenv("UCX_TLS");
}

TEST(UcxSettings, LeaveRoomForHeadersInAChunk) {
  for (const std::size_t segment : {0UL, 2048UL, 8256UL, 32768UL, 65536UL, 100'000'000UL}) {
    EXPECT_GE(chunk_bytes(segment), 1024u) << segment;
    EXPECT_LE(chunk_bytes(segment), 1024u * 1024) << segment;
  }
  EXPECT_LE(chunk_bytes(32768) + 64 + 32, 32768u);
}

}  // namespace
}  // namespace weft::ucx
