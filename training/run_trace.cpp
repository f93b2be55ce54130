#include "weft/training/run_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "weft/base/error.h"
#include "weft/base/files/named_file.h"
#include "weft/base/log.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t piece_bytes = std::uint64_t{4} << 20;

fs::path make_part(const fs::path& run, std::uint32_t rank) {
  const fs::path folder = trace_parts_folder(run);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(fmt::format("{}: cannot be made: {}", folder.string(), error.message()));
  return folder / fmt::format("rank-{:04d}.json", rank);
}

/// Reads a part in pieces.
class PartReader {
 public:
  explicit PartReader(const fs::path& path) : path_(path), file_(path, std::ios::binary) {}

  [[nodiscard]] std::string next(std::uint64_t bytes) {
    std::string piece(bytes, '\0');
    if (!file_.read(piece.data(), static_cast<std::streamsize>(bytes)))
      throw Error(fmt::format("{}: cannot be read", path_.string()));
    return piece;
  }

 private:
  fs::path path_;
  std::ifstream file_;
};

}  // namespace

fs::path trace_parts_folder(const fs::path& run) { return run / "trace-parts"; }

RunTrace::RunTrace(Rank& rank, fs::path run, TraceSteps steps, const TraceFacts& facts)
    : rank_(rank),
      run_(std::move(run)),
      steps_(steps),
      path_(make_part(run_, rank.rank())),
      lines_(rank.plan().schedule.rank_of),
      part_(path_) {
  part_.truncate(0);  // of an earlier attempt
  lines_.add_facts(facts);
  lines_.add_rank(rank.rank());
  std::string head = lines_.take();
  part_.append(head.insert(0, 1, '['));
  if (rank.rank() == 0)
    log::info(fmt::format("trace: every rank writes to {} while it runs", path_.parent_path().string()));
}

RunTrace::~RunTrace() { rank_.actor().trace(nullptr); }

void RunTrace::begin_step(std::uint64_t step) {
  rank_.actor().trace(step >= steps_.first && step <= steps_.last ? &events_ : nullptr);
}

void RunTrace::end_step() {
  if (events_.empty()) return;
  for (const TraceEvent& event : events_) lines_.add(event);
  events_.clear();
  part_.append(lines_.take());
}

std::vector<std::uint64_t> RunTrace::sizes_of_parts() {
  const auto texts = rank_.gather_text(std::to_string(part_.size()));
  std::istringstream all(rank_.broadcast_text(fmt::format("{}", fmt::join(texts, " "))));
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = 0; all >> size;) sizes.push_back(size);
  return sizes;
}

void RunTrace::put_together(const std::string& name) {
  rank_.actor().trace(nullptr);
  const fs::path named = name;
  const fs::path path = named.has_parent_path() ? named : run_ / named;
  std::optional<NamedFile> file;
  if (rank_.rank() == 0) {
    file.emplace(path);
    file->write(chrome_trace_head(rank_.plan().schedule.name));
  }
  const std::vector<std::uint64_t> sizes = sizes_of_parts();
  for (std::uint32_t rank = 0; rank < sizes.size(); ++rank) {
    std::optional<PartReader> mine;
    if (rank == rank_.rank()) mine.emplace(path_);
    for (std::uint64_t done = 0; done < sizes[rank]; done += piece_bytes) {
      const std::uint64_t bytes = std::min(piece_bytes, sizes[rank] - done);
      const auto pieces = rank_.gather_text(mine ? mine->next(bytes) : "");
      if (!file) continue;
      std::string_view piece = pieces[rank];
      if (done == 0) {
        if (rank > 0) file->write(",");
        piece.remove_prefix(1);  // the array's bracket
      }
      file->write(piece);
    }
  }
  std::error_code error;
  if (file) {
    file->write(chrome_trace_tail());
    file->finish();
  }
  (void)rank_.broadcast_text("");  // the file is whole
  fs::remove(path_, error);
  (void)rank_.gather_text("");
  if (!file) return;
  fs::remove(path_.parent_path(), error);
  log::info("trace written to " + path.string());
}

void RunTrace::tell_of_parts() const {
  log::warning(fmt::format("the trace so far lies in {}: weft plan --against takes the folder",
                           path_.parent_path().string()));
}

}  // namespace weft
