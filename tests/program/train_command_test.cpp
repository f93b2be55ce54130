// `weft train` as a user meets it: what it takes, refuses, says and leaves behind.
#include "program_test.h"
#include "weft/scheduling/simulation/chrome_trace.h"
#include "weft/scheduling/simulation/trace_analysis.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class TrainCommand : public ProgramTest {};

TEST_F(TrainCommand, GivesRanksTheConfigurationThatWasChecked) {
  const std::string steps = " --set tokens.train_steps=1 ";
  const Outcome from_pipe = weft("train --config /dev/stdin --run-dir p" + steps + "< tiny.yaml");
  ASSERT_EQ(from_pipe.status, 0) << from_pipe.err;
  ASSERT_EQ(shell("mkfifo pipe && (timeout 60 sh -c 'cat tiny.yaml >pipe' &)").status, 0);
  const Outcome from_fifo = weft("train --config pipe --run-dir q" + steps);
  EXPECT_EQ(from_fifo.status, 0) << from_fifo.err;
  EXPECT_EQ(text_of("p/result.json"), text_of("q/result.json"));
  // A rank by itself, as a cluster starts it, reads the file.
  const Outcome alone = weft("launch -n 2 -- " WEFT_PROGRAM " train --config tiny.yaml --run-dir s" + steps);
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_EQ(text_of("p/result.json"), text_of("s/result.json"));
}

TEST_F(TrainCommand, TakesNamesOfAnyBytes) {
  put("caf\xe9.txt", std::string(2000, 'b'));
  const std::string train =
      "train --config tiny.yaml --set data_stages.0.data.dataset='{text_files: [\"caf\xe9.txt\"]}' --set "
      "model.model_config.vocab_size=256 --set general.project='r\xe9' --set data_stages.0.name='\xff\xfe' "
      "--set tokens.train_steps=2 ";
  const Outcome saved = weft(train + "--run-dir 'o\xff'");
  EXPECT_EQ(saved.status, 0) << saved.err;
  EXPECT_TRUE(exists("o\xff/checkpoints/step-00000002/manifest.json"));
  const Outcome resumed =
      weft("train --config 'o\xff/config.yaml' --run-dir 'o\xff' --resume latest --set tokens.train_steps=3");
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("resuming after step 2"));
}

TEST_F(TrainCommand, RefusesWhatThisMachineCannotHold) {
  for (const char* transport : {"ucx", "inproc"}) {
    const Outcome outcome = weft(
        std::string("train --config tiny.yaml --run-dir r --set model.model_config.hidden_size=1_048_576 "
                    "--set model.model_config.intermediate_size=1_048_576 --transport ") +
        transport);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err,
                ContainsRegex("^tiny.yaml:[0-9]+:[0-9]+: model.model_config: rank [01] alone takes "
                              "[0-9]+ bytes, .*; allowed: .*\n$"));
    EXPECT_FALSE(exists("r"));
  }
}

TEST_F(TrainCommand, RefusesAConfigurationInOneLineBeforeAnythingStarts) {
  std::string text = text_of("tiny.yaml");
  put("u.yaml", text.insert(text.find("sequence_length"), "train_stepz: 3, "));
  const std::pair<const char*, const char*> cases[] = {
      {"--config none.yaml", "none.yaml"},
      {"--config u.yaml", "^u.yaml:8:10: tokens.train_stepz: .*train_steps"},
      {"--config tiny.yaml --set tokens.nonsense=3", "^--set:"},
      {"--config tiny.yaml --pipeline_parallel_schedule 1f2b", "1f1b"},
      {"--config tiny.yaml --set parallelism.pp=64", "parallelism.pp"},
      {"--config tiny.yaml --set model.model_config.vocab_size=256 --set "
       "'data_stages.0.data.dataset={text_files: [none*]}'",
       "none"},
      {"--config tiny.yaml --threads many", "threads"},
      {"--config tiny.yaml --set pipeline_parallel.chunks=2", "^--set:1:26: pipeline_parallel.chunks: "},
      {"--config tiny.yaml --set pipeline_parallel.max_in_flight=1",
       "^--set:1:33: pipeline_parallel.max_in_flight: "},
  };
  for (const auto& [arguments, words] : cases) {
    const Outcome outcome = weft(std::string("train --run-dir r ") + arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.err, AllOf(ContainsRegex(words), EndsWith("\n"))) << arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_FALSE(exists("r")) << arguments;
    EXPECT_FALSE(exists("runs")) << arguments;
  }
}

