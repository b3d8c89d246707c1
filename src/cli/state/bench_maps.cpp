// smelt bench map: how many operations per second each map serves, beside what the model predicts.
//
// A cell is a load: share of lookups, number of keys, skew. In each start every algorithm gets a new map, filled
// before, and a turn, in a new random order. A start in which the machine is in another state than the model is of, or
// changes it, is taken again: a prediction is for the costs that it was made of. Servers are ranks of their own, as
// many as the model thinks best, as the model counts them. The value of an algorithm in a cell is the median of its
// turns.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/plan/calls.hpp"
#include "cli/state/bench_state.hpp"
#include "cli/state/maps.hpp"
#include "cli/terminal.hpp"
#include "cli/version.hpp"
#include "smelt/floor.hpp"
#include "smelt/map_group.hpp"

namespace smelt::cli {
namespace {

struct BenchedValue {
  std::uint64_t words[2];
};
using BenchedMap = MapGroup<std::uint64_t, BenchedValue>;
using BenchedRank = MapRank<std::uint64_t, BenchedValue>;

struct MeasuredMap {
  std::string algorithm{};
  MapPrediction predicted{};
  std::vector<double> turns_per_s{};

  double per_s() const {
    std::vector<double> sorted = turns_per_s;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }

  /// Whether all turns of one of the two were faster than all of the other.
  bool is_apart_from(const MeasuredMap& other) const {
    const auto [low, high] = std::ranges::minmax(turns_per_s);
    const auto [other_low, other_high] = std::ranges::minmax(other.turns_per_s);
    return low > other_high || other_low > high;
  }
};

/// Pairs of maps, by whether they are predicted in the order in which they were measured.
struct PairsInOrder {
  int same = 0, other = 0;
  int undecided = 0;  ///< not counted in the others

  /// Kendall's tau; Goodman and Kruskal's gamma if the undecided pairs, which are ties, do not count.
  double tau() const { return same + other > 0 ? static_cast<double>(same - other) / (same + other) : 1.0; }
};

struct BenchedCell {
  MapLoad load;
  std::vector<MeasuredMap> maps{};

  const MeasuredMap& fastest() const { return *std::ranges::max_element(maps, {}, &MeasuredMap::per_s); }
  /// The one that the model takes.
  const MeasuredMap& chosen() const {
    return *std::ranges::max_element(maps, {}, [](const MeasuredMap& map) { return map.predicted.per_s; });
  }
  double chosen_ratio() const { return fastest().per_s() / chosen().per_s(); }

  /// Of all pairs, by the medians of their turns.
  PairsInOrder pairs() const {
    return count_pairs([](const MeasuredMap&, const MeasuredMap&) { return true; });
  }
  /// Of the pairs whose turns do not overlap: the measurement itself puts no others in an order.
  PairsInOrder decided_pairs() const {
    return count_pairs([](const MeasuredMap& one, const MeasuredMap& two) { return one.is_apart_from(two); });
  }

 private:
  template <class IsDecided>
  PairsInOrder count_pairs(IsDecided is_decided) const {
    PairsInOrder pairs;
    for (std::size_t i = 0; i < maps.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const double predicted = maps[i].predicted.per_s - maps[j].predicted.per_s;
        const double measured = maps[i].per_s() - maps[j].per_s();
        ++(!is_decided(maps[i], maps[j]) ? pairs.undecided : predicted * measured > 0.0 ? pairs.same : pairs.other);
      }
    }
    return pairs;
  }
};

/// The keys of one client, drawn before.
std::vector<std::uint64_t> draw_keys(const MapLoad& load, unsigned seed) {
  constexpr std::size_t drawn = std::size_t{1} << 14;
  std::mt19937_64 random(seed);
  const auto count = static_cast<std::size_t>(load.keys);
  std::vector<std::uint64_t> keys(drawn);
  if (load.skew == 0.0) {
    for (auto& key : keys) key = random() % count;
    return keys;
  }
  std::vector<double> sums(count);
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) sums[i] = sum += std::pow(static_cast<double>(i + 1), -load.skew);
  std::uniform_real_distribution<double> place(0.0, sum);
  for (auto& key : keys) {
    key = static_cast<std::uint64_t>(std::ranges::lower_bound(sums, place(random)) - sums.begin());
  }
  return keys;
}

