// What a run reports: metrics.jsonl, TensorBoard events, the console.
#include "weft/training/metrics.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <pty.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "event_files.h"
#include "weft/base/error.h"
#include "weft/base/terminal.h"
#include "weft/tests/support/scratch_folder.h"
#include "weft/training/console.h"
#include "weft/training/tensorboard.h"

namespace weft {
namespace {

using test::ScratchFolder;
using ::testing::HasSubstr;
using ::testing::StartsWith;

StepMetrics example(std::uint64_t step) {
  StepMetrics m;
  m.step = step;
  m.loss = 5.545177444479562;
  m.grad_norm = 1.0 / 3;
  m.lr = 1e-5;
  m.tokens = 4096 * step;
  m.step_ms = 254.7;
  m.tokens_per_sec = 16081.664;
  m.model_tflops = 0.0123;
  m.bubble = {0.25, 0.1};
  m.peak_in_flight = {2, 1};
  m.peak_activation_bytes = {1ULL << 40, 5};
  m.message_bytes = {7, 1ULL << 41};
  return m;
}

TEST(Metrics, AreJsonObjectsWhoseFloatsRoundTrip) {
  const StepMetrics m = example(7);
  const auto json = nlohmann::json::parse(to_json_line(m));
  EXPECT_EQ(json["step"], 7);
  EXPECT_EQ(json["loss"].get<double>(), m.loss);
  EXPECT_EQ(json["grad_norm"].get<double>(), m.grad_norm);
  EXPECT_EQ(json["lr"].get<double>(), m.lr);
  EXPECT_EQ(json["tokens"].get<std::uint64_t>(), m.tokens);
  EXPECT_EQ(json["step_ms"].get<double>(), m.step_ms);
  EXPECT_EQ(json["tokens_per_sec"].get<double>(), m.tokens_per_sec);
  EXPECT_EQ(json["model_tflops"].get<double>(), m.model_tflops);
  EXPECT_EQ(json["bubble"].get<std::vector<double>>(), m.bubble);
  EXPECT_EQ(json["peak_in_flight"].get<std::vector<std::uint32_t>>(), m.peak_in_flight);
  EXPECT_EQ(json["peak_activation_bytes"].get<std::vector<std::uint64_t>>(), m.peak_activation_bytes);
  EXPECT_EQ(json["message_bytes"].get<std::vector<std::uint64_t>>(), m.message_bytes);
  EXPECT_EQ(json.size(), 12U);
  EXPECT_EQ(to_json_line(m).find('\n'), to_json_line(m).size() - 1);
}

TEST(Metrics, SayNullForWhatJsonCannotSay) {
  StepMetrics m = example(1);
  m.loss = std::numeric_limits<double>::quiet_NaN();
  m.bubble = {std::numeric_limits<double>::infinity()};
  const auto json = nlohmann::json::parse(to_json_line(m));
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_TRUE(json["bubble"][0].is_null());
}

TEST(MetricsFile, KeepsNoStepTwiceAndNoHalfLine) {
  const ScratchFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  {
    MetricsFile file(path);
    for (std::uint64_t step = 1; step <= 5; ++step) file.write(example(step));
  }
  const std::string five = folder.read("metrics.jsonl");
  folder.write("metrics.jsonl", five + "{\"step\": 6, \"lo");
  {
    MetricsFile file(path, 9);
    EXPECT_EQ(folder.read("metrics.jsonl"), five);
  }
  {
    MetricsFile file(path, 3);
    file.write(example(4));
  }
  EXPECT_EQ(folder.read("metrics.jsonl"), to_json_line(example(1)) + to_json_line(example(2)) +
                                              to_json_line(example(3)) + to_json_line(example(4)));
  MetricsFile fresh(path);
  EXPECT_EQ(folder.read("metrics.jsonl"), "");
}

TEST(MetricsFile, ReadsLinesWithBlanksBetweenKeyAndNumber) {
  const ScratchFolder folder;
  const std::string lines = "{\"step\": 1, \"loss\": 2}\n{\"step\": 2}\n";
  MetricsFile file(folder.write("metrics.jsonl", lines + "{\"step\": 3}\n"), 2);
  EXPECT_EQ(folder.read("metrics.jsonl"), lines);
}

TEST(MetricsFile, NamesTheFileWhenTheDiskIsFull) {
  EXPECT_THROW(MetricsFile("/no such folder/metrics.jsonl"), Error);
  AppendedFile full("/dev/full");
  try {
    full.append("x");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "/dev/full cannot be written: No space left on device");
  }
}

TEST(AppendedFile, TakesBackHalfARecord) {
  const ScratchFolder folder;
  AppendedFile file(folder.path("f"));
  file.append("0123456789");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = 15;  // room for half of the next record
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_THROW(file.append("0123456789"), Error);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(folder.read("f"), "0123456789");
  file.append("abc");
  EXPECT_EQ(folder.read("f"), "0123456789abc");
}

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

TEST(TensorBoard, ChecksumsAreCrc32c) { EXPECT_EQ(crc32c("123456789"), 0xE3069283U); }

TEST(TensorBoard, RecordsAreThoseOfTheFormat) {
  EXPECT_EQ(event_record(version_event(1.0)),
            bytes_of("1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a"));
  const std::array<Scalar, 1> loss = {{{"loss", 0.5F}}};
  EXPECT_EQ(event_record(scalars_event(2.0, 10, loss)),
            bytes_of("1a00000000000000129bd82d090000000000000040100a2a0d0a0b0a046c6f7373150000003f081add56"));
}

TEST(TensorBoard, ASessionStartsAtAStep) {
  EXPECT_EQ(start_event(2.0, 10), bytes_of("090000000000000040"
                                           "100a"
                                           "3a020801"));
}

TEST(TensorBoard, FilesHoldTheScalarsOfEveryStep) {
  const ScratchFolder folder;
  TensorBoardFile file(folder.path("."), 1);
  StepMetrics evaluated = example(300);
  evaluated.val_loss = 0.25;
  file.write(example(1));
  file.write(evaluated);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path(".")))
    EXPECT_THAT(entry.path().filename(), StartsWith("events.out.tfevents."));
  const test::EventScalars scalars = test::EventFiles(folder.path(".")).scalars();
  using Values = std::map<std::uint64_t, float>;
  EXPECT_EQ(scalars.at("grad_norm"), (Values{{1, 1.0F / 3}, {300, 1.0F / 3}}));
  EXPECT_EQ(scalars.at("val_loss"), (Values{{300, 0.25F}}));
  EXPECT_EQ(scalars.size(), 7U);
}

