#pragma once
// The golden orders and tables of tests/data/schedules.
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "../support/paths.h"
#include "weft/scheduling/orders/order_text.h"

namespace weft::golden {

inline std::string path(const std::string& file) { return weft::test::data_dir() + "/schedules/" + file; }

/// The fields of a line; quotes hold commas together.
inline std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> result(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      result.emplace_back();
    else if (c != '\r')
      result.back() += c;
  }
  return result;
}

/// A table with a header line: each row by the names of its columns.
inline std::vector<std::map<std::string, std::string>> table(const std::string& file) {
  std::ifstream in(path(file));
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> names = fields(line);
  std::vector<std::map<std::string, std::string>> rows;
  while (std::getline(in, line)) {
    const std::vector<std::string> values = fields(line);
    for (std::size_t i = 0; i < names.size(); ++i)
      (i == 0 ? rows.emplace_back() : rows.back())[names[i]] = values.at(i);
  }
  return rows;
}

/// The golden files' names of schedules.
inline std::string schedule_of(const std::string& golden_name) {
  if (golden_name.starts_with("loopedbfs")) return "looped_bfs";
  if (golden_name.starts_with("interleaved1f1b")) return "interleaved_1f1b";
  for (const char* name : {"gpipe", "1f1b", "zb1p", "zbh1", "zbh2", "zbv", "dualpipev"})
    if (golden_name.starts_with(name)) return name;
  return golden_name;
}

struct Case {
  std::string schedule;
  std::uint32_t p = 0, v = 0, m = 0;
  Order order;
};

inline std::uint32_t number(const std::string& text) { return static_cast<std::uint32_t>(std::stoul(text)); }

/// Every order file of metrics.csv and every case of orders_more.csv.
inline const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> result;
    for (auto& row : table("metrics.csv"))
      result.push_back({schedule_of(row["file"]), number(row["p"]), number(row["v"]), number(row["m"]),
                        read_order_file(path(row["file"])).order});
    for (auto& row : table("orders_more.csv")) {
      std::string text = row["order"];
      for (char& c : text)
        if (c == ' ') c = ',';
      const std::uint32_t rank = number(row["rank"]);
      if (rank == 0)
        result.push_back(
            {schedule_of(row["schedule"]), number(row["p"]), number(row["v"]), number(row["m"]), {}});
      result.back().order.push_back(read_order(text, "orders_more.csv").order.at(0));
    }
    return result;
  }();
  return all;
}

}  // namespace weft::golden
