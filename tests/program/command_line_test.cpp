// The command line as a user meets it: its exit status and its words.
#include <nlohmann/json.hpp>

#include "program_test.h"
#include "weft/tests/support/loopback.h"

namespace weft {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class CommandLine : public ProgramTest {};

TEST_F(CommandLine, AnswersQuestionsOnStdout) {
  for (const char* question :
       {"--help", "-h", "train --help", "plan -h", "check --help", "launch --help", "doctor --help"}) {
    const Outcome outcome = weft(question);
    EXPECT_EQ(outcome.status, 0) << question;
    EXPECT_THAT(outcome.out, HasSubstr("Usage: weft"));
    EXPECT_THAT(outcome.err, IsEmpty());
  }
  EXPECT_THAT(weft("version").out, ContainsRegex("^weft [0-9.]+ .*build [0-9a-f]+"));
}

TEST_F(CommandLine, TellsWhatTheMachineOffers) {
  const Outcome outcome = weft("doctor");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out.find("\n  tcp ") != std::string::npos, test::no_loopback().empty());
  for (const char* line : {"\ncpu ", "\ncores ", "\nkernels ", "\nmemory ", "\nshared memory ", "\nucx ",
                           "\ncuda ", "\nlimits "}) {
    EXPECT_THAT(outcome.out, HasSubstr(line));
  }
  if (test::no_loopback().empty()) {
    EXPECT_THAT(outcome.err, IsEmpty()) << "UCX has nothing to say";
  }
}

TEST_F(CommandLine, RefusesWrongUsageWithTheNearestSpelling) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "Usage: weft"},
      {"plam", "weft: unknown command 'plam'; did you mean 'plan'? (commands: train, plan, check, launch, "},
      {"train", "weft: --config is required"},
      {"train --confg tiny.yaml", "weft: unknown option '--confg'; did you mean '--config'?"},
      {"train --config tiny.yaml --run_dri x", "unknown option '--run_dri'; did you mean '--run-dir'?"},
      {"train --config tiny.yaml surplus", "surplus"},
      {"train --config", "--config"},
      {"plan", "weft: --config or --schedule is needed"},
      {"plan --schedule 1f1b", "weft: --ranks and --microbatches are needed"},
      {"plan --schedule 1f1b --ranks 0 --microbatches 4", "--ranks"},
      {"plan --schedule 1f2b --ranks 2 --microbatches 4", "did you mean '1f1b'?"},
      {"plan --schedule 1f1b --ranks 2 --microbatches 4 --format yaml", "--format"},
      {"plan --schedule 1f1b --ranks 2 --microbatches 4 --cost 1,2", "--cost"},
      {"plan --schedule 1f1b --ranks 2 --microbatches 4 --cost 1,1,-1,0", "weft: "},
      {"plan --ranks 2 --microbatches 4 --compare --memory lots", "'lots' is no amount of memory"},
      {"plan --schedule 1f1b --ranks 2 --microbatches 4 --against none.json", "cannot read none.json"},
      {"plan --config tiny.yaml --schedule 1f1b", "use --pipeline_parallel_schedule"},
      {"check", "file is required"},
      {"check none.csv", "none.csv"},
      {"launch -n 0 -- true", "--ranks: "},
      {"launch", "program is required"},
  };
  for (const auto& [arguments, words] : cases) {
    const Outcome outcome = weft(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(words)) << arguments;
    EXPECT_THAT(outcome.out, IsEmpty()) << arguments;
  }
}

TEST_F(CommandLine, TakesDashesAndUnderscoresAlike) {
  for (const char* spelling : {"--pipeline_parallel_schedule afab", "--pipeline-parallel-schedule=afab",
                               "--pipeline_parallel-schedule=gpipe"}) {
    EXPECT_THAT(weft(std::string("train --config_file tiny.yaml --print_config ") + spelling).out,
                ContainsRegex("schedule: (afab|gpipe)"));
  }
}

