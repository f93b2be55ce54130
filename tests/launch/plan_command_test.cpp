#include "weft/launch/plan_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "weft/launch/command_line.h"
#include "weft/scheduling/plan/plan.h"
#include "weft/scheduling/simulation/chrome_trace.h"
#include "weft/tests/support/scratch_folder.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

struct Outcome {
  int status;
  std::string out;
  std::string err;
};

class PlanCommand : public testing::Test {
 protected:
  PlanCommand() {
    put("c.yaml", R"(general: {run: tiny}
parallelism: {pp: 2}
tokenizer: {tokenizer_name_or_path: byte}
model:
  dtype: float32
  init_method: {std: 0.02}
  model_config: {is_llama_config: true, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 4, num_attention_heads: 2, vocab_size: 256}
tokens: {sequence_length: 16, micro_batch_size: 1, batch_accumulation_per_replica: 4, train_steps: 3}
data_stages: [{name: random, start_training_step: 1, data: {dataset: null}}]
optimizer:
  optimizer_factory: {name: adamW}
  learning_rate_scheduler: {learning_rate: 0.001}
)");
  }
  void put(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  std::string path(const std::string& name) const { return folder_ / name; }

  /// What `weft` says to arguments that have no blanks; @ stands for the test's folder.
  Outcome weft(const std::string& line) const {
    std::vector<std::string> arguments{"weft"};
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (const std::size_t at = word.find('@'); at != std::string::npos) word.replace(at, 1, folder_ / "");
      arguments.push_back(word);
    }
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status = run_command_line(arguments);
    std::string out = testing::internal::GetCapturedStdout();
    return {status, std::move(out), testing::internal::GetCapturedStderr()};
  }

  void refuses(const std::string& line, const std::vector<std::string>& words) const {
    const Outcome outcome = weft(line);
    EXPECT_EQ(outcome.status, 2) << line;
    for (const std::string& word : words) EXPECT_THAT(outcome.err, HasSubstr(word)) << line;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.out, IsEmpty()) << line;
  }

  /// Writes the trace of a run of three steps whose ops take 3, 5 and 4 ms.
  void put_trace(const std::string& name, const ScheduleRequest& request, bool knows_halves = true) const {
    SimulationSettings settings = uniform_costs(3, 5, 4, 0.5);
    settings.early_gradient = knows_halves;
    std::vector<TraceEvent> trace;
    for (std::uint32_t step = 1; step <= 3; ++step)
      for (TraceEvent event : simulate(make_schedule(request), settings).events) {
        event.step = step;
        trace.push_back(event);
      }
    put(name, to_chrome_trace(trace, name));
  }

 private:
  const test::ScratchFolder scratch_;
  const std::filesystem::path folder_ = scratch_.path();
};

TEST_F(PlanCommand, RefusesFlagsThatWouldChangeNothing) {
  const std::string alone = "plan --schedule 1f1b --ranks 2 --microbatches 4 ";
  const std::string model = "plan --config @c.yaml ";
  const std::string compare = "plan --ranks 2 --microbatches 4 --compare ";
  put_trace("t.json", {.schedule = "1f1b", .ranks = 2, .microbatches = 4});

  refuses(model + "--ranks 3", {"--ranks", "--set parallelism.pp="});
  refuses(model + "--microbatches 3", {"--microbatches", "--set tokens.batch_accumulation_per_replica="});
  refuses(model + "--chunks 1", {"--chunks", "--set pipeline_parallel.chunks="});
  refuses(model + "--max-in-flight 9", {"--max-in-flight", "--set pipeline_parallel.max_in_flight="});
  refuses(model + "--schedule afab", {"--schedule", "--pipeline_parallel_schedule"});
  refuses(alone + "--set parallelism.pp=3", {"--set", "--config"});
  refuses(alone + "--pipeline_parallel_schedule afab",
          {"--pipeline_parallel_schedule", "--config", "--schedule"});

  refuses(compare + "--schedule afab", {"--schedule", "--compare"});
  refuses(model + "--compare --pipeline_parallel_schedule afab",
          {"--pipeline_parallel_schedule", "--compare"});
  refuses(model + "--compare --set pipeline_parallel.chunks=1", {"--set", "chunks", "--compare"});
  refuses(model + "--compare --set pipeline_parallel.schedule=afab", {"--set", "schedule", "--compare"});
  for (const char* format : {"csv", "svg", "chrome"}) {
    refuses(compare + "--format " + format, {"--format " + std::string(format), "--compare"});
    refuses(alone + "--against @t.json --format " + format, {"--format " + std::string(format), "--against"});
  }
  refuses(compare + "--against @t.json", {"--against", "--compare"});
  refuses(model + "--early-gradient", {"--early-gradient is for a plan with --schedule alone"});
  refuses(alone + "--early-gradient --costs-from @t.json", {"--early-gradient"});
  refuses(alone + "--early-gradient --against @t.json", {"--early-gradient"});
  refuses(compare + "--costs-from @t.json", {"--costs-from", "--config"});
  refuses(alone + "--memory 1GiB", {"--memory", "--compare"});
  refuses(model + "--memory 1GiB", {"--memory", "--compare"});
  refuses(compare + "--memory 1GiB", {"--memory needs --config"});
  refuses(model + "--compare --memory 0.1", {"no amount of memory"});
  refuses(alone + "--step 1", {"--step", "--against"});
  refuses(compare + "--step 1", {"--step", "--against"});
}

