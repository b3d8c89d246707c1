#include "measure/copy_campaign.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>

#include "base/cacheline.hpp"
#include "machine/model/copy_costs.hpp"
#include "measure/pair_classes.hpp"
#include "measure/statistics.hpp"

namespace smelt::measure {
namespace {

constexpr double kib = 1024.0;
constexpr std::size_t pairs_per_class = 9;
constexpr int line_copies = 41;
constexpr int chunk_copies = 21;
constexpr int cached_copies = 11;
constexpr int shared_copies = 5;
constexpr int memory_copies = 2;
constexpr double classes_share = 0.5;  ///< share of the remaining time that one sweep may take

/// Ordered pairs whose copies are expected to cost the same.
struct CopyClass {
  std::vector<Pair> pairs;  ///< a random sample
  std::size_t members = 0;
  std::vector<double> line_ns, chunk_ns, cached_ns, shared_ns, memory_ns;  ///< medians of visits
};
using ClassKey = std::uint64_t;

/// Level 0 is copies of a PU's own data. Without `nodes`, the key says only whether both PUs have the same NUMA node.
ClassKey class_key(const Pu& from, const Pu& to, bool own, bool nodes) {
  const auto part = [](int id) { return static_cast<ClassKey>(id) & 0xffff; };
  const ClassKey level = own ? 0 : 1 + static_cast<ClassKey>(closest_level(from, to));
  const ClassKey kinds = (part(from.efficiency_class) & 0xff) << 8 | (part(to.efficiency_class) & 0xff);
  // An L3 may span several NUMA nodes, so the level does not say whether the node is the same.
  const ClassKey same_node = from.numa_node == to.numa_node ? 1 : 0;
  const ClassKey which = nodes ? part(from.numa_node) << 16 | part(to.numa_node) : same_node;
  const ClassKey places = own ? 0 : which;
  return level << 48 | kinds << 32 | places;
}

/// `count` PUs, spread evenly over the machine: one of each core first, then the others.
std::vector<int> spread(const Machine& machine, std::size_t count) {
  std::map<int, int> seen;  ///< by core: number of PUs seen so far
  std::vector<std::pair<int, int>> order;
  for (int i = 0; i < static_cast<int>(machine.size()); ++i) {
    order.push_back({seen[machine.pus[static_cast<std::size_t>(i)].core]++, i});
  }
  std::sort(order.begin(), order.end());
  std::vector<int> chosen;
  const std::size_t room = count <= seen.size() ? seen.size() : count;
  for (std::size_t k = 0; k < count; ++k) chosen.push_back(order[k * room / count].second);
  return chosen;
}

/// By how much copies of bytes_of(copiers) slow down when 1, 2, 4, ... all PUs copy at once. Never falls. All numbers
/// are gone through three times, if there is time: what disturbs the machine for a moment reaches one of three medians.
template <class BytesOf>
Result<std::vector<double>> slowdowns_by_copiers(const Machine& machine, CopyTimer& timer, BytesOf bytes_of, int count,
                                                 double deadline_s) {
  constexpr int rounds = 3;
  std::vector<std::vector<double>> medians(contention_levels(machine.size()));
  const auto time_level = [&](std::size_t k) -> Result<void> {
    const auto copiers = std::min(std::size_t{1} << k, machine.size());
    auto samples =
        timer.time_together(spread(machine, copiers), bytes_of(copiers), (count + rounds - 1) / rounds, deadline_s);
    if (!samples) return samples.error();
    medians[k].push_back(median(*std::move(samples)));
    return {};
  };
  for (int round = 0; round < rounds; ++round) {
    Result<void> done;
    for (std::size_t k = 1; done && k < medians.size(); ++k) done = time_level(k);
    if (!done && (round == 0 || done.error().status != Status::timed_out)) return done.error();
    if (!done) break;
  }
  std::vector<double> slowdowns = {1.0};
  for (std::size_t k = 1; k < medians.size(); ++k) {
    slowdowns.push_back(std::max(slowdowns.back(), median(medians[k])));
  }
  return slowdowns;
}

class CopyCampaign {
 public:
  CopyCampaign(const Machine& machine, CopyTimer& timer, const CopyEffort& effort, double deadline_s)
      : machine_(machine), timer_(timer), effort_(effort), deadline_s_(deadline_s) {}

