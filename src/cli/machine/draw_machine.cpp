// The heat map shows cell (row i, column j) = what one message i -> j costs, on a logarithmic
// scale, PUs in hardware order, so that what is close together is a dark square:
//
//                 package 0    package 1        few PUs: numbers on coloured cells
//     package 0   ▒▒▒░░░░░     ███████          many: two rows per line (▀), then blocks of PUs
//     package 1   ███████      ▒▒▒░░░░          averaged into one pixel
#include "cli/machine/draw_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

constexpr std::size_t label_columns = 7;
const double no_cost = std::numeric_limits<double>::quiet_NaN();

const Pu& pu_at(const Machine& machine, int index) { return machine.pus[static_cast<std::size_t>(index)]; }

std::size_t count_distinct(const Machine& machine, int Pu::*level) {
  std::set<int> ids;
  for (const auto& pu : machine.pus) ids.insert(pu.*level);
  return ids.size();
}

double median_of(std::vector<float>& values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return static_cast<double>(*middle);
}

// One pixel of the map: the average over a block of PUs; NaN if the block has no pair.
Matrix pixels_of(const Machine& machine, const std::vector<int>& order, std::size_t block) {
  const std::size_t side = (order.size() + block - 1) / block;
  Matrix sum(side), count(side);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = 0; j < order.size(); ++j) {
      if (i == j) continue;
      sum(i / block, j / block) += message_ns(machine, order[i], order[j]);
      count(i / block, j / block) += 1;
    }
  }
  for (std::size_t i = 0; i < side; ++i) {
    for (std::size_t j = 0; j < side; ++j) sum(i, j) = count(i, j) > 0 ? sum(i, j) / count(i, j) : no_cost;
  }
  return sum;
}

// The smallest block that fits. A slightly larger one is taken if it is a multiple or a divisor of an L3 group, so that
// no pixel mixes near and far.
std::size_t block_size(const Machine& machine, std::size_t room) {
  const std::size_t least = (machine.size() + room - 1) / room;
  const std::size_t shared = machine.size() / std::max<std::size_t>(1, count_distinct(machine, &Pu::l3));
  for (std::size_t block = least; block <= 2 * least; ++block) {
    if (shared > 0 && (shared % block == 0 || block % shared == 0)) return block;
  }
  return least;
}

struct Scale {
  double low, high;  // logarithms
  double heat(double cost) const { return high > low ? (std::log(std::max(cost, 1e-9)) - low) / (high - low) : 0.0; }
};

Scale scale_of(const Matrix& pixels) {
  double low = std::numeric_limits<double>::infinity(), high = 0.0;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    for (std::size_t j = 0; j < pixels.size(); ++j) {
      if (std::isnan(pixels(i, j))) continue;
      low = std::min(low, pixels(i, j));
      high = std::max(high, pixels(i, j));
    }
  }
  return {std::log(std::max(low, 1e-9)), std::log(std::max(high, 1e-9))};
}

const char* shade(double heat) {
  static constexpr const char* shades[] = {"·", "░", "▒", "▓", "█"};
  return shades[std::clamp(static_cast<int>(heat * 5), 0, 4)];
}

// The coarsest level with several units. Rows and columns are labelled with it.
struct Grouping {
  int Pu::*level = nullptr;
  std::string name;
};

Grouping grouping_of(const Machine& machine) {
  const std::pair<int Pu::*, const char*> levels[] = {
      {&Pu::package, "package"}, {&Pu::numa_node, "node"}, {&Pu::l3, "L3"}};
  for (const auto& [level, name] : levels) {
    const auto groups = count_distinct(machine, level);
    if (groups > 1 && groups < machine.size()) return {level, name};
  }
  return {};
}