TEST_F(PlanCommand, HonoursTheOthers) {
  const std::string compare = "plan --ranks 4 --microbatches 8 --compare ";
  EXPECT_THAT(weft(compare + "--max-in-flight 4 --format text").out,
              AllOf(HasSubstr("afab: afab with 4 slots"), HasSubstr(" 1f1b "), Not(HasSubstr("\n1f1b: "))));
  EXPECT_THAT(weft(compare + "--chunks 3").out,
              AllOf(HasSubstr("1f1b: 1f1b needs exactly 1"), HasSubstr("zbv: zbv needs exactly 2"),
                    HasSubstr(" interleaved_1f1b  "), HasSubstr(" looped_bfs ")));
  EXPECT_THAT(weft("plan --config @c.yaml --compare --memory 1GiB").out,
              HasSubstr("* shortest within 1.0 GiB"));
  EXPECT_THAT(weft("plan --config @c.yaml --set pipeline_parallel.max_in_flight=2 --compare").out,
              HasSubstr("\nafab: "));
  EXPECT_THAT(weft("plan --config @c.yaml --compare").out, Not(HasSubstr("\nafab: ")));
  EXPECT_EQ(weft("plan --ranks 2 --microbatches 4 --schedule Schedule1F1B --format csv").out,
            weft("plan --ranks 2 --microbatches 4 --schedule 1f1b --format csv").out);
}

TEST_F(PlanCommand, PlansBackwardsAsTheyRunWhereCostsAreThoseOfAModelOrARun) {
  put_trace("t.json", {.schedule = "1f1b", .ranks = 2, .microbatches = 4});
  const auto json_of = [&](const std::string& line) {
    return nlohmann::json::parse(weft("plan --format json " + line).out);
  };
  const std::string alone = "--schedule 1f1b --ranks 4 --microbatches 8 ";
  EXPECT_EQ(json_of(alone)["makespan"], 33);
  EXPECT_EQ(json_of(alone + "--cost 1,1,1,0")["makespan"], 33) << "the textbook's";
  EXPECT_EQ(json_of(alone + "--early-gradient")["makespan"], 30);
  EXPECT_THAT(weft("plan " + alone).out, HasSubstr("(--early-gradient)"));
  for (const char* line : {"--config @c.yaml", "--config @c.yaml --costs-from @t.json",
                           "--schedule 1f1b --ranks 2 --microbatches 4 --costs-from @t.json",
                           "--config @c.yaml --against @t.json"})
    EXPECT_EQ(json_of(line)["early_gradient"], true) << line;
}

TEST_F(PlanCommand, ComparesOrdersInFilesToo) {
  put("zb.csv", weft("plan --schedule zb_h1 --ranks 2 --microbatches 4 --format csv").out);
  put("bad.csv", "0F0,0F0\n");
  for (const std::string line : {"plan --compare @zb.csv @bad.csv --ranks 2 --microbatches 4 --format json",
                                 "plan --format json --compare @zb.csv @bad.csv"}) {
    const Outcome outcome = weft(line);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const nlohmann::json all = nlohmann::json::parse(outcome.out)["schedules"];
    ASSERT_EQ(all.size(), all_schedules().size() + 2);
    EXPECT_EQ(all[11]["schedule"], path("zb.csv"));
    EXPECT_EQ(all[11]["makespan"], all[4]["makespan"]);
    EXPECT_THAT(all[12]["refused"].get<std::string>(), HasSubstr("is repeated"));
  }
  EXPECT_THAT(weft("plan --config @c.yaml --compare @zb.csv").out, HasSubstr("zb.csv"));
}

