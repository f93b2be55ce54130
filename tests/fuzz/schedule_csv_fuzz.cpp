// libFuzzer target: any bytes given as a schedule file end in a checked schedule that plays, or in a
// ScheduleError.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "weft/base/error.h"
#include "weft/scheduling/orders/check.h"
#include "weft/scheduling/simulation/simulator.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::Schedule schedule;
  try {
    schedule = weft::check_order(
        weft::read_order(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.csv"));
  } catch (const weft::ScheduleError&) {
    return 0;
  }
  // what the checker accepts must play to its end, and must be read back as it is written
  (void)weft::simulate(schedule, {});
  if (weft::read_order(weft::to_csv(schedule.order), "again.csv").order != schedule.order) std::abort();
  return 0;
}
