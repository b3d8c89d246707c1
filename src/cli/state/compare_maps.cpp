// smelt compare --maps: the predicted throughput of every map, by cores and share of lookups; also the published
// figures.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cli/arguments.hpp"
#include "cli/plan/draw_chart.hpp"
#include "cli/state/maps.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

constexpr int most_points = 64;
constexpr int most_rows = 8;
constexpr double no_point = std::numeric_limits<double>::quiet_NaN();

enum class Axis { cores, servers, colocation };

/// One diagram.
struct Panel {
  std::string name, title;
  MapPlatform platform;
  MapLoad load;
  Axis axis = Axis::cores;
  int most_cores = 128;
  std::vector<std::string> algorithms{};
};

struct Curve {
  std::string name;
  std::vector<std::optional<MapPrediction>> points{};  ///< one for each x; none where it cannot run
};

struct Drawing {
  std::vector<int> x{};
  std::vector<Curve> curves{};
  std::vector<MapRange> ranges{};  ///< on the most cores
};

char letter_of(const std::string& name) {
  static const std::pair<const char*, char> letters[] = {
      {"part_simple", 's'}, {"part_caching", 'c'}, {"rep_remote", 'r'}, {"rep_local", 'l'}, {"rep_2pc", '2'},
      {"rep_sc", 'q'},      {"shared", 'm'},       {"kv", 'k'},         {"colocated", 'o'}};
  for (const auto& [known, letter] : letters) {
    if (name == known) return letter;
  }
  return '*';
}

// ---- published figures ----------------------------------------------------------------------

struct Figure {
  const char* name;
  MapPlatform (*platform)();
  double lookups, hash, access;
  Axis axis = Axis::cores;
  int most_cores = 128;
  int hot_clients = 0;
  bool with_rep_sc = false;
};

const std::vector<Figure>& figures() {
  static const std::vector<Figure> all = {
      {"3.19a", tile_gx, 0.9, 156, 0, Axis::servers, 36},
      {"3.19b", tile_gx, 0.9, 156, 0, Axis::cores, 36},
      {"3.20a", tile_gx, 0.9, 12, 11},
      {"3.20b", intermediate_platform, 0.9, 12, 11},
      {"3.20c", ideal_platform, 0.9, 12, 11},
      {"3.20d", tile_gx, 0.99, 12, 11},
      {"3.20e", intermediate_platform, 0.99, 12, 11},
      {"3.20f", ideal_platform, 0.99, 12, 11},
      {"3.21a", ideal_platform, 0.99, 156, 11},
      {"3.21b", ideal_platform, 0.99, 156, 88},
      {"3.22a", tile_gx, 0.9, 12, 11, Axis::cores, 128, 4},
      {"3.22b", ideal_platform, 0.99, 12, 11, Axis::cores, 128, 4},
      {"3.23a", ideal_platform, 0.9, 12, 11, Axis::cores, 128, 0, true},
      {"3.23b", ideal_platform, 0.99, 12, 11, Axis::cores, 128, 0, true},
      {"3.24a", ideal_platform, 0.99, 12, 11, Axis::colocation},
      {"3.24b", ideal_platform, 0.99, 156, 11, Axis::colocation},
      {"3.24c", ideal_platform, 0.99, 156, 88, Axis::colocation},
  };
  return all;
}

Panel panel_of(const Figure& figure) {
  Panel panel;
  panel.name = figure.name;
  panel.platform = figure.platform();
  panel.load.lookups = figure.lookups;
  panel.load.hash = figure.hash;
  panel.load.access = figure.access;
  panel.load.hot_clients = figure.hot_clients;
  panel.load.hot_share = figure.hot_clients > 0 ? 0.8 : 0.0;
  panel.load.consistency = figure.with_rep_sc ? Consistency::sequential : Consistency::linearizable;
  panel.axis = figure.axis;
  panel.most_cores = figure.most_cores;
  panel.title = fmt::format("figure {}: {}, {} lookups, hash {} cycles, access {} cycles{}", figure.name,
                            panel.platform.name, format_share(figure.lookups), figure.hash, figure.access,
                            figure.hot_clients > 0 ? ", 4 clients issue 80 % on a key" : "");
  if (figure.axis != Axis::cores) {
    panel.algorithms = {"part_simple"};
    return panel;
  }
  panel.algorithms = {"part_simple", "part_caching", "rep_remote", "rep_local", "rep_2pc"};
  if (figure.with_rep_sc) panel.algorithms.push_back("rep_sc");
  return panel;
}