TEST_F(CommandLine, LetsTheLastOfFlagsAndSetWin) {
  const std::string train = "train --config tiny.yaml --print-config ";
  EXPECT_THAT(weft(train + "--set pipeline_parallel.schedule=afab --pipeline_parallel_schedule zbv").out,
              HasSubstr("schedule: zbv"));
  EXPECT_THAT(weft(train + "--pipeline_parallel_schedule zbv --set pipeline_parallel.schedule=afab").out,
              HasSubstr("schedule: afab"));
  EXPECT_THAT(
      weft(train + "--threads 3 --set pipeline_parallel.threads=2 --set pipeline_parallel.threads=1").out,
      HasSubstr("threads: 1"));
  EXPECT_THAT(weft(train + "--set tokens.train_steps=70_000").out, HasSubstr("train_steps: 70000"));
}

TEST_F(CommandLine, LetsTheLastOfOneFlagWin) {
  const std::string train = "train --config none.yaml --config tiny.yaml --print-config ";
  EXPECT_THAT(weft(train + "--transport inproc --transport ucx").out, HasSubstr("transport: ucx"));
  EXPECT_THAT(weft(train + "--threads 3 --set pipeline_parallel.threads=2 --threads 1").out,
              HasSubstr("threads: 1"));
  EXPECT_THAT(weft(train + "--threads 3 --threads 1 --set pipeline_parallel.threads=2").out,
              HasSubstr("threads: 2"));
  EXPECT_THAT(weft(train + "--pipeline_parallel_schedule none --pipeline-parallel-schedule=zbv").out,
              HasSubstr("schedule: zbv"));
  const Outcome trained = weft(
      "train --config tiny.yaml --transport inproc --run-dir never --run-dir r --trace /no/such/t.json "
      "--trace "
      "t.json --resume latest --resume auto");
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_TRUE(exists("r/t.json"));
  EXPECT_FALSE(exists("never"));
  const Outcome plan = weft(
      "plan --schedule zbv --schedule 1f1b --ranks 4 --ranks 2 --microbatches 9 --microbatches 3 --chunks 2 "
      "--chunks 1 --max-in-flight 1 --max-in-flight 2 --cost 1,1 --cost 2,1,1,0 --cores 1 --cores 2 --format "
      "svg --format csv");
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_THAT(plan.out, StartsWith("0F0,0F1,0B0,0F2"));
  EXPECT_THAT(weft("launch -n 3 --ranks 1 -- sh -c 'echo of $WORLD_SIZE'").out, HasSubstr("of 1\n"));
}

TEST_F(CommandLine, RefusesEmptyValues) {
  for (const char* flag : {"--config", "--resume", "--run-dir", "--trace", "--transport", "--threads",
                           "--pipeline_parallel_schedule", "--set"}) {
    for (const char* value : {" ''", "= --dry-run"}) {
      const Outcome outcome = weft(std::string("train --config tiny.yaml ") + flag + value);
      EXPECT_EQ(outcome.status, 2) << flag << value;
      EXPECT_EQ(outcome.err, std::string("weft: ") + flag + ": the value is empty\n") << flag << value;
    }
  }
  for (const char* command : {"check ''", "checkpoint list ''", "convert hf-to-weft '' x",
                              "convert weft-to-hf x ''", "plan --schedule '' --ranks 2 --microbatches 2"}) {
    const Outcome outcome = weft(command);
    EXPECT_EQ(outcome.status, 2) << command;
    EXPECT_THAT(outcome.err, HasSubstr("empty")) << command;
  }
  EXPECT_FALSE(exists("runs"));
}

TEST_F(CommandLine, PlansEveryFormat) {
  const std::string plan = "plan --schedule zbv --ranks 2 --microbatches 4 ";
  EXPECT_THAT(weft(plan).out, HasSubstr("makespan"));
  EXPECT_THAT(weft(plan + "--format json").out, StartsWith("{"));
  EXPECT_THAT(weft(plan + "--format csv").out, StartsWith("0F0,"));
  EXPECT_THAT(weft(plan + "--format svg").out, HasSubstr("<svg"));
  EXPECT_THAT(weft(plan + "--format chrome").out, HasSubstr("traceEvents"));
  EXPECT_THAT(weft("plan --ranks 2 --microbatches 4 --compare").out, HasSubstr("dualpipe_v"));
  EXPECT_THAT(weft("plan --config tiny.yaml").out, HasSubstr("activation slots"));
  EXPECT_THAT(weft("plan --config tiny.yaml --compare --memory 1GiB").out,
              HasSubstr("shortest within 1.0 GiB"));
}

