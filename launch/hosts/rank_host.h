#pragma once
// Where ranks run. The launcher sees hosts through this interface only: how a rank is started, how
// configuration and token reach it, which cores it gets and how its output comes back are the host's own
// matter.
#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/transport/mesh.h"
#include "weft/transport/rendezvous/run_token.h"

namespace weft {

/// How ranks learn that they shall stop. SIGUSR1 is passed on either way.
enum class StopBy {
  message,  ///< over the control connection: they end after a step; for `weft train`. Ranks are started with
            ///< INT, TERM, HUP, USR1 and USR2 ignored
  signal,   ///< the launcher's signal is passed on, and USR2 too; for programs of any kind
};

/// What every rank of a job runs.
struct RankProgram {
  std::string program;                 ///< its path, or a name to look for in PATH
  std::vector<std::string> arguments;  ///< the first is the program's name
  Mesh mesh;
  StopBy stop_by = StopBy::signal;
  std::optional<std::string> config;     ///< the text that handed_config() gives to ranks
  std::optional<std::uint32_t> speaker;  ///< this rank writes to the launcher's own stdout and stderr
};

/// Where ranks find the launcher, at RankHost::launcher_address().
struct Rendezvous {
  std::uint16_t port = 0;
  RunToken token{};
};

enum class RankStream { output, errors };

/// How a rank ended.
struct RankEnd {
  bool killed = false;
  int number = 0;  ///< of the signal that killed it, or its exit status
};

/// Who hears what ranks do.
class HostObserver {
 public:
  virtual ~HostObserver() = default;
  /// Whole lines without their ends, not the speaker's. Lines above 64 KiB come in pieces of that length.
  virtual void printed(std::uint32_t rank, RankStream stream, const std::vector<std::string>& lines) = 0;
  /// Once for each rank, after all lines that had come.
  virtual void ended(std::uint32_t rank, RankEnd how) = 0;
};

class RankHost {
 public:
  /// Ends the ranks that are left, with whatever they have started.
  virtual ~RankHost() = default;

  /// The numeric address of this machine at which the host's ranks can reach the launcher.
  [[nodiscard]] virtual std::string launcher_address() const = 0;
  /// Starts all ranks, once. Throws Error when one cannot be started.
  virtual void start(const RankProgram& program, const Rendezvous& rendezvous) = 0;
  /// Sends a signal to a rank and to what it has started in its process group; nothing when it has ended.
  virtual void signal(std::uint32_t rank, int number) = 0;

  /// Appends what becomes readable when report() has something; what ranks print only `with_output`.
  virtual void add_descriptors(std::vector<pollfd>& waiting, bool with_output) const = 0;
  /// Tells what has happened, without waiting. Output that is not of an ended rank only `with_output`.
  virtual void report(HostObserver& observer, bool with_output) = 0;
  /// True while something may still be printed: by a rank, or by what it left behind.
  [[nodiscard]] virtual bool may_print() const = 0;
  /// Tells the last that was printed, also a line without an end, and listens no longer.
  virtual void end_output(HostObserver& observer) = 0;
};

}  // namespace weft
