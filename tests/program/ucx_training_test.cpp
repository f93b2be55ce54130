// The built program trains over real UCX: the same bits as in one process, the planned order, an orderly end
// when a rank dies.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "weft/scheduling/schedule.h"
#include "weft/scheduling/trace_analysis.h"
#include "weft/scheduling/weight_turns.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class UcxTraining : public testing::Test {
 protected:
  UcxTraining() {
    std::string name = (fs::temp_directory_path() / "weft_program_XXXXXX").string();
    folder_ = mkdtemp(name.data());
    std::ofstream(folder_ / "tiny.yaml")
        << "general: {run: tiny, seed: 7}\n"
           "parallelism: {dp: 1, pp: 4, tp: 1}\n"
           "model:\n"
           "  dtype: float32\n"
           "  init_method: {std: 0.1}\n"
           "  model_config: {is_llama_config: true, vocab_size: 32, hidden_size: 16, intermediate_size: 24,"
           " num_hidden_layers: 8, num_attention_heads: 2, num_key_value_heads: 1, tie_word_embeddings: "
           "true}\n"
           "tokens: {sequence_length: 8, train_steps: 3, micro_batch_size: 2, "
           "batch_accumulation_per_replica: 8}\n"
           "data_stages: [{name: random, start_training_step: 1, data: {seed: 3, dataset: null}}]\n"
           "optimizer:\n"
           "  optimizer_factory: {name: adamW, adam_beta1: 0.9, adam_beta2: 0.95, adam_eps: 1e-8}\n"
           "  learning_rate_scheduler: {learning_rate: 0.01, lr_warmup_steps: 1, lr_warmup_style: linear}\n"
           "  weight_decay: 0.01\n"
           "  clip_grad: 1.0\n"
           "logging: {iteration_step_info_interval: 1}\n"
           "checkpoints: {save_final_state: false}\n";
  }
  ~UcxTraining() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string command(const std::string& run, const std::string& arguments) const {
    return fmt::format("{} train --config {}/tiny.yaml --run-dir {}/{} {}", WEFT_PROGRAM, folder_.string(),
                       folder_.string(), run, arguments);
  }
  /// The exit status; what the program said goes to NAME.log.
  int train(const std::string& run, const std::string& arguments, const std::string& environment = "") {
    const int status = std::system(
        fmt::format("{} {} >{}/{}.log 2>&1", environment, command(run, arguments), folder_.string(), run)
            .c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string text(const std::string& name) {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string bits(const std::string& run) {
    std::string all;
    std::ifstream file(folder_ / run / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const json step = json::parse(line);
      all += step["loss"].dump() + " " + step["grad_norm"].dump() + "\n";
    }
    return all + json::parse(text(run + "/result.json"))["weights_sha256"].get<std::string>();
  }

  fs::path folder_;
};

TEST_F(UcxTraining, SharedMemoryTcpAndOneProcessGiveTheSameBits) {
  ASSERT_EQ(train("inproc", "--transport inproc --pipeline_parallel_schedule afab"), 0) << text("inproc.log");
  ASSERT_EQ(train("shm", "--transport ucx --pipeline-parallel-schedule 1f1b"), 0) << text("shm.log");
  ASSERT_EQ(train("tcp", "--transport ucx --set parallelism.pp=2 --set pipeline_parallel.schedule=zbv",
                  "UCX_TLS=tcp,self"),
            0)
      << text("tcp.log");
  ASSERT_EQ(train("engine", "--set pipeline_parallel.schedule=null --set parallelism.pp_engine=afab"), 0)
      << text("engine.log");
  EXPECT_EQ(bits("shm"), bits("inproc"));
  EXPECT_EQ(bits("tcp"), bits("inproc"));
  EXPECT_EQ(bits("engine"), bits("inproc"));
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
  const struct {
    const char* name;
    const char* flags;
    const char* environment;
  } transports[] = {{"inproc", "--transport inproc", ""},
                    {"ucx-shared-memory", "--transport ucx", ""},
                    {"ucx-tcp", "--transport ucx", "UCX_TLS=tcp,self"}};
  const std::pair<const char*, int> layouts[] = {
      {"1f1b", 2}, {"zb_h1", 4}, {"dualpipe_v", 2}, {"ready_first", 4}};
  for (const std::string dtype : {"float32", "bfloat16"}) {
    const std::string type = fmt::format("--set model.dtype={} ", dtype);
    const std::string whole = dtype + "-whole";
    ASSERT_EQ(
        train(whole, type +
                         "--transport inproc --set checkpoints.checkpoint_interval=1 --set parallelism.pp=1 "
                         "--pipeline_parallel_schedule afab"),
        0)
        << text(whole + ".log");
    const std::string expected = bits(whole);
    // Of the resumed runs: the lines after the step that they resume from, and the weights.
    const std::string rest = expected.substr(expected.find('\n') + 1);
    for (const auto& transport : transports)
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
            ASSERT_EQ(train(run,
                            fmt::format("{} --resume {}/{}/checkpoints/step-00000001", arguments,
                                        folder_.string(), whole),
                            transport.environment),
                      0)
                << text(run + ".log");
            expect_bits(run, what + " resumed", rest);
          } else {
            ASSERT_EQ(train(run, arguments, transport.environment), 0) << text(run + ".log");
            expect_bits(run, what, expected);
          }
        }
  }
}