TEST_F(TrainCommand, SaysWhatItWouldStartAndStartsNothing) {
  const Outcome outcome = weft("train --config tiny.yaml --dry-run");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("2 processes on this host: schedule 1f1b, 2 stages, 8 micro-batches a step, 3 steps\n"),
            HasSubstr("rank 1: stage 1 (4 layers), WEFT_RANK=1 WEFT_WORLD_SIZE=2 "),
            Not(HasSubstr("--dry-run"))));
  EXPECT_FALSE(exists("runs"));
}

TEST_F(TrainCommand, WritesTracesWhereTheyWereAskedFor) {
  const std::string train = "train --config tiny.yaml --transport inproc --set tokens.train_steps=1 ";
  put("kept.json", "old");
  ASSERT_EQ(shell("mkfifo pipe && ln -s kept.json link.json").status, 0);
  EXPECT_EQ(weft(train + "--run-dir linked --trace ./link.json").status, 0);
  EXPECT_THAT(text_of("kept.json"), HasSubstr("traceEvents")) << "through the link";
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.json"));
  EXPECT_EQ(weft(train + "--run-dir null --trace /dev/null").status, 0);
  EXPECT_FALSE(fs::is_regular_file("/dev/null"));
  EXPECT_EQ(weft(train + "--run-dir bare --trace t.json").status, 0);
  EXPECT_TRUE(exists("bare/t.json"));
  for (const char* impossible :
       {"no/such/folder/t.json", "/proc/t.json", "./", "''", "tiny.yaml/t.json", "."}) {
    const Outcome outcome = weft(train + "--run-dir never --trace " + impossible);
    EXPECT_EQ(outcome.status, 2) << impossible;
    EXPECT_THAT(outcome.err, HasSubstr("--trace")) << impossible;
    EXPECT_FALSE(exists("never")) << impossible;
  }
}

TEST_F(TrainCommand, TracesTheStepsThatWereAskedForAndNothingIsLeftOfTheParts) {
  const std::string train = "train --config tiny.yaml --trace t.json ";
  for (const std::string transport : {"inproc", "ucx"}) {
    const std::string run = "--transport " + transport + " --run-dir " + transport;
    ASSERT_EQ(weft(train + run + " --trace-steps 2:3 --set tokens.train_steps=4").status, 0);
    const Trace trace = from_chrome_trace(text_of(transport + "/t.json"));
    EXPECT_EQ(traced_steps(trace.events), (std::vector<std::uint32_t>{2, 3}));
    for (const TraceEvent& event : trace.events) {
      EXPECT_TRUE(event.step == 2 || event.step == 3);
      EXPECT_LE(event.start, event.end);
    }
    EXPECT_EQ(trace.facts.at("hidden_size"), "16");
    EXPECT_FALSE(exists(transport + "/trace-parts"));
  }
  const std::string never = "--run-dir never --trace-steps ";
  for (const char* nonsense :
       {"3", "0:3", "3:2", ":", "1:", ":2", "a:b", "1:2:3", "-1:2", "1:99999999999999999999"}) {
    const Outcome outcome = weft(train + never + nonsense);
    EXPECT_EQ(outcome.status, 2) << nonsense;
    EXPECT_THAT(outcome.err, HasSubstr("--trace-steps: '" + std::string(nonsense) + "'")) << nonsense;
  }
  EXPECT_THAT(weft(train + never + "4:9").err, HasSubstr("first step to trace is 4, but the run has 3"));
  EXPECT_EQ(weft("train --config tiny.yaml " + never + "1:2").status, 2) << "without --trace";
  EXPECT_FALSE(exists("never"));
}

TEST_F(TrainCommand, TheTraceOfARunThatFailsIsInItsParts) {
  // a learning rate that overflows
  const Outcome failed = weft(
      "train --config tiny.yaml --transport inproc --run-dir r --trace t.json --set "
      "optimizer.learning_rate_scheduler.learning_rate=1e30 --set optimizer.clip_grad=null --set "
      "tokens.train_steps=20");
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.err, HasSubstr("the trace so far lies in r/trace-parts"));
  EXPECT_FALSE(exists("r/t.json"));
  const Trace part = from_chrome_trace(text_of("r/trace-parts/rank-0001.json"));
  EXPECT_THAT(traced_steps(part.events), testing::Contains(1u));
  EXPECT_THAT(weft("plan --config tiny.yaml --against r/trace-parts").out,
              HasSubstr(" of the trace\n\nplan, makespan "));
  EXPECT_THAT(weft("plan --config tiny.yaml --against r/logs").err, HasSubstr("no part of a trace"));
  // the next attempt begins anew
  EXPECT_EQ(
      weft("train --config tiny.yaml --transport inproc --run-dir r --resume auto --trace t.json").status, 0);
  EXPECT_EQ(traced_steps(from_chrome_trace(text_of("r/t.json")).events),
            (std::vector<std::uint32_t>{1, 2, 3}));
}