std::string column_labels(const Machine& machine, const std::vector<int>& order, std::size_t block, std::size_t cell) {
  const auto grouping = grouping_of(machine);
  if (grouping.level == nullptr) return {};
  std::string line(label_columns, ' ');
  const std::size_t side = (order.size() + block - 1) / block;
  for (std::size_t begin = 0; begin < side;) {
    const int id = pu_at(machine, order[begin * block]).*grouping.level;
    std::size_t end = begin + 1;
    while (end < side && pu_at(machine, order[end * block]).*grouping.level == id) ++end;
    const std::size_t width = (end - begin) * cell;
    std::string text = fmt::format("{} {}", grouping.name, id);
    if (text.size() + 2 > width) text = fmt::format("{}", id);
    if (text.size() + 2 > width) text.clear();
    const std::size_t left = width < 2 ? 0 : (width - 2 - std::min(width - 2, text.size())) / 2;
    const std::size_t right = width < 2 ? 0 : width - 2 - left - text.size();
    line += width < 2 ? repeat(" ", width) : "├" + repeat("─", left) + text + repeat("─", right) + "┤";
    begin = end;
  }
  return styled(Style::faint, line) + "\n";
}

std::string row_label(const Machine& machine, const std::vector<int>& order, std::size_t position) {
  const std::string text = fmt::format("PU {}", pu_at(machine, order[position]).os_index);
  return styled(Style::faint, pad_left(text, label_columns - 1)) + " ";
}

std::string colour_line(const Matrix& pixels, const Scale& scale, std::size_t row) {
  std::string line;
  for (std::size_t j = 0; j < pixels.size(); ++j) {
    const double upper = pixels(row, j);
    const double lower = row + 1 < pixels.size() ? pixels(row + 1, j) : no_cost;
    if (std::isnan(upper) && std::isnan(lower)) {
      line += " ";
    } else if (std::isnan(upper)) {
      line += foreground(heat_colour(scale.heat(lower))) + "▄" + reset_colour();
    } else if (std::isnan(lower)) {
      line += foreground(heat_colour(scale.heat(upper))) + "▀" + reset_colour();
    } else {
      line += foreground(heat_colour(scale.heat(upper))) + background(heat_colour(scale.heat(lower))) + "▀" +
              reset_colour();
    }
  }
  return line;
}

std::string shade_line(const Matrix& pixels, const Scale& scale, std::size_t row) {
  std::string line;
  for (std::size_t j = 0; j < pixels.size(); ++j) {
    line += std::isnan(pixels(row, j)) ? "  " : repeat(shade(scale.heat(pixels(row, j))), 2);
  }
  return line;
}

std::string number_line(const Matrix& pixels, const Scale& scale, std::size_t row, std::size_t cell) {
  std::string line;
  for (std::size_t j = 0; j < pixels.size(); ++j) {
    if (std::isnan(pixels(row, j))) {
      line += pad_left("·", cell - 1) + " ";
      continue;
    }
    const double heat = scale.heat(pixels(row, j));
    const std::string number = pad_left(fmt::format("{:.0f}", pixels(row, j)), cell - 1) + " ";
    if (!screen().colour) {
      line += number;
    } else {
      line += background(heat_colour(heat)) + (heat > 0.55 ? "\x1b[30m" : "\x1b[97m") + number + reset_colour();
    }
  }
  return line;
}

std::string legend(const Scale& scale) {
  const auto text = [](double logarithm) { return format_time(std::exp(logarithm)); };
  constexpr int cells = 24;
  std::string gradient;
  for (int i = 0; i < cells; ++i) {
    const double heat = (i + 0.5) / cells;
    gradient += screen().colour ? foreground(heat_colour(heat)) + "█" : shade(heat);
  }
  return fmt::format("{}{} {}{} {}   {}\n", std::string(label_columns, ' '), text(scale.low), gradient, reset_colour(),
                     text(scale.high), styled(Style::faint, "row sends to column, logarithmic scale"));
}

const char* class_name(PairClass kind) {
  switch (kind) {
    case PairClass::core: return "SMT siblings";
    case PairClass::l2: return "same L2";
    case PairClass::l3: return "same L3";
    case PairClass::numa_node: return "same NUMA node";
    case PairClass::package: return "same package";
    case PairClass::machine: return "remote package";
  }
  return "?";
}

// Levels below the machine that carry information: those with several units.
struct Level {
  int Pu::*id;
  std::string name;
};

