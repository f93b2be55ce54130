// The command line as a user meets it: the built program, its exit status and its words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

struct Outcome {
  int status;
  std::string out;
  std::string err;
};

class CommandLine : public testing::Test {
 protected:
  CommandLine() {
    std::string name = testing::TempDir() + "weft-program-XXXXXX";
    folder_ = mkdtemp(name.data());
    put("text.txt", std::string(2000, 'a'));
    put("c.yaml", R"(general: {run: tiny}
parallelism: {pp: 2}
tokenizer: {tokenizer_name_or_path: byte}
model:
  dtype: float32
  init_method: {std: 0.02}
  model_config: {is_llama_config: true, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 4, num_attention_heads: 2, vocab_size: 256}
tokens: {sequence_length: 16, micro_batch_size: 1, batch_accumulation_per_replica: 4, train_steps: 3}
data_stages:
  - {name: text, start_training_step: 1, data: {dataset: {text_files: [text.txt]}}}
optimizer:
  optimizer_factory: {name: adamW}
  learning_rate_scheduler: {learning_rate: 0.001}
  clip_grad: 1.0
)");
  }
  ~CommandLine() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  std::string text_of(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }
  std::string path() const { return folder_.string(); }
  bool is_link(const std::string& name) const { return fs::is_symlink(folder_ / name); }
  bool exists(const std::string& name) const { return fs::exists(folder_ / name); }

  Outcome weft(const std::string& arguments) const {
    std::string command = "cd ";
    command.append(folder_).append(" && " WEFT_PROGRAM " ").append(arguments).append(" >out 2>err");
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of("out"), text_of("err")};
  }

 private:
  fs::path folder_;
};

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
  for (const char* line : {"\ncpu ", "\ncores ", "\nkernels ", "\nmemory ", "\nshared memory ", "\nucx ",
                           "\n  tcp ", "\ncuda ", "\nlimits "}) {
    EXPECT_THAT(outcome.out, HasSubstr(line));
  }
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST_F(CommandLine, RefusesWrongUsageWithTheNearestSpelling) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "Usage: weft"},
      {"plam", "weft: unknown command 'plam'; did you mean 'plan'? (commands: train, plan, check, launch, "},
      {"train", "weft: --config is required"},
      {"train --confg c.yaml", "weft: unknown option '--confg'; did you mean '--config'?"},
      {"train --config c.yaml --run_dri x", "unknown option '--run_dri'; did you mean '--run-dir'?"},
      {"train --config c.yaml surplus", "surplus"},
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
      {"plan --config c.yaml --schedule 1f1b", "use --pipeline_parallel_schedule"},
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
    EXPECT_THAT(weft(std::string("train --config_file c.yaml --print_config ") + spelling).out,
                ContainsRegex("schedule: (afab|gpipe)"));
  }
}

TEST_F(CommandLine, LetsTheLastOfFlagsAndSetWin) {
  const std::string train = "train --config c.yaml --print-config ";
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
  const std::string train = "train --config none.yaml --config c.yaml --print-config ";
  EXPECT_THAT(weft(train + "--transport inproc --transport ucx").out, HasSubstr("transport: ucx"));
  EXPECT_THAT(weft(train + "--threads 3 --set pipeline_parallel.threads=2 --threads 1").out,
              HasSubstr("threads: 1"));
  EXPECT_THAT(weft(train + "--threads 3 --threads 1 --set pipeline_parallel.threads=2").out,
              HasSubstr("threads: 2"));
  EXPECT_THAT(weft(train + "--pipeline_parallel_schedule none --pipeline-parallel-schedule=zbv").out,
              HasSubstr("schedule: zbv"));
  const Outcome trained = weft(
      "train --config c.yaml --transport inproc --run-dir never --run-dir r --trace /no/such/t.json --trace "
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
      const Outcome outcome = weft(std::string("train --config c.yaml ") + flag + value);
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

TEST_F(CommandLine, GivesRanksTheConfigurationThatWasChecked) {
  const std::string steps = " --set tokens.train_steps=1 ";
  const Outcome from_pipe = weft("train --config /dev/stdin --run-dir p" + steps + "< c.yaml");
  ASSERT_EQ(from_pipe.status, 0) << from_pipe.err;
  const std::string feed = "cd " + path() + " && mkfifo pipe && (timeout 60 sh -c 'cat c.yaml >pipe' &)";
  ASSERT_EQ(std::system(feed.c_str()), 0);
  const Outcome from_fifo = weft("train --config pipe --run-dir q" + steps);
  EXPECT_EQ(from_fifo.status, 0) << from_fifo.err;
  EXPECT_EQ(text_of("p/result.json"), text_of("q/result.json"));
  // A rank by itself, as a cluster starts it, reads the file.
  const Outcome alone = weft("launch -n 2 -- " WEFT_PROGRAM " train --config c.yaml --run-dir s" + steps);
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_EQ(text_of("p/result.json"), text_of("s/result.json"));
}

TEST_F(CommandLine, TakesNamesOfAnyBytes) {
  put("caf\xe9.txt", std::string(2000, 'b'));
  const std::string train =
      "train --config c.yaml --set data_stages.0.data.dataset.text_files='[\"caf\xe9.txt\"]' --set "
      "general.project='r\xe9' --set data_stages.0.name='\xff\xfe' --set tokens.train_steps=2 ";
  const Outcome saved = weft(train + "--run-dir 'o\xff'");
  EXPECT_EQ(saved.status, 0) << saved.err;
  EXPECT_TRUE(exists("o\xff/checkpoints/step-00000002/manifest.json"));
  const Outcome resumed =
      weft("train --config 'o\xff/config.yaml' --run-dir 'o\xff' --resume latest --set tokens.train_steps=3");
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("resuming after step 2"));
}

TEST_F(CommandLine, RefusesWhatThisMachineCannotHold) {
  for (const char* transport : {"ucx", "inproc"}) {
    const Outcome outcome =
        weft(std::string("train --config c.yaml --run-dir r --set model.model_config.hidden_size=1_048_576 "
                         "--set model.model_config.intermediate_size=1_048_576 --transport ") +
             transport);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, ContainsRegex("^c.yaml:[0-9]+:[0-9]+: model.model_config: rank [01] alone takes "
                                           "[0-9]+ bytes, .*; allowed: .*\n$"));
    EXPECT_FALSE(exists("r"));
  }
}