TEST_F(CommandLine, PlansWithTheCostsThatARunMeasured) {
  ASSERT_EQ(weft("train --config tiny.yaml --transport inproc --run-dir measured --trace trace.json").status,
            0);
  const json same =
      json::parse(weft("plan --config tiny.yaml --costs-from measured/trace.json --format json").out);
  EXPECT_GT(same["ranks"][0]["busy"], 0);
  // Another partition of the same model: the same work in all, but for rounding.
  const json other =
      json::parse(weft("plan --config tiny.yaml --set parallelism.pp=1 --costs-from measured/trace.json "
                       "--format json")
                      .out);
  double busy = 0;
  for (const json& rank : same["ranks"]) busy += rank["busy"].get<double>();
  EXPECT_NEAR(other["ranks"][0]["busy"], busy, 0.01 * busy);
  const json shared = json::parse(
      weft("plan --config tiny.yaml --costs-from measured/trace.json --cores 1 --format json").out);
  EXPECT_GE(shared["makespan"], same["makespan"]);
  EXPECT_EQ(weft("plan --config tiny.yaml --costs-from absent.json").status, 2);
  EXPECT_EQ(weft("plan --config tiny.yaml --costs-from tiny.yaml").status, 2);
}

TEST_F(CommandLine, ReadsAmountsOfMemoryInAnyUnit) {
  const std::pair<const char*, const char*> cases[] = {
      {"1GiB", "1.0 GiB"}, {"1073741824", "1.0 GiB"}, {"2147483.648kB", "2.0 GiB"}, {"0.5TiB", "512.0 GiB"}};
  for (const auto& [amount, shown] : cases) {
    EXPECT_THAT(weft(std::string("plan --config tiny.yaml --compare --memory ") + amount).out,
                HasSubstr(std::string("within ").append(shown)));
  }
}

TEST_F(CommandLine, SaysWhenItsAnswerCannotBeWritten) {
  for (const char* command : {"plan --schedule 1f1b --ranks 2 --microbatches 2", "version", "--help"}) {
    weft(std::string(command) + " >/dev/full 2>words; echo $? >status; true");
    EXPECT_EQ(text_of("status"), "1\n") << command;
    EXPECT_THAT(text_of("words"), HasSubstr("stdout")) << command;
  }
}

TEST_F(CommandLine, ChecksCustomSchedules) {
  put("good.csv", weft("plan --schedule 1f1b --ranks 2 --microbatches 3 --format csv").out);
  const Outcome good = weft("check good.csv");
  EXPECT_EQ(good.status, 0);
  EXPECT_THAT(
      good.out,
      HasSubstr(
          "good.csv is complete, ordered and free of deadlock; it needs 2 slots on its fullest rank\n"));
  EXPECT_EQ(weft("check good.csv --slots 1").status, 2);
  put("bad.csv", "0F0,0B0,0F0\n");
  const Outcome bad = weft("check bad.csv");
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("row 1, column 3"));
}

TEST_F(CommandLine, LaunchesPrograms) {
  const Outcome outcome = weft("launch -n 2 -- sh -c 'echo $0 is $WEFT_RANK of $WORLD_SIZE' --it");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("[rank 0] --it is 0 of 2\n"), HasSubstr("[rank 1] --it is 1 of 2\n")));
  EXPECT_EQ(weft("launch -- sh -c 'exit 3'").status, 1);
  setenv("WEFT_HEARTBEAT_LIMIT", "soon", 1);
  const Outcome limit = weft("launch -- true");
  unsetenv("WEFT_HEARTBEAT_LIMIT");
  EXPECT_EQ(limit.status, 2);
  EXPECT_THAT(limit.err, StartsWith("WEFT_HEARTBEAT_LIMIT: 'soon' does not fit"));
  EXPECT_THAT(weft("launch -- ''").err, HasSubstr("the name of the program is empty"));
  const Outcome absent = weft("launch -n 2 no-such-program");
  EXPECT_EQ(absent.status, 1);
  EXPECT_THAT(absent.err, HasSubstr("cannot run no-such-program: no such program in PATH"));
}

}  // namespace
}  // namespace weft