std::vector<Level> visible_levels(const Machine& machine) {
  std::vector<Level> levels = {{&Pu::package, "package"}};
  const auto nodes = count_distinct(machine, &Pu::numa_node);
  if (nodes > 1 || !machine.numa_nodes.empty()) levels.push_back({&Pu::numa_node, "NUMA node"});
  const auto caches = count_distinct(machine, &Pu::l3), cores = count_distinct(machine, &Pu::core);
  if (caches < cores || cores == 1) levels.push_back({&Pu::l3, "L3"});
  const auto l2s = count_distinct(machine, &Pu::l2);
  if (l2s < cores && l2s > caches) levels.push_back({&Pu::l2, "L2"});
  return levels;
}

std::string describe_pus(const Machine& machine, const std::vector<int>& members) {
  std::set<int> cores, classes;
  std::vector<int> numbers;
  for (const int member : members) {
    const Pu& pu = pu_at(machine, member);
    cores.insert(pu.core);
    classes.insert(pu.efficiency_class);
    numbers.push_back(pu.os_index);
  }
  const auto ways = members.size() / std::max<std::size_t>(1, cores.size());
  std::string text = fmt::format("{} core{}", cores.size(), cores.size() == 1 ? "" : "s");
  if (ways > 1) text += fmt::format(" × {} PUs", ways);
  if (classes.size() > 1) text += ", of different speed";
  return text + "  " + styled(Style::accent, "PU " + index_ranges(numbers));
}

class HardwareDrawing {
 public:
  explicit HardwareDrawing(const Machine& machine) : machine_(machine), levels_(visible_levels(machine)) {}

  std::string text(std::size_t most_lines) {
    const auto order = hardware_order(machine_);
    // A machine with many caches is drawn down to the level that still fits.
    while (levels_.size() > 1 && lines(levels_.size()) > most_lines) levels_.pop_back();
    descend(order, 0, "  ");
    return std::move(text_);
  }

 private:
  std::size_t lines(std::size_t depth) const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < depth; ++i) sum += count_distinct(machine_, levels_[i].id);
    return sum;
  }

  void descend(const std::vector<int>& members, std::size_t depth, const std::string& prefix) {
    std::vector<std::pair<int, std::vector<int>>> groups;
    for (const int member : members) {
      const int id = pu_at(machine_, member).*levels_[depth].id;
      if (groups.empty() || groups.back().first != id) groups.push_back({id, {}});
      groups.back().second.push_back(member);
    }
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const bool last = i + 1 == groups.size();
      const bool leaf = depth + 1 == levels_.size();
      text_ += styled(Style::faint, prefix + (last ? "└─ " : "├─ ")) + name(depth, groups[i].first);
      text_ += leaf ? "  " + describe_pus(machine_, groups[i].second) + "\n" : "\n";
      if (!leaf) descend(groups[i].second, depth + 1, prefix + (last ? "   " : "│  "));
    }
  }

  std::string name(std::size_t depth, int id) const {
    std::string text = styled(Style::strong, fmt::format("{} {}", levels_[depth].name, id));
    const auto index = static_cast<std::size_t>(id);
    if (levels_[depth].id == &Pu::numa_node && index < machine_.numa_nodes.size()) {
      const auto bytes = machine_.numa_nodes[index].memory_bytes;
      if (bytes > 0) text += "  " + format_bytes(static_cast<double>(bytes));
    }
    return text;
  }

  const Machine& machine_;
  std::vector<Level> levels_;
  std::string text_;
};

}  // namespace

std::vector<int> hardware_order(const Machine& machine) {
  std::vector<int> order(machine.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const auto key = [&](int index) {
      const Pu& pu = pu_at(machine, index);
      return std::tuple(pu.package, pu.numa_node, pu.l3, pu.l2, pu.core, pu.os_index);
    };
    return key(a) < key(b);
  });
  return order;
}

double message_ns(const Machine& machine, int sender, int receiver) {
  const auto i = static_cast<std::size_t>(sender), j = static_cast<std::size_t>(receiver);
  const double way = machine.propagation_ns ? (*machine.propagation_ns)(i, j) : 0.0;
  return machine.send_ns(i, j) + way + machine.recv_ns(i, j);
}