TEST(TensorBoard, ALaterFileTakesBackStepsOfEarlierOnes) {
  const ScratchFolder folder;
  // A file of a host whose clock goes ahead, with half a record of a crash behind it.
  const std::string early = "events.out.tfevents.9999999000.host.1.0";
  const std::array<Scalar, 1> loss = {{{"loss", 9}}};
  std::string records = event_record(version_event(1.0));
  for (std::uint64_t step = 1; step <= 6; ++step) records += event_record(scalars_event(1.0, step, loss));
  folder.write(early, records + records.substr(0, 20));
  for (const std::uint64_t first : {4, 5}) {
    TensorBoardFile file(folder.path("."), first);
    for (std::uint64_t step = first; step < 8; ++step) file.write(example(step));
  }
  const test::EventScalars scalars = test::EventFiles(folder.path(".")).scalars();
  EXPECT_EQ(scalars.at("loss").size(), 7U);
  EXPECT_EQ(scalars.at("loss").at(3), 9);
  EXPECT_EQ(scalars.at("loss").at(4), static_cast<float>(example(4).loss));
}

TEST(Console, WritesNumbersAsNanotronDoes) {
  const std::vector<std::pair<double, std::string>> numbers = {
      {0, "0"},          {0.00015, "0.00015"}, {4.37e-5, "4.37e-05"}, {0.5, "0.5"},
      {1, "1"},          {6.6666, "6.67"},     {254.7, "255"},        {999.4, "999"},
      {999.6, "1K"},     {4096, "4.1K"},       {2'870'000, "2.87M"},  {-1500, "-1.5K"},
      {49'152, "49.2K"}, {1e9, "1B"},          {3.2e18, "3.2E"},      {5e22, "50000E"}};
  for (const auto& [value, text] : numbers) EXPECT_EQ(human_number(value), text) << value;
  EXPECT_EQ(human_number(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(human_number(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(human_duration(100.9), "0:01:40");
  EXPECT_EQ(human_duration(90'061), "25:01:01");
  EXPECT_EQ(human_duration(-1), "0:00:00");
}

NanotronConfig console_config() {
  NanotronConfig config;
  config.parallelism.pp = 2;
  config.tokens.sequence_length = 128;
  config.tokens.micro_batch_size = 4;
  config.tokens.batch_accumulation_per_replica = 8;
  config.tokens.train_steps = 350;
  config.logging.iteration_step_info_interval = 10;
  return config;
}

TEST(Console, WritesNanotronsColumns) {
  EXPECT_EQ(
      step_line(console_config(), example(7)),
      "iteration: 7 / 350 | consumed_tokens: 28.7K | time_per_iteration_ms: 255 | tokens_per_sec: 16.1K | "
      "tokens_per_sec_per_rank: 8.04K | global_batch_size: 4.1K | grad_norm: 0.333 | lm_loss: 5.55 | lr: "
      "1e-05 | "
      "model_tflops_per_rank: 0.00615 | eta: 0:01:27");
}

TEST(ProgressBar, FitsTheTerminal) {
  EXPECT_EQ(progress_text(console_config(), example(175), 200),
            "[====================>                   ] 175/350 loss 5.55 eta 0:00:44");
  EXPECT_THAT(progress_text(console_config(), example(350), 200),
              HasSubstr("[========================================]"));
  for (std::size_t width = 0; width < 100; ++width) {
    EXPECT_LE(progress_text(console_config(), example(350), width).size(), width);
  }
}

/// Both ends of a pipe.
struct Pipe {
  Pipe() { EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  /// What is in it now.
  [[nodiscard]] std::string take() const {
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    std::string text;
    std::array<char, 4096> part{};
    for (ssize_t n = 0; (n = ::read(ends[0], part.data(), part.size())) > 0;)
      text.append(part.data(), static_cast<std::size_t>(n));
    return text;
  }
  std::array<int, 2> ends{};
};

TEST(Console, WritesALineEveryIntervalAndAtTheEndAndNoBarIntoAFile) {
  const Pipe output;
  const Pipe errors;
  {
    Console console(console_config(), output.ends[1], errors.ends[1]);
    for (const std::uint64_t step : {1, 2, 10, 11, 350}) console.step(example(step));
    console.say("done");
  }
  const std::string text = output.take();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_THAT(text, StartsWith("iteration: 1 / 350 | "));
  EXPECT_THAT(text, HasSubstr("\niteration: 11 / 350 | "));
  EXPECT_THAT(text, HasSubstr("\niteration: 350 / 350 | "));
  EXPECT_EQ(errors.take(), "");
}

TEST(Console, DoesNotWaitForAReaderThatStopped) {
  const Pipe output;
  std::string taken;
  {
    Console console(console_config(), output.ends[1], output.ends[1]);
    for (int i = 0; i < 3000; ++i)
      console.say("line " + std::to_string(i) + std::string(100, '.'));  // 300 KB
    // The pipe is full by now. Its reader comes back, and what waited goes on.
    for (int i = 0; i < 12; ++i) {
      taken += output.take();
      console.say("more " + std::to_string(i));
    }
  }
  taken += output.take();
  EXPECT_THAT(taken, HasSubstr("line 2999"));
  EXPECT_THAT(taken, ::testing::EndsWith("more 11\n"));
}

/// A terminal of 60 columns.
struct Terminal {
  Terminal() {
    winsize size{24, 60, 0, 0};
    if (::openpty(&master, &slave, nullptr, nullptr, &size) != 0) problem = std::strerror(errno);
  }
  ~Terminal() {
    ::close(master);
    ::close(slave);
  }
  [[nodiscard]] std::string take() const {
    ::fcntl(master, F_SETFL, O_NONBLOCK);
    std::string text(1 << 16, '\0');
    const ssize_t n = ::read(master, text.data(), text.size());
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
  }
  int master = -1;
  int slave = -1;
  std::string problem;  ///< why there is none
};

TEST(Console, DrawsABarOnATerminalAndTakesItAway) {
  ::setenv("TERM", "xterm", 1);
  const Terminal terminal;
  if (!terminal.problem.empty()) GTEST_SKIP() << "no pseudo-terminal can be had here: " << terminal.problem;
  const Pipe output;
  ASSERT_TRUE(is_smart_terminal(terminal.slave));
  ASSERT_FALSE(is_smart_terminal(output.ends[1]));
  {
    Console console(console_config(), output.ends[1], terminal.slave);
    console.step(example(1));
    const std::string bar = terminal.take();
    EXPECT_THAT(bar, StartsWith("\r["));
    EXPECT_THAT(bar, HasSubstr("1/350 loss 5.55"));
    EXPECT_LE(bar.size(), 60U);
    console.say("a line");
    EXPECT_EQ(terminal.take(), "\r" + std::string(59, ' ') + "\r");
  }
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(is_smart_terminal(terminal.slave));
  ::setenv("TERM", "xterm", 1);
}

}  // namespace
}  // namespace weft