TEST_F(UcxTraining, TheTracedOrderIsThePlannedOne) {
  for (const std::string name :
       {"afab", "1f1b", "interleaved_1f1b", "looped_bfs", "zb_h1", "zb_h2", "zbv", "dualpipe_v"}) {
    SCOPED_TRACE(name);
    ASSERT_EQ(train(name, "--trace trace.json --pipeline_parallel_schedule " + name), 0)
        << text(name + ".log");
    ScheduleRequest request;
    request.schedule = name;
    request.ranks = 4;
    request.microbatches = 8;
    const auto events = from_chrome_trace(text(name + "/trace.json"));
    for (const std::uint32_t step : {1u, 2u, 3u})
      EXPECT_EQ(executed_order(events_of_step(events, step), 4), as_run(make_schedule(request).order))
          << "step " << step;
    const std::string plan = fmt::format(
        "{} plan --config {}/tiny.yaml --pipeline_parallel_schedule {} --format json "
        ">{}/plan.json",
        WEFT_PROGRAM, folder_.string(), name, folder_.string());
    ASSERT_EQ(std::system(plan.c_str()), 0);
    const json planned = json::parse(text("plan.json"));
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
  // The victim is found by its environment; it is killed once the first step line stands on the console.
  std::ofstream(folder_ / "kill.sh")
      << "out=$1; shift; \"$@\" >\"$out\" 2>&1 & launcher=$!\n"
         "until grep -q 'iteration: 2 ' \"$out\" || ! kill -0 $launcher 2>/dev/null; do :; done\n"
         "for p in $(pgrep -f -- \"$VICTIM\"); do\n"
         "  if tr '\\0' '\\n' <\"/proc/$p/environ\" 2>/dev/null | grep -qx WEFT_RANK=2; then kill -9 \"$p\"; "
         "fi\n"
         "done\n"
         "wait $launcher; status=$?\n"
         "for p in $(pgrep -f -- \"$VICTIM\"); do\n"
         "  if tr '\\0' '\\n' <\"/proc/$p/environ\" 2>/dev/null | grep -q ^WEFT_RANK=; then echo \"left "
         "over: $p\" >>\"$out\"; fi\n"
         "done\n"
         "exit $status\n";
  const std::string run = (folder_ / "killed").string();
  const int status = std::system(fmt::format("VICTIM='--run-dir {} ' bash {}/kill.sh {}/killed.log {}", run,
                                             folder_.string(), folder_.string(),
                                             command("killed", "--set tokens.train_steps=1000000"))
                                     .c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_NE(text("killed.log").find("rank 2"), std::string::npos) << text("killed.log");
  EXPECT_EQ(text("killed.log").find("left over"), std::string::npos) << text("killed.log");
}

}  // namespace
}  // namespace weft