/// All figures whose name begins like this; "all" for all of them.
std::vector<Panel> panels_of_figure(const std::string& name) {
  std::vector<Panel> panels;
  std::vector<std::string> names = {"all"};
  for (const auto& figure : figures()) {
    names.push_back(figure.name);
    if (name == "all" || names.back() == name || names.back().substr(0, 4) == name) panels.push_back(panel_of(figure));
  }
  if (panels.empty()) fail_usage("--figure {}: no such figure (one of {}, or 3.20)", name, fmt::join(names, ", "));
  return panels;
}

// ---- the caller's load ----------------------------------------------------------------------

std::vector<double> shares_of(const std::string& text) {
  if (text.empty()) return {0.5, 0.9, 0.99};
  std::vector<double> shares;
  for (const auto& part : split_names(text)) shares.push_back(parse_number("--lookups", part, 0, 1));
  if (shares.empty()) fail_usage("--lookups '{}': empty; give shares such as 0.5,0.9,0.99", text);
  return shares;
}

std::vector<Panel> panels_of_load(const CompareMaps& arguments) {
  Panel panel;
  panel.load = load_of(arguments.map);
  if (arguments.map.platform.empty()) {
    const Machine machine = load_model(arguments.model);
    const Group group = select_group(machine, arguments.ranks);
    panel.platform = take(platform_of(machine, group));
    panel.most_cores = arguments.cores == 0 ? group.size() : arguments.cores;
  } else {
    if (!arguments.model.empty()) fail_usage("--platform {}: leave out --model", arguments.map.platform);
    if (!arguments.ranks.empty()) fail_usage("--platform {}: leave out --ranks; say --cores", arguments.map.platform);
    panel.platform = parse_platform("--platform", arguments.map.platform);
    panel.most_cores = arguments.cores == 0 ? 128 : arguments.cores;
  }
  for (const auto& each : take(rank_maps(panel.platform, panel.load, panel.most_cores))) {
    panel.algorithms.push_back(each.algorithm);
  }
  // The registry's order keeps letters and colours independent of the winner.
  std::vector<std::string> ordered;
  for (const auto& facts : map_algorithms()) {
    if (std::ranges::find(panel.algorithms, facts.name) != panel.algorithms.end()) ordered.push_back(facts.name);
  }
  panel.algorithms = ordered;
  std::vector<Panel> panels;
  for (const double share : shares_of(arguments.lookups)) {
    panel.load.lookups = share;
    panel.name = format_share(share);
    panel.title = fmt::format("{}, {} lookups of {:g} keys{}", panel.platform.name, panel.name, panel.load.keys,
                              panel.load.skew > 0.0 ? fmt::format(", skew {:g}", panel.load.skew) : "");
    panels.push_back(panel);
  }
  return panels;
}

// ---- computing ------------------------------------------------------------------------------

std::vector<int> axis_of(const Panel& panel) {
  const int first = panel.axis == Axis::servers || panel.most_cores < 2 ? 1 : 2;
  const int last = panel.axis == Axis::servers ? panel.most_cores - 1 : panel.most_cores;
  const int step = std::max(1, (last - first + most_points) / most_points);
  std::vector<int> x;
  for (int at = last; at >= first; at -= step) x.push_back(at);
  std::ranges::reverse(x);
  return x;
}

std::optional<MapPrediction> point(const Panel& panel, const std::string& algorithm, int x) {
  if (algorithm == "colocated") return take(colocated(panel.platform, panel.load, x));
  if (panel.axis == Axis::servers) {
    return take(predict_map(panel.platform, algorithm, panel.load, panel.most_cores, x));
  }
  if (x < 2 && find_map_algorithm(algorithm)->needs_servers) return std::nullopt;
  return take(predict_map(panel.platform, algorithm, panel.load, x));
}

Drawing draw(const Panel& panel) {
  Drawing drawing;
  drawing.x = axis_of(panel);
  auto names = panel.algorithms;
  if (panel.axis == Axis::colocation) names.push_back("colocated");
  for (const auto& name : names) {
    Curve curve{name};
    for (const int x : drawing.x) curve.points.push_back(point(panel, name, x));
    drawing.curves.push_back(std::move(curve));
  }
  if (panel.axis == Axis::cores) {
    const std::vector<std::string_view> among(panel.algorithms.begin(), panel.algorithms.end());
    drawing.ranges = take(best_ranges(panel.platform, panel.load, panel.most_cores, among));
  }
  return drawing;
}

// ---- output ---------------------------------------------------------------------------------