/// One turn of one map: clients issue, the others serve.
class MapTurn {
 public:
  MapTurn(BenchedMap& map, const Communicator& communicator, const MapLoad& load)
      : map_(map), ranks_(communicator.size()), load_(load), start_(ranks_) {
    for (int rank = 0; rank < ranks_; ++rank) {
      const bool serves = map.servers_are_dedicated() && std::ranges::count(map.servers(), rank) != 0;
      if (!serves) clients_.push_back(rank);
    }
  }

  double run(const std::vector<int>& pus, double time_s) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks_; ++rank) {
      threads.emplace_back([&, rank] {
        (void)pin_this_thread(pus[static_cast<std::size_t>(rank)]);
        rank_of_map(rank, time_s);
      });
    }
    for (auto& thread : threads) thread.join();
    return per_s_.load();
  }

 private:
  void rank_of_map(int rank, double time_s) {
    auto mine = map_.attach(rank);
    const auto own = std::ranges::find(clients_, rank);
    const bool issues = mine && own != clients_.end();
    if (issues) fill(*mine, static_cast<std::size_t>(own - clients_.begin()));
    if (!mine) failed_ = true;
    meet(mine ? &*mine : nullptr);
    if (issues && !failed_) measure(*mine, rank, time_s);
    if (mine) mine->finish();
  }

  void fill(BenchedRank& mine, std::size_t first) {
    for (std::size_t key = first; key < static_cast<std::size_t>(load_.keys); key += clients_.size()) {
      mine.put(key, {{key, key}});
    }
  }

  /// Everybody serves until all are here.
  void meet(BenchedRank* mine) {
    here_.fetch_add(1);
    while (here_.load() != ranks_) {
      if (mine != nullptr) mine->progress();
      std::this_thread::yield();
    }
  }

  void measure(BenchedRank& mine, int rank, double time_s) {
    using Clock = std::chrono::steady_clock;
    const auto keys = draw_keys(load_, static_cast<unsigned>(rank) + 1);
    std::mt19937 random(static_cast<unsigned>(rank));
    const auto most = static_cast<std::uint32_t>(load_.lookups * 4294967295.0);
    std::vector<bool> looks(keys.size());
    for (std::size_t i = 0; i < looks.size(); ++i) looks[i] = random() <= most;
    const auto begin = Clock::now();
    const auto end = begin + std::chrono::duration<double>(time_s);
    std::uint64_t done = 0, found = 0;
    auto now = begin;
    for (; now < end; now = Clock::now()) {
      for (int i = 0; i < 64; ++i, ++done) {
        const std::size_t at = done % keys.size();
        if (looks[at]) {
          found += mine.get(keys[at]).has_value();
        } else {
          mine.put(keys[at], {{done, done}});
        }
      }
    }
    if (mine.status() != Status::ok) failed_ = true;
    (void)found;
    const double rate = static_cast<double>(done) / std::chrono::duration<double>(now - begin).count();
    double sum = per_s_.load();
    while (!per_s_.compare_exchange_weak(sum, sum + rate)) {}
  }

  BenchedMap& map_;
  int ranks_;
  const MapLoad& load_;
  std::barrier<> start_;
  std::vector<int> clients_;
  std::atomic<int> here_{0};
  std::atomic<double> per_s_{0.0};

 public:
  std::atomic<bool> failed_{false};
};

