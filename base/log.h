#pragma once
// The front of logging. spdlog stands behind it, in log.cpp alone, since its headers are slow to compile.
#include <string>
#include <string_view>

namespace weft::log {

enum class Level { debug, info, warning, error };

/// Sends every later message of this process to `stderr` (unless `console` is false) and, when `file` is
/// not empty, to that file as well (appended, flushed at once). `prefix` stands before each message, for
/// example "rank 1". Throws Error when the file cannot be opened.
void start(Level level, std::string_view prefix, const std::string& file = "", bool console = true);

/// Writes one message; any thread may call it. It allocates, so it has no place between ops.
void write(Level level, std::string_view message);

inline void debug(std::string_view message) { write(Level::debug, message); }
inline void info(std::string_view message) { write(Level::info, message); }
inline void warning(std::string_view message) { write(Level::warning, message); }
inline void error(std::string_view message) { write(Level::error, message); }

}  // namespace weft::log