/// Powers of two, and the last number.
std::vector<std::size_t> told_points(const Drawing& drawing) {
  std::vector<std::size_t> points;
  for (std::size_t i = 0; i < drawing.x.size(); ++i) {
    const int x = drawing.x[i];
    const bool power = (x & (x - 1)) == 0;
    if (power || i + 1 == drawing.x.size()) points.push_back(i);
  }
  if (points.size() > most_rows) points.erase(points.begin(), points.end() - most_rows);
  return points;
}

double rate(const std::optional<MapPrediction>& point) { return point ? point->per_s / 1e6 : no_point; }

void print_table(const Panel& panel, const Drawing& drawing) {
  Table table("r" + std::string(drawing.curves.size(), 'r'));
  std::vector<std::string> header = {panel.axis == Axis::servers ? "servers" : "cores"};
  for (const auto& curve : drawing.curves) header.push_back(curve.name);
  table.header(header);
  for (const std::size_t i : told_points(drawing)) {
    double most = 0.0;
    for (const auto& curve : drawing.curves) most = std::fmax(most, rate(curve.points[i]));
    std::vector<Table::Cell> cells = {std::to_string(drawing.x[i])};
    for (const auto& curve : drawing.curves) {
      const auto& at = curve.points[i];
      if (!at) {
        cells.push_back({"-", Style::faint});
        continue;
      }
      const std::string servers =
          panel.axis != Axis::servers && at->servers > 0 ? fmt::format(" ({})", at->servers) : "";
      const bool best = rate(at) == most;
      cells.push_back({fmt::format("{:.4g}{}", rate(at), servers), best ? Style::good : Style::plain});
    }
    table.row(std::move(cells));
  }
  print("\n" + table.text());
}

void print_ranges(const Panel& panel, const Drawing& drawing) {
  if (drawing.ranges.empty()) return;
  std::string text = fmt::format("\n  The fastest on {} cores: {}", panel.most_cores, drawing.ranges.front().algorithm);
  for (std::size_t i = 1; i < drawing.ranges.size(); ++i) {
    text +=
        fmt::format(", {} from {} lookups", drawing.ranges[i].algorithm, format_share(drawing.ranges[i].from_lookups));
  }
  print(text + "\n");
}

void print_panel(const Panel& panel) {
  const Drawing drawing = draw(panel);
  print(fmt::format("{}\n{}\n", styled(Style::title, panel.title),
                    styled(Style::faint, panel.axis == Axis::servers
                                             ? fmt::format("Mops/s by number of servers, {} cores", panel.most_cores)
                                             : "Mops/s by number of cores, with the best number of servers")));
  std::vector<Series> series;
  for (const auto& curve : drawing.curves) {
    Series each{curve.name, letter_of(curve.name)};
    for (const auto& at : curve.points) each.y.push_back(rate(at));
    series.push_back(std::move(each));
  }
  print(draw_chart({drawing.x.begin(), drawing.x.end()}, series, screen().columns));
  print_table(panel, drawing);
  print_ranges(panel, drawing);
  print("\n");
  flush_output();
}

Json panel_document(const Panel& panel) {
  static constexpr const char* axes[] = {"cores", "servers", "cores"};
  const Drawing drawing = draw(panel);
  Json document = {{"name", panel.name},
                   {"title", panel.title},
                   {"platform", panel.platform.name},
                   {"load", load_document(panel.load)},
                   {"axis", axes[static_cast<int>(panel.axis)]},
                   {"cores", panel.most_cores},
                   {"x", drawing.x},
                   {"algorithms", Json::object()},
                   {"ranges", Json::array()}};
  for (const auto& curve : drawing.curves) {
    Json rates = Json::array(), servers = Json::array();
    for (const auto& at : curve.points) {
      rates.push_back(at ? Json(at->per_s) : Json());
      servers.push_back(at ? Json(at->servers) : Json());
    }
    document["algorithms"][curve.name] = {{"per_s", rates}, {"servers", servers}};
  }
  for (const auto& each : drawing.ranges) {
    document["ranges"].push_back({{"from_lookups", each.from_lookups}, {"algorithm", each.algorithm}});
  }
  return document;
}

}  // namespace

void compare_maps(const CompareMaps& arguments) {
  const auto panels = arguments.figure.empty() ? panels_of_load(arguments) : panels_of_figure(arguments.figure);
  if (!arguments.json) {
    for (const auto& panel : panels) print_panel(panel);
    return;
  }
  Json document = {{"panels", Json::array()}};
  for (const auto& panel : panels) document["panels"].push_back(panel_document(panel));
  if (arguments.figure.empty()) document["platform"] = platform_document(panels.front().platform);
  print(document.dump(2) + "\n");
}

}  // namespace smelt::cli