  Result<CopyCosts> run() {
    find_classes(true);
    if (auto done = sweep(0); !done) return done.error();
    if (auto done = visit_process(); !done) return done.error();
    if (auto done = measure_contention(effort_.cached_bytes, costs_.cached_contention); !done) return done.error();
    if (auto done = measure_contention(effort_.shared_bytes, costs_.shared_contention); !done) return done.error();
    if (auto done = measure_contention(effort_.memory_bytes, costs_.memory_contention); !done) return done.error();
    for (int k = 1; k < effort_.sweeps && timer_.now_s() < effort_.more_until_s; ++k) {
      // One complete sweep suffices if there is no time for another.
      auto done = sweep(k);
      if (done) done = visit_process();
      if (!done && done.error().status == Status::timed_out) break;
      if (!done) return done.error();
    }
    fill_in();
    return std::move(costs_);
  }

 private:
  Pu pu(int index) const { return machine_.pus[static_cast<std::size_t>(index)]; }
  bool is_own(Pair pair) const { return pair.a == pair.b; }

  void find_classes(bool nodes) {
    nodes_ = nodes;
    classes_.clear();
    std::mt19937_64 random(1);
    const int n = static_cast<int>(machine_.size());
    for (int from = 0; from < n; ++from) {
      for (int to = 0; to < n; ++to) {
        auto& one = classes_[class_key(pu(from), pu(to), from == to, nodes)];
        ++one.members;
        if (one.pairs.size() < pairs_per_class) {
          one.pairs.push_back({from, to});
        } else if (const auto place = random() % one.members; place < pairs_per_class) {
          one.pairs[place] = {from, to};
        }
      }
    }
  }

  Result<void> sweep(int number) {
    const double start_s = timer_.now_s();
    const double allowed_s = classes_share * (deadline_s_ - start_s);
    std::size_t visited = 0;
    for (auto& [key, one] : classes_) {
      if (auto done = visit(one, one.pairs[static_cast<std::size_t>(number) % one.pairs.size()]); !done) return done;
      const double expected_s =
          (timer_.now_s() - start_s) / static_cast<double>(++visited) * static_cast<double>(classes_.size());
      if (number > 0 || !nodes_ || expected_s <= allowed_s) continue;
      find_classes(false);  // too many to time: by level alone, from the start
      return sweep(number);
    }
    return {};
  }

  Result<void> visit(CopyClass& one, Pair pair) {
    if (auto done = add_copy(pair, line_bytes, line_copies, one.line_ns); !done) return done;
    if (auto done = add_copy(pair, effort_.chunk_bytes, chunk_copies, one.chunk_ns); !done) return done;
    if (auto done = add_copy(pair, effort_.cached_bytes, cached_copies, one.cached_ns); !done) return done;
    if (is_own(pair)) {
      auto added = timer_.time_additions(pair.b, effort_.cached_bytes, cached_copies, deadline_s_);
      if (!added) return added.error();
      add_ns_.push_back(median(*std::move(added)));
    }
    if (auto done = add_copy(pair, effort_.shared_bytes, shared_copies, one.shared_ns); !done) return done;
    return add_copy(pair, effort_.memory_bytes, memory_copies, one.memory_ns);
  }

  Result<void> add_copy(Pair pair, std::size_t size_bytes, int count, std::vector<double>& medians) {
    auto samples = timer_.time_copies(pair.a, pair.b, size_bytes, count, deadline_s_);
    if (!samples) return samples.error();
    medians.push_back(median(*std::move(samples)));
    return {};
  }