PairClass pair_class(const Machine& machine, int a, int b) {
  const Pu &x = pu_at(machine, a), &y = pu_at(machine, b);
  if (x.core == y.core) return PairClass::core;
  if (x.package != y.package) return PairClass::machine;
  if (x.numa_node != y.numa_node) return PairClass::package;
  if (x.l3 != y.l3) return PairClass::numa_node;
  return x.l2 == y.l2 ? PairClass::l2 : PairClass::l3;
}

namespace {

/// The number of ordered pairs of PUs for each class of the closest common unit, computed from the sizes of the units.
std::map<PairClass, std::size_t> pairs_by_class(const Machine& machine, bool know_l2) {
  std::array<std::map<std::array<int, 5>, std::size_t>, 5> sizes;
  for (const Pu& pu : machine.pus) {
    const std::array<int, 5> path{pu.package, pu.numa_node, pu.l3, know_l2 ? pu.l2 : pu.core, pu.core};
    for (std::size_t depth = 0; depth < path.size(); ++depth) {
      auto prefix = path;
      std::fill(prefix.begin() + static_cast<std::ptrdiff_t>(depth) + 1, prefix.end(), -1);
      ++sizes[depth][prefix];
    }
  }
  constexpr PairClass classes[] = {PairClass::machine, PairClass::package, PairClass::numa_node,
                                   PairClass::l3,      PairClass::l2,      PairClass::core};
  std::map<PairClass, std::size_t> result;
  std::size_t around = machine.size() * machine.size();
  for (std::size_t depth = 0; depth <= sizes.size(); ++depth) {
    std::size_t within = depth == sizes.size() ? machine.size() : 0;
    if (depth < sizes.size()) {
      for (const auto& [path, members] : sizes[depth]) within += members * members;
    }
    if (around > within) result[classes[depth]] = around - within;
    around = within;
  }
  return result;
}

}  // namespace

std::vector<ClassCosts> cost_classes(const Machine& machine) {
  constexpr int most_senders = 512;  // whose messages are looked at
  // If every core of an L3 has the same L2 number, the file does not contain the L2.
  const auto cores = count_distinct(machine, &Pu::core), l2s = count_distinct(machine, &Pu::l2);
  const bool know_l2 = l2s > count_distinct(machine, &Pu::l3) && l2s < cores;
  const int n = static_cast<int>(machine.size());
  const int step = (n + most_senders - 1) / most_senders;
  const auto class_of = [&](int i, int j) {
    const auto kind = pair_class(machine, i, j);
    return kind == PairClass::l2 && !know_l2 ? PairClass::l3 : kind;
  };
  std::vector<double> row(machine.size());
  const auto collect = [&](std::initializer_list<const Matrix*> sum) {
    std::map<PairClass, std::vector<float>> values;
    for (int i = 0; i < n; i += step) {
      std::vector<double> costs(machine.size(), 0.0);
      for (const Matrix* matrix : sum) {
        if (matrix == nullptr) continue;
        matrix->copy_row(static_cast<std::size_t>(i), row.data());
        for (std::size_t j = 0; j < row.size(); ++j) costs[j] += row[j];
      }
      for (int j = 0; j < n; ++j) {
        if (i != j) values[class_of(i, j)].push_back(static_cast<float>(costs[static_cast<std::size_t>(j)]));
      }
    }
    return values;
  };
  const auto pairs = pairs_by_class(machine, know_l2);
  std::vector<ClassCosts> classes;
  const Matrix* way = machine.propagation_ns ? &*machine.propagation_ns : nullptr;
  for (auto& [kind, values] : collect({&machine.send_ns, way, &machine.recv_ns})) {
    ClassCosts costs{kind, class_name(kind)};
    costs.pairs = step == 1 ? values.size() : pairs.at(kind);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    costs.min_ns = static_cast<double>(*low);
    costs.max_ns = static_cast<double>(*high);
    costs.median_ns = median_of(values);
    classes.push_back(costs);
  }
  const auto fill = [&](double ClassCosts::*field, const Matrix& matrix) {
    auto values = collect({&matrix});
    for (auto& costs : classes) costs.*field = median_of(values[costs.kind]);
  };
  fill(&ClassCosts::send_ns, machine.send_ns);
  fill(&ClassCosts::recv_ns, machine.recv_ns);
  if (machine.rtt_ns) fill(&ClassCosts::rtt_ns, *machine.rtt_ns);
  if (machine.recv_spread) fill(&ClassCosts::spread, *machine.recv_spread);
  return classes;
}

