#include "weft/launch/checkpoint_command.h"

#include <cstdio>

#include "weft/launch/flag_names.h"
#include "weft/training/checkpoint/checkpoint_text.h"
#include "weft/training/checkpoint/convert.h"

namespace weft {
namespace {

void print(const CheckpointReport& report) {
  for (const std::string& line : report.skipped) std::fprintf(stderr, "weft: %s\n", line.c_str());
  std::fwrite(report.text.data(), 1, report.text.size(), stdout);
}

}  // namespace

int examine_checkpoint(const CheckpointArguments& arguments) {
  const std::size_t expected = arguments.action == "diff" ? 2 : 1;
  if (arguments.paths.size() != expected)
    throw UsageError("checkpoint " + arguments.action + " takes " +
                     (expected == 2 ? "two paths" : "one path"));
  if (arguments.action == "list") {
    const CheckpointListing listing = list_report(arguments.paths[0]);
    print({listing.text, {}});
    return listing.damaged ? 1 : 0;
  }
  if (arguments.action == "verify") print(verify_report(arguments.paths[0]));
  if (arguments.action == "hash") print(hash_report(arguments.paths[0]));
  if (arguments.action != "diff") return 0;
  const CheckpointDiff diff = diff_report(arguments.paths[0], arguments.paths[1]);
  print(diff.report);
  return diff.equal ? 0 : 1;
}

void convert_weights(const ConvertArguments& arguments) {
  print(arguments.direction == "hf-to-weft" ? convert_hf_to_weft(arguments.source, arguments.target)
                                            : convert_weft_to_hf(arguments.source, arguments.target));
}

}  // namespace weft