  static double per_kib(double took_ns, double fixed_ns, std::size_t size_bytes) {
    return std::max(0.0, took_ns - fixed_ns) / (static_cast<double>(size_bytes) / kib);
  }

  void fill_in() {
    const std::size_t n = machine_.size();
    costs_.chunk_bytes = static_cast<double>(effort_.chunk_bytes);
    costs_.cached_bytes = static_cast<double>(effort_.cached_bytes);
    costs_.shared_bytes = static_cast<double>(effort_.shared_bytes);
    costs_.memory_bytes = static_cast<double>(effort_.memory_bytes);
    costs_.startup_ns = costs_.chunk_ns_per_kib = costs_.cached_ns_per_kib = costs_.shared_ns_per_kib =
        costs_.memory_ns_per_kib = Matrix(n);
    costs_.add_ns_per_kib = median(add_ns_) / (costs_.cached_bytes / kib);
    struct Costs {
      double startup_ns, chunk, cached, shared, memory;
    };
    std::map<ClassKey, Costs> of_class;
    for (const auto& [key, one] : classes_) {
      const double startup_ns = median(one.line_ns);
      of_class[key] = {startup_ns, per_kib(median(one.chunk_ns), startup_ns, effort_.chunk_bytes),
                       per_kib(median(one.cached_ns), startup_ns, effort_.cached_bytes),
                       per_kib(median(one.shared_ns), startup_ns, effort_.shared_bytes),
                       per_kib(median(one.memory_ns), startup_ns, effort_.memory_bytes)};
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const auto& costs = of_class.at(class_key(machine_.pus[i], machine_.pus[j], i == j, nodes_));
        costs_.startup_ns(i, j) = costs.startup_ns;
        costs_.chunk_ns_per_kib(i, j) = costs.chunk;
        costs_.cached_ns_per_kib(i, j) = costs.cached;
        costs_.shared_ns_per_kib(i, j) = costs.shared;
        costs_.memory_ns_per_kib(i, j) = costs.memory;
      }
    }
    fill_in_process();
  }

  Result<void> measure_contention(std::size_t size_bytes, std::vector<double>& slowdowns) {
    // The sizes of all copies together are limited, but each copy exceeds the cache of its core.
    const auto most_bytes = [&](std::size_t copiers) {
      return std::min(size_bytes, std::max(effort_.team_bytes / copiers, 4 * effort_.cached_bytes));
    };
    auto found = slowdowns_by_copiers(machine_, timer_, most_bytes, effort_.comparisons, deadline_s_);
    if (!found) return found.error();
    slowdowns = *std::move(found);
    return {};
  }

  /// The closest two PUs on different cores; the same PU twice if there is only one.
  Pair process_pair() const {
    for (int level = static_cast<int>(Level::l2); level < level_count; ++level) {
      for (int to = 1; to < static_cast<int>(machine_.size()); ++to) {
        if (static_cast<int>(closest_level(pu(0), pu(to))) == level) return {0, to};
      }
    }
    return {0, static_cast<int>(machine_.size()) - 1};
  }

  /// Alternates with plain copies of the same pair, because only the difference is used.
  Result<void> visit_process() {
    const Pair pair = process_pair();
    for (auto* visits : {&process_lines_, &process_cached_}) {
      if (!process_permitted_) return {};
      const auto size_bytes = visits == &process_lines_ ? line_bytes : effort_.cached_bytes;
      auto samples = timer_.time_process_copies(pair.a, pair.b, size_bytes, cached_copies, deadline_s_);
      if (!samples) {
        const auto status = samples.error().status;
        process_permitted_ = status != Status::permission_denied && status != Status::not_supported;
        if (process_permitted_) return samples.error();
        continue;
      }
      if (auto done = add_copy(pair, size_bytes, cached_copies, visits->plain_ns); !done) return done;
      visits->process_ns.push_back(median(*std::move(samples)));
    }
    return {};
  }

