// A line chart made of text.
//
//   1200 ┤                    ss
//        │             ssssss
//        │      sssssss         cc
//        │sssss ccccccccccccccc
//      0 ┼──────────────────────────
//         2         64          128
#pragma once

#include <string>
#include <vector>

namespace smelt::cli {

struct Series {
  std::string name;
  char letter = '*';        ///< its points
  std::vector<double> y{};  ///< one for each x; not a number: no point there
};

/// `x`: ascending. `columns`: the largest width. If several points fall on one place, the first series' point is shown.
std::string draw_chart(const std::vector<double>& x, const std::vector<Series>& series, int columns);

}  // namespace smelt::cli
