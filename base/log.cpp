#include "weft/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "weft/base/error.h"
#include "weft/base/terminal.h"

namespace weft::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void start(Level level, std::string_view prefix, const std::string& file, bool console) {
  std::vector<spdlog::sink_ptr> sinks;
  if (console) sinks.push_back(std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  if (!file.empty()) {
    try {
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(file));
    } catch (const spdlog::spdlog_ex& e) {
      throw Error("cannot open log file " + file + ": " + e.what());
    }
  }
  auto logger = std::make_shared<spdlog::logger>(std::string(prefix), sinks.begin(), sinks.end());
  logger->set_level(to_spdlog(level));
  const std::string pattern = prefix.empty() ? "%^[%l]%$ %v" : "%^[%l|%n]%$ %v";
  logger->set_pattern(pattern);
  if (console) sinks.front()->set_pattern(std::string(line_eraser(2)) + pattern);
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(logger);
}

void write(Level level, std::string_view message) {
  spdlog::default_logger_raw()->log(to_spdlog(level), "{}", message);
}

}  // namespace weft::log
