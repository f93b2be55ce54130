#include "weft/scheduling/simulation/trace.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

TEST(Trace, every_kind_of_event_survives_the_chrome_format_to_the_nanosecond) {
  const std::vector<TraceEvent> events{
      {1'234'567'890'123'456,
       1'234'567'890'123'957,
       {7, 3, OpKind::forward, true},
       1,
       1,
       TraceKind::executed,
       Phase::train},
      {1, 2, {0, 65535, OpKind::backward, false}, 0, 4'000'000'000u, TraceKind::executed, Phase::evaluate},
      {5, 9, {4'294'967'295u, 2, OpKind::backward_weight, false}, 4095, 2, TraceKind::held, Phase::train},
      {5, 9, {1, 2, OpKind::backward_input, false}, 2, 2, TraceKind::waiting, Phase::train},
      {5, 5, {1, 2, OpKind::backward_input, false}, 2, 2, TraceKind::arrived, Phase::train},
      {6, 6, {1, 2, OpKind::backward, false}, 2, 2, TraceKind::input_done, Phase::train},
      {-10, 9, {}, 2, 2, TraceKind::update, Phase::train}};
  EXPECT_EQ(from_chrome_trace(to_chrome_trace(events, "a \"title\" \xff")), events);
}

TEST(Trace, events_of_other_programs_are_passed_over) {
  EXPECT_TRUE(from_chrome_trace(R"([{"ph":"X","name":"x","ts":1}, 3, {"cat":"gpu"}])").empty());
}

TEST(Trace, junk_is_a_schedule_error) {
  for (const char* text :
       {"", "{", "3", "{}", "{\"traceEvents\":3x}", "\xff\xfe", R"([{"cat":"weft"}])",
        R"([{"cat":"weft","ts":1,"pid":-1,"args":{"kind":"update","step":1,"phase":"train"}}])",
        R"([{"cat":"weft","ts":1e300,"pid":1,"args":{"kind":"update","step":1,"phase":"train"}}])",
        R"([{"cat":3}])", R"([{"cat":"weft","ts":1,"pid":0,"args":{"kind":"sleeping"}}])"})
    EXPECT_THROW((void)from_chrome_trace(text), ScheduleError) << text;
}

}  // namespace
}  // namespace weft