TEST_F(PlanCommand, ShowsTheLayersOfEveryStage) {
  const std::string plan = "plan --config @c.yaml --set pipeline_parallel.partition=[3,1] ";
  EXPECT_EQ(nlohmann::json::parse(weft(plan + "--format json").out)["layers"], (std::vector<int>{3, 1}));
  EXPECT_THAT(weft(plan).out, testing::ContainsRegex("weight-work slots +layers\n.* 3\n.* 1\n"));
  EXPECT_THAT(weft("train --dry-run --config @c.yaml --set pipeline_parallel.partition=[3,1]").out,
              AllOf(HasSubstr("rank 0: stage 0 (3 layers)"), HasSubstr("rank 1: stage 1 (1 layer)")));
}

TEST_F(PlanCommand, ReadsTheCellsThatPyTorchWritesAndSaysWhatItPassesOver) {
  put("torch.csv",
      "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD\n"
      "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1RESHARD,1WAIT_SEND_B0\n");
  const std::string words =
      "torch.csv: 14 cells are checked but not run (SEND_F, RECV_F, SEND_B, RECV_B, WAIT_SEND_F, "
      "WAIT_SEND_B, "
      "UNSHARD, RESHARD, REDUCE_GRAD, WAIT_REDUCE_GRAD)";
  EXPECT_THAT(weft("check @torch.csv").out, HasSubstr(words));
  const Outcome plan = weft("plan --schedule @torch.csv --format csv");
  EXPECT_EQ(plan.out, "0F0,0B0\n1F0,1B0\n");
  EXPECT_THAT(plan.err, HasSubstr(words));
}

TEST_F(PlanCommand, TakesNumbersFromOne) {
  put("good.csv", "0F0,0B0\n");
  const std::string alone = "plan --schedule zb_h1 --ranks 2 --microbatches 4 ";
  refuses(alone + "--max-in-flight 0", {"--max-in-flight", "range 1 to"});
  refuses(alone + "--against t.json --step 0", {"--step", "range 1 to"});
  refuses(alone + "--chunks 0", {"--chunks", "range 1 to"});
  refuses(alone + "--chunks 65536", {"nearest: 32767 stages per rank"});
  refuses("check @good.csv --slots 0", {"--slots", "range 1 to"});
  refuses("plan --schedule 1f1b --ranks 65536 --microbatches 1", {"--ranks", "range 1 to 65535"});
  EXPECT_EQ(weft("plan --schedule 1f1b --ranks 65535 --microbatches 1 --format csv").status, 0);
  EXPECT_EQ(weft("check @good.csv --slots 1").status, 0);
}

TEST_F(PlanCommand, RefusesCostsThatItWouldRoundAway) {
  const std::string alone = "plan --schedule 1f1b --ranks 2 --microbatches 4 --cost ";
  refuses(alone + "1e-7,1e-7,1e-7,0", {"cost of F is 1e-07", "0.001 to 1e9", "smaller unit"});
  EXPECT_EQ(weft(alone + "0.001,0.001,0.001,0").status, 0);
  EXPECT_THAT(weft("plan --help").out, HasSubstr("0.001 to 1e9"));
}

TEST_F(PlanCommand, PlansAgainstATraceWithTheCostsOfTheTrace) {
  put_trace("t.json", {.schedule = "1f1b", .ranks = 2, .microbatches = 4});
  const auto makespan = [](const std::string& text, const std::string& side) {
    const std::size_t at = text.find("\n" + side + ", makespan ");
    return at == std::string::npos
               ? side
               : text.substr(at + side.size() + 12, text.find('\n', at + 1) - at - side.size() - 12);
  };
  for (const char* plan : {"plan --schedule 1f1b --ranks 2 --microbatches 4 --against @t.json",
                           "plan --config @c.yaml --against @t.json"}) {
    const std::string text = weft(plan).out;
    EXPECT_THAT(text, StartsWith("The plan's costs are the mean times of this trace's ops, in milliseconds"));
    EXPECT_EQ(makespan(text, "plan"), makespan(text, "run")) << text;
    const std::string own = weft(plan + std::string(" --cost 1,1,1,0")).out;
    EXPECT_THAT(own, StartsWith("1f1b: plan and run, step 3"));
    EXPECT_NE(makespan(own, "plan"), makespan(own, "run")) << own;
    EXPECT_THAT(weft(plan + std::string(" --costs-from @t.json")).out,
                StartsWith("1f1b: plan and run, step 3"));
  }
  put_trace("whole.json", {.schedule = "1f1b", .ranks = 2, .microbatches = 4}, false);
  EXPECT_THAT(weft("plan --schedule 1f1b --ranks 2 --microbatches 4 --against @whole.json").out,
              StartsWith("The plan's costs are 1 each, not those of the run: the trace has a B without"));
}