std::string draw_hardware(const Machine& machine, bool all) {
  constexpr std::size_t few_lines = 18, many_lines = 48;
  if (machine.pus.empty()) return "";
  const bool large = machine.size() > most_pus_in_full && !all;
  const std::string text = HardwareDrawing(machine).text(large ? few_lines : many_lines);
  return large ? first_lines(text, few_lines) : text;
}

std::string draw_heat_map(const Machine& machine, int columns) {
  const auto order = hardware_order(machine);
  const std::size_t n = order.size(), width = static_cast<std::size_t>(columns) - label_columns;
  if (n < 2) return {};
  std::string text;
  const Matrix exact = n <= 20 ? pixels_of(machine, order, 1) : Matrix();
  const auto digits = exact.empty() ? 0 : fmt::format("{:.0f}", std::exp(scale_of(exact).high)).size();
  const std::size_t cell = std::max<std::size_t>(5, digits + 2);
  if (!exact.empty() && n * cell <= width) {
    const Scale scale = scale_of(exact);
    text += column_labels(machine, order, 1, cell);
    for (std::size_t row = 0; row < n; ++row) {
      text += row_label(machine, order, row) + number_line(exact, scale, row, cell) + "\n";
    }
    return text + legend(scale);
  }
  const bool colour = screen().colour;
  const std::size_t cell_columns = colour ? 1 : 2;
  const std::size_t block = block_size(machine, std::min<std::size_t>(width / cell_columns, colour ? 96 : 48));
  const Matrix pixels = pixels_of(machine, order, block);
  const Scale scale = scale_of(pixels);
  text += column_labels(machine, order, block, cell_columns);
  for (std::size_t row = 0; row < pixels.size(); row += colour ? 2 : 1) {
    const bool labelled = row % (colour ? 8 : 4) == 0;
    text += labelled ? row_label(machine, order, row * block) : std::string(label_columns, ' ');
    text += (colour ? colour_line(pixels, scale, row) : shade_line(pixels, scale, row)) + "\n";
  }
  text += legend(scale);
  if (block > 1) {
    text += styled(Style::faint, fmt::format("{}one point is the average over {} × {} PUs\n",
                                             std::string(label_columns, ' '), block, block));
  }
  return text;
}

std::string draw_cost_classes(const Machine& machine) {
  const bool rtt = machine.rtt_ns.has_value(), spread = machine.recv_spread.has_value();
  Table table("lrrrrrr" + std::string(rtt ? "r" : "") + (spread ? "r" : ""));
  std::vector<std::string> names = {"", "pairs", "min", "median", "max", "send", "recv"};
  if (rtt) names.push_back("round trip");
  if (spread) names.push_back("spread");
  table.header(names);
  for (const auto& costs : cost_classes(machine)) {
    const auto number = [](double ns) { return fmt::format("{:.1f}", ns); };
    std::vector<Table::Cell> cells = {costs.name,           fmt::format("{}", costs.pairs),
                                      number(costs.min_ns), {number(costs.median_ns), Style::strong},
                                      number(costs.max_ns), number(costs.send_ns),
                                      number(costs.recv_ns)};
    if (rtt) cells.emplace_back(number(costs.rtt_ns));
    if (spread) cells.emplace_back(fmt::format("{:.1f} %", costs.spread * 100));
    table.row(std::move(cells));
  }
  return table.text();
}

std::string draw_burst(const std::vector<double>& burst) {
  if (burst.empty()) return {};
  static constexpr const char* levels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double high = *std::max_element(burst.begin(), burst.end());
  std::string line;
  for (const double cost : burst) line += levels[high > 0 ? std::clamp(static_cast<int>(cost / high * 8), 0, 7) : 0];
  std::string numbers;
  for (std::size_t k = 0; k < std::min<std::size_t>(burst.size(), 12); ++k) numbers += fmt::format(" {:.0f}", burst[k]);
  return fmt::format("  {} {}{} ns\n", styled(Style::accent, line), numbers, burst.size() > 12 ? " ..." : "");
}