TEST_F(TrainCommand, SaysWhenCostsAreThoseOfAnotherModel) {
  ASSERT_EQ(weft("train --config tiny.yaml --transport inproc --run-dir r --trace t.json").status, 0);
  for (const std::string plan : {"--costs-from r/t.json", "--against r/t.json"}) {
    EXPECT_THAT(weft("plan --config tiny.yaml " + plan).err, IsEmpty());
    EXPECT_THAT(weft("plan --config tiny.yaml --set tokens.sequence_length=16 --set "
                     "model.model_config.hidden_size=32 " +
                     plan)
                    .err,
                HasSubstr("r/t.json is of another model or machine: head_dim is 8 in the trace, 16 here, "
                          "hidden_size is 16 in the trace, 32 here, "
                          "sequence_length is 8 in the trace, 16 here"));
  }
}

TEST_F(TrainCommand, TrainsOnWhenNobodyReadsItsOutputAnyMore) {
  for (const std::string transport : {"inproc", "ucx"}) {
    weft(
        "train --config tiny.yaml --set tokens.train_steps=200 --set logging.iteration_step_info_interval=1 "
        "--run-dir " +
        transport + " --transport " + transport + " 2>words | head -n 1 >first; true");
    EXPECT_THAT(text_of("first"), StartsWith("iteration: 1 ")) << transport;
    EXPECT_THAT(text_of(transport + "/result.json"), HasSubstr("finished")) << transport << text_of("words");
  }
}

TEST_F(TrainCommand, GoesOnWithTheNewestRunOfThatName) {
  const std::string train = "train --config tiny.yaml --transport inproc --set tokens.train_steps=";
  ASSERT_EQ(weft(train + "1").status, 0);
  ASSERT_EQ(weft(train + "1").status, 0);
  ASSERT_TRUE(exists("runs/tiny-2/result.json"));
  const Outcome latest = weft(train + "2 --resume latest");
  ASSERT_EQ(latest.status, 0) << latest.err;
  EXPECT_THAT(text_of("runs/tiny-2/metrics.jsonl"), HasSubstr("\"step\":2,"));
  EXPECT_FALSE(exists("runs/tiny-3"));
  EXPECT_EQ(weft(train + "3 --resume auto").status, 0);
  EXPECT_THAT(text_of("runs/tiny-2/metrics.jsonl"), HasSubstr("\"step\":3,"));
  EXPECT_EQ(weft(train + "1 --set general.run=fresh --resume auto").status, 0) << "from the start";
}

TEST_F(TrainCommand, TrainsInProcessesAndInThreadsWithTheSameBits) {
  const Outcome processes = weft("train --config tiny.yaml --run-dir p");
  ASSERT_EQ(processes.status, 0) << processes.err;
  const Outcome threads =
      weft("train --config tiny.yaml --run-dir t --transport inproc --pipeline_parallel_schedule afab");
  ASSERT_EQ(threads.status, 0) << threads.err;
  const std::size_t hash = processes.out.rfind("weights_sha256: ");
  ASSERT_NE(hash, std::string::npos);
  EXPECT_THAT(threads.out, EndsWith(processes.out.substr(hash)));
  EXPECT_EQ(text_of("p/result.json"), text_of("t/result.json"));
}

TEST_F(TrainCommand, NamesTheRankWhoseNumbersGoBad) {
  const Outcome outcome = weft(
      "train --config tiny.yaml --run-dir n --set optimizer.learning_rate_scheduler.learning_rate=1e30 --set "
      "optimizer.clip_grad=null --set tokens.train_steps=20");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err,
              AllOf(ContainsRegex("weft: rank [01] failed: .*not finite"), Not(HasSubstr("exit status"))));
}

}  // namespace
}  // namespace weft
