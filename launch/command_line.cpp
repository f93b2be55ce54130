#include "weft/launch/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <map>

#include "weft/base/error.h"
#include "weft/launch/doctor.h"
#include "weft/launch/flag_names.h"
#include "weft/launch/launch_command.h"
#include "weft/launch/version.h"

namespace weft {
namespace {

/// The commands, and what they will do once the arguments have been read.
class CommandLine {
 public:
  CommandLine();
  /// Reads the arguments. Returns an exit status when there is nothing left to do (help), else -1. Throws
  /// UsageError.
  int parse(std::vector<std::string> arguments);
  int run() const { return actions_.at(app_.get_subcommands().front())(); }

 private:
  void add_launch();
  void add_doctor();
  void add_version();
  [[nodiscard]] std::vector<std::string> commands() const;

  CLI::App app_{"Pipeline-parallel training by stage actors.", "weft"};
  std::map<const CLI::App*, std::function<int()>> actions_;
  LaunchArguments launch_;
};

CommandLine::CommandLine() {
  app_.require_subcommand(1);
  app_.set_help_flag("-h,--help", "Shows this text");
  add_launch();
  add_doctor();
  add_version();
}

void CommandLine::add_launch() {
  CLI::App* command =
      app_.add_subcommand("launch", "Starts any program that embeds weft, one process per rank");
  command->add_option("-n,--ranks", launch_.ranks, "Number of ranks")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("program", launch_.program, "The program and its arguments, after --")->required();
  actions_[command] = [this] { return launch_program(launch_); };
}

void CommandLine::add_doctor() {
  CLI::App* command = app_.add_subcommand(
      "doctor", "Says what this machine offers: CPU, transports, CUDA, shared memory, limits");
  actions_[command] = [] {
    std::fputs(examine_machine().c_str(), stdout);
    return 0;
  };
}

void CommandLine::add_version() {
  CLI::App* command = app_.add_subcommand("version", "Says which weft this is");
  actions_[command] = [] {
    std::puts(version_line().c_str());
    return 0;
  };
}

std::vector<std::string> CommandLine::commands() const {
  std::vector<std::string> names;
  for (const CLI::App* command : app_.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> long_flags(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

int CommandLine::parse(std::vector<std::string> arguments) {
  if (!arguments.empty()) arguments.erase(arguments.begin());
  if (arguments.empty()) {
    std::fputs(app_.help().c_str(), stderr);
    return 2;
  }
  const bool is_command = !arguments.front().starts_with("-");
  if (is_command) check_command(arguments.front(), commands());
  spell_flags(arguments, long_flags(is_command ? *app_.get_subcommand(arguments.front()) : app_));
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app_.parse(std::move(arguments));
  } catch (const CLI::CallForHelp& e) {
    app_.exit(e);
    return 0;
  } catch (const CLI::ParseError& e) {
    throw UsageError(e.what());
  }
  return -1;
}

}  // namespace

int run_command_line(std::vector<std::string> arguments) {
  try {
    CommandLine line;
    const int status = line.parse(std::move(arguments));
    return status >= 0 ? status : line.run();
  } catch (const UsageError& e) {
    std::fprintf(stderr, "weft: %s\n", e.what());
    return 2;
  } catch (const ConfigError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weft: %s\n", e.what());
    return 1;
  }
}

}  // namespace weft