class MapContest {
 public:
  explicit MapContest(const BenchState& arguments)
      : machine_(load_model(arguments.model)),
        group_(group_of(machine_, arguments.model.empty(), arguments.ranks)),
        platform_(take(platform_of(machine_, group_))),
        starts_(arguments.starts > 0 ? arguments.starts : 3) {
    for (const int pu : group_.pus) pus_.push_back(machine_.pus[static_cast<std::size_t>(pu)].os_index);
    CommunicatorOptions options;
    options.pin = false;
    options.search_ms = 0;
    options.profile = "none";
    communicator_.emplace(take(Communicator::create(machine_, group_, options)));
    names_ = split_names(arguments.only);
    for (const auto& name : names_) {
      if (find_map_algorithm(name) == nullptr) fail_usage("--only {}: no such map; see `smelt explain map`", name);
    }
    if (names_.empty()) {
      for (const auto& each : map_algorithms()) names_.push_back(each.name);
    }
  }

  const Machine& machine() const { return machine_; }
  const std::vector<int>& pus() const { return pus_; }

  /// Starts that were taken again, and those that count although the machine was not as measured.
  int retaken() const { return retaken_; }
  int unsteady() const { return unsteady_; }
  /// Of each start that counts, after it.
  const std::vector<Floor>& floors() const { return floors_; }

  BenchedCell measure(const MapLoad& load, double turn_s) {
    BenchedCell cell{load, {}};
    for (const auto& name : names_) {
      auto predicted = predict_map(platform_, name, load_for(name, load), group_.size());
      if (!predicted) fail("{}", predicted.error().message);
      cell.maps.push_back({name, *std::move(predicted), {}});
    }
    std::vector<MeasuredMap*> order;
    for (auto& map : cell.maps) order.push_back(&map);
    int retakes = starts_;
    for (int start = 0; start < starts_; ++start) {
      std::ranges::shuffle(order, random_);
      while (!take_start(order, load, turn_s)) {
        if (retakes == 0) {
          ++unsteady_;
          break;
        }
        --retakes;
        ++retaken_;
        floors_.pop_back();
        for (MeasuredMap* map : order) map->turns_per_s.pop_back();
      }
    }
    return cell;
  }

 private:
  /// False: the machine was not as measured.
  bool take_start(const std::vector<MeasuredMap*>& order, const MapLoad& load, double turn_s) {
    const auto before = probe_floor(pus_);
    for (MeasuredMap* map : order) take_turn(*map, load, turn_s);
    const auto after = probe_floor(pus_);
    floors_.push_back(after ? *after : Floor{});
    if (!before || !after) return true;
    return is_as_measured(*before) && is_as_measured(*after) && !floor_moved(before->line_ns, after->line_ns);
  }

  /// A message takes somewhat longer than a bare line; another state of a machine is told by more than that.
  bool is_as_measured(const Floor& floor) const {
    if (!machine_.rtt_ns) return true;
    const int first = group_.pus.front();
    const auto other = std::ranges::find_if(group_.pus, [&](int pu) { return pu != first; });
    if (other == group_.pus.end()) return true;
    const double way_ns = (*machine_.rtt_ns)(static_cast<std::size_t>(first), static_cast<std::size_t>(*other)) / 2.0;
    return floor.line_ns < way_ns * most_ratio && way_ns < floor.line_ns * most_ratio;
  }

  static MapLoad load_for(const std::string& name, MapLoad load) {
    load.consistency = name == "rep_sc" ? Consistency::sequential : Consistency::linearizable;
    return load;
  }

  void take_turn(MeasuredMap& measured, const MapLoad& load, double turn_s) {
    MapOptions options;
    options.algorithm = measured.algorithm;
    options.consistency = load_for(measured.algorithm, load).consistency;
    options.faults = Faults::none;
    options.capacity = static_cast<std::size_t>(load.keys);
    options.colocate = false;
    options.servers = find_map_algorithm(measured.algorithm)->needs_servers ? measured.predicted.servers : 0;
    auto map = BenchedMap::create(*communicator_, options);
    if (!map) fail("{}", map.error().message);
    MapTurn turn(*map, *communicator_, load);
    measured.turns_per_s.push_back(turn.run(pus_, turn_s));
    if (turn.failed_) fail("{}: an operation failed", measured.algorithm);
  }