namespace {

// Median over a class of the rate in GB/s that copies of so many bytes reach; bytes/ns = GB/s.
std::string copy_rate(const Machine& machine, const std::vector<std::pair<int, int>>& pairs, double bytes) {
  std::vector<float> rates;
  for (const auto& [from, to] : pairs) {
    const double ns = copy_ns(machine, static_cast<std::size_t>(from), static_cast<std::size_t>(to), bytes);
    rates.push_back(static_cast<float>(ns > 0 ? bytes / ns : 0.0));
  }
  return fmt::format("{:.1f}", median_of(rates));
}

Table copy_table(const Machine& machine, const std::vector<double>& sizes) {
  Table table("lr" + std::string(sizes.size(), 'r'));
  std::vector<std::string> names = {"GB/s", "start"};
  for (const double size : sizes) names.push_back(format_bytes(size));
  table.header(names);
  const auto cells = [&](const std::string& name, const std::vector<std::pair<int, int>>& pairs) {
    std::vector<float> starts;
    for (const auto& [from, to] : pairs) {
      const auto i = static_cast<std::size_t>(from), j = static_cast<std::size_t>(to);
      starts.push_back(static_cast<float>(machine.copy->startup_ns(i, j)));
    }
    std::vector<Table::Cell> row = {name, fmt::format("{:.0f} ns", median_of(starts))};
    for (const double size : sizes) row.emplace_back(copy_rate(machine, pairs, size));
    return row;
  };
  constexpr int most_writers = 128;  // whose data is looked at
  const int n = static_cast<int>(machine.size());
  std::map<PairClass, std::vector<std::pair<int, int>>> classes;
  std::vector<std::pair<int, int>> own;
  for (int from = 0; from < n; from += (n + most_writers - 1) / most_writers) {
    own.push_back({from, from});
    for (int to = 0; to < n; ++to) {
      if (from != to) classes[pair_class(machine, from, to)].push_back({from, to});
    }
  }
  table.row(cells("own data", own));
  for (const auto& [kind, pairs] : classes) table.row(cells(class_name(kind), pairs));
  return table;
}

Table contention_table(const Machine& machine, const std::vector<double>& sizes) {
  const auto& copy = *machine.copy;
  Table table("l" + std::string(sizes.size(), 'r'));
  std::vector<std::string> names = {"times slower"};
  for (const double size : sizes) names.push_back(format_bytes(size));
  table.header(names);
  for (std::size_t level = 1; level < copy.cached_contention.size(); ++level) {
    const auto copiers = std::min(std::size_t{1} << level, machine.size());
    std::vector<Table::Cell> row = {fmt::format("{} PUs copy", copiers)};
    for (const auto* slowdowns : {&copy.cached_contention, &copy.shared_contention, &copy.memory_contention}) {
      row.emplace_back(fmt::format("{:.2f}", (*slowdowns)[level]));
    }
    table.row(std::move(row));
  }
  return table;
}

}  // namespace

std::string draw_copies(const Machine& machine) {
  if (!machine.copy || machine.size() == 0) return {};
  const auto& copy = *machine.copy;
  std::string text =
      copy_table(machine, {copy.chunk_bytes, copy.cached_bytes, copy.shared_bytes, copy.memory_bytes}).text();
  if (machine.size() > 1) {
    text += contention_table(machine, {copy.cached_bytes, copy.shared_bytes, copy.memory_bytes}).text();
  }
  text += copy.process ? fmt::format("  out of another process: {:.0f} ns per call and {:.0f} ns per KiB more\n",
                                     copy.process->call_ns, copy.process->ns_per_kib)
                       : std::string("  out of another process: not permitted\n");
  return text + fmt::format("  adding doubles in the own cache: {:.1f} GB/s\n",
                            copy.add_ns_per_kib > 0 ? 1024.0 / copy.add_ns_per_kib : 0.0);
}

}  // namespace smelt::cli
