#include "cli/plan/draw_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

constexpr int rows = 14;
constexpr int widest = 72;

// Colours that can be distinguished by people who cannot distinguish red from green.
constexpr Colour palette[] = {{230, 159, 0}, {86, 180, 233}, {0, 158, 115},   {240, 228, 66},
                              {0, 114, 178}, {213, 94, 0},   {204, 121, 167}, {150, 150, 150}};

/// The next larger of 1, 2, 5 times a power of ten.
double round_up(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double step : {1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0}) {
    if (step * power >= value) return step * power;
  }
  return 10.0 * power;
}

double largest(const std::vector<Series>& series) {
  double most = 0.0;
  for (const auto& each : series) {
    for (const double y : each.y) {
      if (std::isfinite(y)) most = std::max(most, y);
    }
  }
  return most;
}

std::string coloured(std::size_t series, char letter) {
  const std::string colour = foreground(palette[series % std::size(palette)]);
  return colour + letter + (colour.empty() ? "" : reset_colour());
}

/// The position of `value` in [low, high] on a scale of `places`.
int place(double value, double low, double high, int places) {
  if (!(high > low)) return 0;
  return static_cast<int>(std::lround((value - low) / (high - low) * (places - 1)));
}

std::string x_axis(const std::vector<double>& x, std::size_t margin, int width) {
  std::string line(margin + static_cast<std::size_t>(width) + 8, ' ');
  const auto put = [&](int column, const std::string& text) {
    line.replace(margin + static_cast<std::size_t>(column), text.size(), text);
  };
  const std::string last = fmt::format("{:.0f}", x.back()), first = fmt::format("{:.0f}", x.front());
  put(0, first);
  if (width > 24) put(width / 2, fmt::format("{:.0f}", (x.front() + x.back()) / 2));
  put(std::max<int>(width - static_cast<int>(last.size()), static_cast<int>(first.size()) + 1), last);
  while (line.ends_with(' ')) line.pop_back();
  return line + "\n";
}

}  // namespace

std::string draw_chart(const std::vector<double>& x, const std::vector<Series>& series, int columns) {
  const double most = largest(series);
  if (x.empty() || most <= 0.0) return {};
  const double top = round_up(most);
  const std::string top_label = fmt::format("{:g}", top);
  const std::size_t margin = top_label.size();
  const int width = std::clamp(columns - static_cast<int>(margin) - 4, 8, widest);
  constexpr std::size_t nobody = static_cast<std::size_t>(-1);
  std::vector<std::vector<std::size_t>> shown(rows, std::vector<std::size_t>(static_cast<std::size_t>(width), nobody));
  for (std::size_t k = 0; k < series.size(); ++k) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!std::isfinite(series[k].y[i])) continue;
      const int row = rows - 1 - place(series[k].y[i], 0.0, top, rows);
      auto& cell =
          shown[static_cast<std::size_t>(row)][static_cast<std::size_t>(place(x[i], x.front(), x.back(), width))];
      if (cell == nobody) cell = k;
    }
  }
  std::string picture;
  for (int row = 0; row < rows; ++row) {
    picture += (row == 0 ? top_label : std::string(margin, ' ')) + (row == 0 ? " ┤" : " │");
    std::string line;
    for (const std::size_t k : shown[static_cast<std::size_t>(row)]) {
      line += k == nobody ? " " : coloured(k, series[k].letter);
    }
    while (line.ends_with(' ')) line.pop_back();
    picture += line + "\n";
  }
  picture += pad_left("0", margin) + " ┼" + repeat("─", static_cast<std::size_t>(width)) + "\n";
  picture += x_axis(x, margin + 2, width);
  std::string legend(margin + 2, ' ');
  for (std::size_t k = 0; k < series.size(); ++k) {
    legend += (k == 0 ? "" : "   ") + coloured(k, series[k].letter) + " " + series[k].name;
  }
  return picture + legend + "\n";
}

}  // namespace smelt::cli