  static constexpr double most_ratio = 2.0;  ///< between a message's way and a line's

  Machine machine_;
  Group group_;
  MapPlatform platform_;
  int starts_;
  int retaken_ = 0, unsteady_ = 0;
  std::vector<Floor> floors_;
  std::vector<int> pus_;
  std::optional<Communicator> communicator_;
  std::vector<std::string> names_;
  std::mt19937 random_{1};
};

/// Over all cells.
struct BenchedSummary {
  double tau = 0.0;         ///< mean
  PairsInOrder decided{};   ///< of all cells together
  double error = 0.0;       ///< mean of |predicted / measured - 1|
  double best_share = 0.0;  ///< of the cells: what the model takes is within 1.1 of the fastest
};

BenchedSummary summary_of(const std::vector<BenchedCell>& cells) {
  BenchedSummary summary;
  double values = 0.0;
  for (const auto& cell : cells) {
    const PairsInOrder decided = cell.decided_pairs();
    summary.tau += cell.pairs().tau() / static_cast<double>(cells.size());
    summary.decided.same += decided.same;
    summary.decided.other += decided.other;
    summary.decided.undecided += decided.undecided;
    summary.best_share += (cell.chosen_ratio() <= 1.1 ? 1.0 : 0.0) / static_cast<double>(cells.size());
    for (const auto& map : cell.maps) {
      summary.error += std::abs(map.predicted.per_s / map.per_s() - 1.0);
      values += 1.0;
    }
  }
  summary.error /= values;
  return summary;
}

Json cell_document(const BenchedCell& cell) {
  Json maps = Json::array();
  for (const auto& map : cell.maps) {
    maps.push_back({{"algorithm", map.algorithm},
                    {"clients", map.predicted.clients},
                    {"servers", map.predicted.servers},
                    {"per_s", map.per_s()},
                    {"turns_per_s", map.turns_per_s},
                    {"predicted_per_s", map.predicted.per_s}});
  }
  return {{"lookups", cell.load.lookups},
          {"keys", cell.load.keys},
          {"skew", cell.load.skew},
          {"results", maps},
          {"tau", cell.pairs().tau()},
          {"tau_decided", cell.decided_pairs().tau()},
          {"undecided_pairs", cell.decided_pairs().undecided},
          {"fastest", cell.fastest().algorithm},
          {"chosen", cell.chosen().algorithm},
          {"chosen_ratio", cell.chosen_ratio()}};
}

std::string format_tau(double tau, const PairsInOrder& decided) {
  if (decided.undecided == 0) return fmt::format("tau {:.2f}", tau);
  return fmt::format("tau {:.2f}, or {:.2f} without {} pairs whose turns overlap", tau, decided.tau(),
                     decided.undecided);
}

void print_cell(const BenchedCell& cell) {
  print(fmt::format("{} lookups, {:g} keys{}\n", format_share(cell.load.lookups), cell.load.keys,
                    cell.load.skew > 0.0 ? fmt::format(", skew {:g}", cell.load.skew) : ""));
  Table table("lrrrr");
  table.header({"", "Mops/s", "predicted", "", "servers"});
  std::vector<MeasuredMap> maps = cell.maps;
  std::ranges::sort(maps, std::ranges::greater(), &MeasuredMap::per_s);
  for (const auto& map : maps) {
    const bool chosen = map.algorithm == cell.chosen().algorithm;
    table.row({{map.algorithm, chosen ? Style::accent : Style::plain},
               fmt::format("{:.3g}", map.per_s() / 1e6),
               fmt::format("{:.3g}", map.predicted.per_s / 1e6),
               fmt::format("× {:.2f}", map.predicted.per_s / map.per_s()),
               map.predicted.servers > 0 ? std::to_string(map.predicted.servers) : std::string("-")});
  }
  print(table.text());
  print(styled(Style::faint, fmt::format("  {}; the model takes {}, {:.2f} times slower than the fastest\n\n",
                                         format_tau(cell.pairs().tau(), cell.decided_pairs()), cell.chosen().algorithm,
                                         cell.chosen_ratio())));
}