TEST_F(PlanCommand, CutsTheCostsOfATraceAnewForAnotherPlacement) {
  // Layers per stage: 3, 2, 2, 1 in the loop, 2, 3, 2, 1 in the V, whose rank 0 has the head. Every stage of
  // the loop took 12 ms, so layers take 4, 6 or 6 ms, and the last one with the head 12.
  put_trace("loop.json", {.schedule = "interleaved_1f1b", .ranks = 2, .chunks = 2, .microbatches = 4});
  const std::string plan =
      "plan --config @c.yaml --set model.model_config.num_hidden_layers=8 --costs-from @loop.json --format "
      "json --pipeline_parallel_schedule ";
  const auto busy = [&](const std::string& schedule, std::size_t rank) {
    return nlohmann::json::parse(weft(plan + schedule).out)["ranks"][rank]["busy"].get<double>();
  };
  EXPECT_DOUBLE_EQ(busy("interleaved_1f1b", 0), busy("interleaved_1f1b", 1));
  EXPECT_NEAR(busy("zbv", 1) / busy("zbv", 0), (4.0 + 6 + 6 + 6 + 6) / (4 + 4 + 12), 1e-3);
}

TEST_F(PlanCommand, SaysWhenATraceIsOfAnotherPipeline) {
  put_trace("two.json", {.schedule = "1f1b", .ranks = 2, .microbatches = 4});
  put_trace("six.json", {.schedule = "looped_bfs", .ranks = 2, .chunks = 3, .microbatches = 4});
  const std::string alone = "plan --microbatches 4 --against ";
  const std::string other = "the trace is of another pipeline: it has ";
  refuses(alone + "@two.json --schedule 1f1b --ranks 3", {other + "2 ranks, the plan has 3"});
  refuses(alone + "@two.json --schedule 1f1b --ranks 1", {other + "2 ranks, the plan has 1"});
  refuses(alone + "@two.json --schedule looped_bfs --ranks 2", {other + "2 stages, the plan has 4"});
  refuses(alone + "@six.json --schedule 1f1b --ranks 2", {other + "6 stages, the plan has 2"});
  refuses("plan --config @c.yaml --against @six.json", {other + "6 stages, the plan has 2"});
  refuses("plan --config @c.yaml --set pipeline_parallel.schedule=zbv --against @two.json",
          {other + "2 stages, the plan has 4"});
  refuses("plan --schedule 1f1b --ranks 2 --microbatches 5 --against @two.json",
          {other + "4 micro-batches a step, the plan has 5"});
  put_trace("four.json", {.schedule = "zbv", .ranks = 2, .microbatches = 4});
  refuses(alone + "@four.json --schedule looped_bfs --ranks 2", {"where the plan has no stage"});
}

TEST_F(PlanCommand, ChecksWhatAPipeBringsAndTheCellsAboutCommunication) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string text = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n";
  ASSERT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(ends[1]);
  EXPECT_THAT(weft("check /dev/fd/" + std::to_string(ends[0])).out, HasSubstr("free of deadlock"));
  close(ends[0]);
  put("dead.csv", "0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
  const Outcome dead = weft("check @dead.csv");
  EXPECT_EQ(dead.status, 2);
  EXPECT_THAT(dead.err, HasSubstr("row 1, column 2 '0RECV_B0' waits for row 2, column 4 '1SEND_B0'"));
}

TEST_F(PlanCommand, DrawsAFileWhoseNameIsNoText) {
  put("\xff<a>.csv", "0F0,0B0\n");
  EXPECT_THAT(weft("plan --format svg --schedule @\xff<a>.csv").out,
              AllOf(HasSubstr("\xef\xbf\xbd&lt;a&gt;.csv"), Not(HasSubstr("\xff"))));
}

}  // namespace
}  // namespace weft