TEST_F(CommandLine, RefusesAConfigurationInOneLineBeforeAnythingStarts) {
  std::string text = text_of("c.yaml");
  put("u.yaml", text.insert(text.find("sequence_length"), "train_stepz: 3, "));
  const std::pair<const char*, const char*> cases[] = {
      {"--config none.yaml", "none.yaml"},
      {"--config u.yaml", "^u.yaml:8:10: tokens.train_stepz: .*train_steps"},
      {"--config c.yaml --set tokens.nonsense=3", "^--set:"},
      {"--config c.yaml --pipeline_parallel_schedule 1f2b", "1f1b"},
      {"--config c.yaml --set parallelism.pp=64", "parallelism.pp"},
      {"--config c.yaml --set data_stages.0.data.dataset.text_files=[none*]", "none"},
      {"--config c.yaml --threads many", "threads"},
      {"--config c.yaml --set pipeline_parallel.chunks=2", "^--set:1:26: pipeline_parallel.chunks: "},
      {"--config c.yaml --set pipeline_parallel.max_in_flight=1",
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

TEST_F(CommandLine, SaysWhatItWouldStartAndStartsNothing) {
  const Outcome outcome = weft("train --config c.yaml --dry-run");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("2 processes on this host: schedule 1f1b, 2 stages, 4 micro-batches a step, 3 steps\n"),
            HasSubstr("rank 1: stage 1, WEFT_RANK=1 WEFT_WORLD_SIZE=2 "), Not(HasSubstr("--dry-run"))));
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
  EXPECT_THAT(weft("plan --config c.yaml").out, HasSubstr("activation slots"));
  EXPECT_THAT(weft("plan --config c.yaml --compare --memory 1GiB").out, HasSubstr("shortest within 1.0 GiB"));
}

TEST_F(CommandLine, PlansWithTheCostsThatARunMeasured) {
  ASSERT_EQ(weft("train --config c.yaml --transport inproc --run-dir measured --trace trace.json").status, 0);
  const json same =
      json::parse(weft("plan --config c.yaml --costs-from measured/trace.json --format json").out);
  EXPECT_GT(same["ranks"][0]["busy"], 0);
  // Another partition of the same model: the same work in all, but for rounding.
  const json other =
      json::parse(weft("plan --config c.yaml --set parallelism.pp=1 --costs-from measured/trace.json "
                       "--format json")
                      .out);
  double busy = 0;
  for (const json& rank : same["ranks"]) busy += rank["busy"].get<double>();
  EXPECT_NEAR(other["ranks"][0]["busy"], busy, 0.01 * busy);
  const json shared =
      json::parse(weft("plan --config c.yaml --costs-from measured/trace.json --cores 1 --format json").out);
  EXPECT_GE(shared["makespan"], same["makespan"]);
  EXPECT_EQ(weft("plan --config c.yaml --costs-from absent.json").status, 2);
  EXPECT_EQ(weft("plan --config c.yaml --costs-from c.yaml").status, 2);
}

TEST_F(CommandLine, ReadsAmountsOfMemoryInAnyUnit) {
  const std::pair<const char*, const char*> cases[] = {
      {"1GiB", "1.0 GiB"}, {"1073741824", "1.0 GiB"}, {"2147483.648kB", "2.0 GiB"}, {"0.5TiB", "512.0 GiB"}};
  for (const auto& [amount, shown] : cases) {
    EXPECT_THAT(weft(std::string("plan --config c.yaml --compare --memory ") + amount).out,
                HasSubstr(std::string("within ").append(shown)));
  }
}

TEST_F(CommandLine, WritesTracesWhereTheyWereAskedFor) {
  const std::string train = "train --config c.yaml --transport inproc --set tokens.train_steps=1 ";
  put("kept.json", "old");
  ASSERT_EQ(std::system(("cd " + path() + " && mkfifo pipe && ln -s kept.json link.json").c_str()), 0);
  EXPECT_EQ(weft(train + "--run-dir linked --trace ./link.json").status, 0);
  EXPECT_THAT(text_of("kept.json"), HasSubstr("traceEvents")) << "through the link";
  EXPECT_TRUE(is_link("link.json"));
  EXPECT_EQ(weft(train + "--run-dir null --trace /dev/null").status, 0);
  EXPECT_FALSE(fs::is_regular_file("/dev/null"));
  EXPECT_EQ(weft(train + "--run-dir bare --trace t.json").status, 0);
  EXPECT_TRUE(exists("bare/t.json"));
  for (const char* impossible : {"no/such/folder/t.json", "/proc/t.json", "./", "''", "c.yaml/t.json", "."}) {
    const Outcome outcome = weft(train + "--run-dir never --trace " + impossible);
    EXPECT_EQ(outcome.status, 2) << impossible;
    EXPECT_THAT(outcome.err, HasSubstr("--trace")) << impossible;
    EXPECT_FALSE(exists("never")) << impossible;
  }
}

TEST_F(CommandLine, TrainsOnWhenNobodyReadsItsOutputAnyMore) {
  for (const std::string transport : {"inproc", "ucx"}) {
    weft(
        "train --config c.yaml --set tokens.train_steps=200 --set logging.iteration_step_info_interval=1 "
        "--run-dir " +
        transport + " --transport " + transport + " 2>words | head -n 1 >first; true");
    EXPECT_THAT(text_of("first"), StartsWith("iteration: 1 ")) << transport;
    EXPECT_THAT(text_of(transport + "/result.json"), HasSubstr("finished")) << transport << text_of("words");
  }
}

TEST_F(CommandLine, GoesOnWithTheNewestRunOfThatName) {
  const std::string train = "train --config c.yaml --transport inproc --set tokens.train_steps=";
  ASSERT_EQ(weft(train + "1").status, 0);
  ASSERT_EQ(weft(train + "1").status, 0);
  ASSERT_TRUE(exists("runs/tiny-2/result.json"));
  const Outcome latest = weft(train + "2 --resume latest");
  ASSERT_EQ(latest.status, 0) << latest.err;
  EXPECT_THAT(text_of("runs/tiny-2/metrics.jsonl"), HasSubstr("\"step\": 2,"));
  EXPECT_FALSE(exists("runs/tiny-3"));
  EXPECT_EQ(weft(train + "3 --resume auto").status, 0);
  EXPECT_THAT(text_of("runs/tiny-2/metrics.jsonl"), HasSubstr("\"step\": 3,"));
  EXPECT_EQ(weft(train + "1 --set general.run=fresh --resume auto").status, 0) << "from the start";
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

TEST_F(CommandLine, TrainsInProcessesAndInThreadsWithTheSameBits) {
  const Outcome processes = weft("train --config c.yaml --run-dir p");
  ASSERT_EQ(processes.status, 0) << processes.err;
  const Outcome threads =
      weft("train --config c.yaml --run-dir t --transport inproc --pipeline_parallel_schedule afab");
  ASSERT_EQ(threads.status, 0) << threads.err;
  const std::size_t hash = processes.out.rfind("weights_sha256: ");
  ASSERT_NE(hash, std::string::npos);
  EXPECT_THAT(threads.out, EndsWith(processes.out.substr(hash)));
  EXPECT_EQ(text_of("p/result.json"), text_of("t/result.json"));
}

TEST_F(CommandLine, NamesTheRankWhoseNumbersGoBad) {
  const Outcome outcome = weft(
      "train --config c.yaml --run-dir n --set optimizer.learning_rate_scheduler.learning_rate=1e30 --set "
      "optimizer.clip_grad=null --set tokens.train_steps=20");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err,
              AllOf(ContainsRegex("weft: rank [01] failed: .*not finite"), Not(HasSubstr("exit status"))));
}

}  // namespace
