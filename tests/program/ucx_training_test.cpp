// The built program trains over real UCX: the same bits as in one process, the planned order, an orderly end
// when a rank dies.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "program_test.h"
#include "weft/scheduling/orders/schedule.h"
#include "weft/scheduling/simulation/chrome_trace.h"
#include "weft/scheduling/simulation/trace_analysis.h"
#include "weft/scheduling/weight_turns.h"
#include "weft/tests/support/loopback.h"

namespace weft {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

class UcxTraining : public ProgramTest {
 protected:
  static std::string command(const std::string& run, const std::string& arguments) {
    return fmt::format("{} train --config tiny.yaml --set parallelism.pp=4 --run-dir {} {}", WEFT_PROGRAM,
                       run, arguments);
  }
  void train(const std::string& run, const std::string& arguments, const std::string& environment = "") {
    const Outcome outcome = shell(environment + " " + command(run, arguments));
    ASSERT_EQ(outcome.status, 0) << run << ": " << outcome.err;
  }
  [[nodiscard]] std::string bits(const std::string& run) const {
    std::string all;
    std::ifstream file(folder_ / run / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const json step = json::parse(line);
      all += step["loss"].dump() + " " + step["grad_norm"].dump() + "\n";
    }
    return all + json::parse(text_of(run + "/result.json"))["weights_sha256"].get<std::string>();
  }
};

TEST_F(UcxTraining, SharedMemoryTcpAndOneProcessGiveTheSameBits) {
  train("inproc", "--transport inproc --pipeline_parallel_schedule afab");
  train("shm", "--transport ucx --pipeline-parallel-schedule 1f1b");
  train("engine", "--set pipeline_parallel.schedule=null --set parallelism.pp_engine=afab");
  EXPECT_EQ(bits("shm"), bits("inproc"));
  EXPECT_EQ(bits("engine"), bits("inproc"));
  if (const std::string problem = test::no_loopback(); !problem.empty()) GTEST_SKIP() << problem;
  train("tcp", "--transport ucx --set parallelism.pp=2 --set pipeline_parallel.schedule=zbv",
        "UCX_TLS=tcp,self");
  EXPECT_EQ(bits("tcp"), bits("inproc"));
}

// The part of `./weft test exactness` that needs processes.
class exactness : public UcxTraining {
 protected:
  void expect_bits(const std::string& run, const std::string& what, const std::string& expected) {
    const std::string found = bits(run);
    std::printf("%s  %s\n", found.substr(found.size() - 64).c_str(), what.c_str());
    EXPECT_EQ(found, expected) << what;
  }
};

TEST_F(exactness, OfEveryTransportAndOfAResumeOverIt) {
  const std::string tcp = "UCX_TLS=tcp,self";
  const std::string no_tcp = test::no_loopback();
  const struct {
    const char* name;
    const char* flags;
    std::string environment;
  } transports[] = {{"inproc", "--transport inproc", ""},
                    {"ucx-shared-memory", "--transport ucx", ""},
                    {"ucx-tcp", "--transport ucx", tcp}};
  const std::pair<const char*, int> layouts[] = {
      {"1f1b", 2}, {"zb_h1", 4}, {"dualpipe_v", 2}, {"ready_first", 4}};
  for (const std::string dtype : {"float32", "bfloat16"}) {
    const std::string type = fmt::format("--set model.dtype={} ", dtype);
    const std::string whole = dtype + "-whole";
    train(whole, type +
                     "--transport inproc --set checkpoints.checkpoint_interval=1 --set parallelism.pp=1 "
                     "--pipeline_parallel_schedule afab");
    const std::string expected = bits(whole);
    // Of the resumed runs: the lines after the step that they resume from, and the weights.
    const std::string rest = expected.substr(expected.find('\n') + 1);
    for (const auto& transport : transports) {
      if (transport.environment == tcp && !no_tcp.empty()) continue;
      for (const auto& [schedule, pp] : layouts)
        for (const bool recompute : {false, true}) {
          const std::string what =
              fmt::format("{} {} {} pp={} recompute={}", dtype, transport.name, schedule, pp, recompute);
          const std::string run = fmt::format("{}-{}-{}-{}", dtype, transport.name, schedule, recompute);
          const std::string arguments = fmt::format(
              "{}{} --pipeline_parallel_schedule {} --set parallelism.pp={} --set "
              "parallelism.recompute_layer={}",
              type, transport.flags, schedule, pp, recompute);
          if (recompute) {  // in the second half of the matrix from the first step's checkpoint on
            train(run, fmt::format("{} --resume {}/checkpoints/step-00000001", arguments, whole),
                  transport.environment);
            expect_bits(run, what + " resumed", rest);
          } else {
            train(run, arguments, transport.environment);
            expect_bits(run, what, expected);
          }
        }
    }
  }
  if (!no_tcp.empty()) GTEST_SKIP() << no_tcp;
}

TEST_F(UcxTraining, TheTracedOrderIsThePlannedOne) {
  for (const std::string name :
       {"afab", "1f1b", "interleaved_1f1b", "looped_bfs", "zb_h1", "zb_h2", "zbv", "dualpipe_v"}) {
    SCOPED_TRACE(name);
    train(name, "--trace trace.json --pipeline_parallel_schedule " + name);
    ScheduleRequest request;
    request.schedule = name;
    request.ranks = 4;
    request.microbatches = 8;
    const auto events = from_chrome_trace(text_of(name + "/trace.json")).events;
    for (const std::uint32_t step : {1u, 2u, 3u})
      EXPECT_EQ(executed_order(events_of_step(events, step), 4), as_run(make_schedule(request).order))
          << "step " << step;
    const Outcome plan = weft(
        "plan --config tiny.yaml --set parallelism.pp=4 --format json --pipeline_parallel_schedule " + name);
    ASSERT_EQ(plan.status, 0) << plan.err;
    const json planned = json::parse(plan.out);
    std::ifstream lines(folder_ / name / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const json step = json::parse(line);
      EXPECT_EQ(step["peak_activation_bytes"], planned["peak_activation_bytes"]);
      std::vector<std::uint64_t> sent(4, 0);
      for (const json& link : planned["links"]) sent[link["from"]] += link["bytes"].get<std::uint64_t>();
      EXPECT_EQ(step["message_bytes"].get<std::vector<std::uint64_t>>(), sent);
      for (std::size_t rank = 0; rank < 4; ++rank)
        EXPECT_EQ(step["peak_in_flight"][rank], planned["ranks"][rank]["peak_in_flight"]);
    }
  }
}

TEST_F(UcxTraining, AKilledRankEndsTheRunAndIsNamed) {
  // The victim is found by its environment; it is killed once the second step line stands on the console.
  put("kill.sh", R"(
"$@" >killed.log 2>&1 & launcher=$!
until grep -q 'iteration: 2 ' killed.log || ! kill -0 $launcher 2>/dev/null; do :; done
ranks() {
  for p in $(pgrep -f -- "--run-dir $PWD/killed "); do
    if tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -q "^WEFT_RANK=$1"; then echo "$p"; fi
  done
}
for p in $(ranks 2); do kill -9 "$p"; done
wait $launcher; status=$?
cat killed.log >&2
ranks ''
exit $status
)");
  const Outcome outcome = shell("bash kill.sh " + command(path() + "/killed",
                                                          "--set tokens.train_steps=1000000 --set "
                                                          "logging.iteration_step_info_interval=1"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("rank 2"));
  EXPECT_THAT(outcome.out, IsEmpty()) << "ranks that are left over";
}

}  // namespace
}  // namespace weft