  void fill_in_process() {
    if (!process_permitted_) return;
    const double call_ns = process_lines_.surplus_ns();
    costs_.process = ProcessCopyCosts{call_ns, per_kib(process_cached_.surplus_ns(), call_ns, effort_.cached_bytes)};
  }

  const Machine& machine_;
  CopyTimer& timer_;
  const CopyEffort effort_;
  const double deadline_s_;
  bool nodes_ = true;
  std::map<ClassKey, CopyClass> classes_;
  std::vector<double> add_ns_;
  /// Copies of one size: out of another process, and plain ones.
  struct ProcessVisits {
    std::vector<double> process_ns, plain_ns;
    double surplus_ns() const { return std::max(0.0, median(process_ns) - median(plain_ns)); }
  };
  ProcessVisits process_lines_, process_cached_;
  bool process_permitted_ = true;
  CopyCosts costs_;
};

std::size_t cache_bytes(int name, std::size_t otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : otherwise;
}

std::size_t page_multiple(std::size_t bytes) { return bytes / 4096 * 4096; }

}  // namespace

CopyEffort copy_effort(const Machine& machine, bool quick) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  const auto l2 = cache_bytes(_SC_LEVEL2_CACHE_SIZE, mib);
  const auto last = std::max(l2, cache_bytes(_SC_LEVEL3_CACHE_SIZE, 16 * mib));
  std::uint64_t memory = 0;
  for (const auto& node : machine.numa_nodes) memory += node.memory_bytes;
  const std::size_t bearable = memory == 0 ? 64 * mib : std::max<std::size_t>(4 * mib, memory / 64);
  CopyEffort effort;
  effort.chunk_bytes = 16 * 1024;
  effort.cached_bytes = page_multiple(std::clamp(l2 / 8 * 3, mib / 16, mib));
  effort.memory_bytes = page_multiple(std::min({4 * last, (quick ? 16 : 64) * mib, bearable}));
  effort.memory_bytes = std::max(effort.memory_bytes, 4 * effort.cached_bytes);
  effort.shared_bytes = page_multiple(std::clamp(last / 8, 2 * effort.cached_bytes, effort.memory_bytes / 2));
  effort.shared_bytes = std::min(effort.shared_bytes, std::max(8 * mib, 2 * effort.cached_bytes));
  effort.team_bytes = effort.memory_bytes;
  effort.sweeps = quick ? 1 : 9;
  effort.comparisons = quick ? 3 : 9;
  return effort;
}

Result<CopyCosts> run_copy_campaign(const Machine& machine, CopyTimer& timer, const CopyEffort& effort,
                                    double deadline_s) {
  return CopyCampaign(machine, timer, effort, deadline_s).run();
}

Result<std::vector<double>> chunk_contention(const Machine& machine, CopyTimer& timer, std::size_t chunk_bytes,
                                             int count, double deadline_s) {
  return slowdowns_by_copiers(
      machine, timer, [&](std::size_t) { return chunk_bytes; }, count, deadline_s);
}

bool agrees_with_messages(const Machine& machine, const CopyCosts& copy) {
  // A message is the fetch of a line and some work. Fetches between siblings of a core cost almost nothing.
  constexpr double least_share = 1.0 / 12, most_share = 1.6;
  for (std::size_t i = 0; i < machine.size(); ++i) {
    for (std::size_t j = 0; j < machine.size(); ++j) {
      const double propagation = machine.propagation_ns ? (*machine.propagation_ns)(i, j) : 0.0;
      const double message = machine.send_ns(i, j) + propagation + machine.recv_ns(i, j);
      const double line = copy.startup_ns(i, j);
      if (i != j && (line < least_share * message || line > most_share * message)) return false;
    }
  }
  return true;
}

}  // namespace smelt::measure