std::vector<double> parse_list(const std::string& option, const std::string& text, std::vector<double> usual,
                               double low, double high) {
  if (text.empty()) return usual;
  std::vector<double> list;
  for (const auto& part : split_names(text)) list.push_back(parse_number(option, part, low, high));
  return list;
}

}  // namespace

void bench_maps(const BenchState& arguments) {
  const auto lookups = parse_list("--lookups", arguments.lookups, {0.5, 0.9, 0.99}, 0.0, 1.0);
  const auto keys = parse_list("--keys", arguments.keys, {100, 10000}, 1, 1e7);
  const auto skews = parse_list("--skew", arguments.skew, {0.0, 0.99}, 0.0, 10.0);
  MapContest contest(arguments);
  const double cells_count = static_cast<double>(lookups.size() * keys.size() * skews.size());
  const int starts = arguments.starts > 0 ? arguments.starts : 3;
  const double time_s = arguments.time_s > 0.0 ? arguments.time_s : 12.0;
  const auto algorithms =
      static_cast<double>(arguments.only.empty() ? map_algorithms().size() : split_names(arguments.only).size());
  const double turn_s = time_s / cells_count / starts / algorithms;
  ProgressBar progress;
  std::vector<BenchedCell> cells;
  for (const double share : lookups) {
    for (const double count : keys) {
      for (const double skew : skews) {
        MapLoad load;
        load.lookups = share;
        load.keys = count;
        load.skew = skew;
        load.bytes_per_key = 96.0;  // three cells of 24 bytes in two lines, two thirds of them used
        progress.update("map", static_cast<double>(cells.size()) / cells_count, -1);
        cells.push_back(contest.measure(load, turn_s));
      }
    }
  }
  progress.clear();
  const BenchedSummary summary = summary_of(cells);
  if (!arguments.json) {
    for (const auto& cell : cells) print_cell(cell);
    print(fmt::format("{} cells: {}, mean error {:.0f} %, the model's choice within 1.1 of the fastest in {:.0f} %\n",
                      cells.size(), format_tau(summary.tau, summary.decided), summary.error * 100,
                      summary.best_share * 100));
    if (contest.retaken() + contest.unsteady() > 0) {
      print(fmt::format(
          "{} starts were taken again: the machine was in another state than its model is of{}\n", contest.retaken(),
          contest.unsteady() == 0 ? std::string()
                                  : fmt::format("; {} count all the same: run `smelt measure`", contest.unsteady())));
    }
    return;
  }
  Json list = Json::array(), floors = Json::array();
  for (const auto& cell : cells) list.push_back(cell_document(cell));
  for (const auto& floor : contest.floors()) floors.push_back({{"line_ns", floor.line_ns}, {"work_ns", floor.work_ns}});
  print(format_json({{"benchmark", "map"},
                     {"ranks", contest.pus().size()},
                     {"pus", contest.pus()},
                     {"starts", starts},
                     {"turn_s", turn_s},
                     {"floors", floors},
                     {"retaken", contest.retaken()},
                     {"unsteady", contest.unsteady()},
                     {"cells", list},
                     {"tau", summary.tau},
                     {"tau_decided", summary.decided.tau()},
                     {"undecided_pairs", summary.decided.undecided},
                     {"mean_error", summary.error},
                     {"best_share", summary.best_share},
                     {"machine", machine_identity(contest.machine())},
                     {"commit", commit}}));
}

}  // namespace smelt::cli
