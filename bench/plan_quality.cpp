// Question: how good are the trees of `best`, and how long do they take?
//
// Method: for every core-to-core CSV in a directory, plan each operation with the construction
// alone, with a search budget, and by the published algorithms; beside them a plain simulated
// annealing that shares no code with the planner: it moves subtrees, swaps ranks and changes the
// root, sorts sends anew and evaluates the whole tree for every move. `optimal` is timed on random
// subsets, the construction on synthetic machines.
//
// Expected: best with 1 s within 3 % of annealing for 60 s; construction within 1 ms for 32 PUs,
// 50 ms for 256, 1 s for 4096; optimal in less than 1 s for 8 ranks and 10 s for 10.
//
//   plan_quality DIRECTORY [--anneal SECONDS] [--search MS] [--share S] [--op NAME] [--part
//   all|quality|optimal|construction]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "smelt/plan.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Processor time of this thread: what planning costs whatever else the machine does.
double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

struct Settings {
  std::string directory, part = "all";
  double anneal_s = 60.0, search_ms = 1000.0, share = 0.25;
  std::string op;
};

// The annealer: trees as parent arrays, everything evaluated from scratch.
class Annealer {
 public:
  Annealer(const smelt::Machine& machine, smelt::Operation operation, unsigned seed)
      : machine_(machine), operation_(operation), n_(static_cast<int>(machine.size())), random_(seed) {}

  double run(double seconds) {
    std::vector<std::vector<int>> parents(phases());
    for (auto& tree : parents) {
      tree.assign(n_, -1);
      for (int rank = 1; rank < n_; ++rank) tree[rank] = (rank - 1) / 3;
    }
    double value = evaluate(parents), best = value;
    const double hot = 0.05 * value, cold = 2e-5 * value;
    const auto start = Clock::now();
    double temperature = hot;
    for (long step = 0;; ++step) {
      if (step % 64 == 0) {
        const double used = ms_since(start) / (1e3 * seconds);
        if (used >= 1.0) return best;
        temperature = hot * std::pow(cold / hot, used);
      }
      const auto before = parents;
      if (!change(parents)) continue;
      const double now = evaluate(parents);
      if (now <= value || uniform() < std::exp((value - now) / temperature)) {
        value = now;
        best = std::min(best, value);
      } else {
        parents = before;
      }
    }
  }

 private:
  std::size_t phases() const {
    return operation_ == smelt::Operation::broadcast || operation_ == smelt::Operation::reduce ? 1 : 2;
  }
  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }
  double uniform() { return static_cast<double>(random_()) / 4294967296.0; }

  static void swap_ranks(std::vector<int>& parent, int a, int b) {
    std::swap(parent[a], parent[b]);
    for (int& p : parent) p = p == a ? b : p == b ? a : p;
    if (parent[a] == a) parent[a] = b;
    if (parent[b] == b) parent[b] = a;
  }

  bool change(std::vector<std::vector<int>>& trees) {
    auto& parent = trees[below(static_cast<int>(trees.size()))];
    const int a = below(n_), b = below(n_);
    if (a == b) return false;
    if (below(3) == 0) {  // swap; the root in all trees
      if (parent[a] >= 0 && parent[b] >= 0) {
        swap_ranks(parent, a, b);
      } else {
        for (auto& tree : trees) swap_ranks(tree, a, b);
      }
      return true;
    }
    if (parent[a] < 0) return false;
    for (int up = b; up >= 0; up = parent[up]) {
      if (up == a) return false;
    }
    parent[a] = b;
    return true;
  }

  double send(bool up, int p, int c) const { return up ? machine_.recv_ns(c, p) : machine_.send_ns(p, c); }
  double latency(bool up, int p, int c) const { return up ? machine_.send_ns(c, p) : machine_.recv_ns(p, c); }

  // Time of one tree; `ready` in: when ranks can start to gather, `idle` out: when they have sent all.
  double time_of(const std::vector<int>& parent, bool up, const std::vector<double>* ready, std::vector<double>* idle) {
    children_.assign(n_, {});
    order_.clear();
    for (int rank = 0; rank < n_; ++rank) {
      if (parent[rank] >= 0) children_[parent[rank]].push_back(rank);
      if (parent[rank] < 0) order_.push_back(rank);
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
      for (const int child : children_[order_[i]]) order_.push_back(child);
    }
    need_.assign(n_, 0.0);
    for (std::size_t i = order_.size(); i-- > 0;) {
      const int p = order_[i];
      auto key = [&](int c) { return latency(up, p, c) + need_[c]; };
      std::sort(children_[p].begin(), children_[p].end(), [&](int x, int y) { return key(x) > key(y); });
      double sent = 0.0;
      for (const int c : children_[p]) {
        sent += send(up, p, c);
        need_[p] = std::max(need_[p], sent + key(c));
      }
      if (ready) need_[p] = std::max(need_[p], (*ready)[p] + sent);
    }
    if (idle) {
      idle->assign(n_, 0.0);
      for (const int p : order_) {
        double now = (*idle)[p];
        for (const int c : children_[p]) {
          now += send(up, p, c);
          (*idle)[c] = now + latency(up, p, c);
        }
        (*idle)[p] = now;
      }
    }
    return need_[order_[0]];
  }

  double evaluate(const std::vector<std::vector<int>>& trees) {
    switch (operation_) {
      case smelt::Operation::broadcast: return time_of(trees[0], false, nullptr, nullptr);
      case smelt::Operation::reduce: return time_of(trees[0], true, nullptr, nullptr);
      case smelt::Operation::two_phase_commit: {
        std::vector<double> idle;
        const double down = time_of(trees[0], false, nullptr, &idle);
        return down + time_of(trees[1], true, &idle, nullptr);
      }
      default: return time_of(trees[0], false, nullptr, nullptr) + time_of(trees[1], true, nullptr, nullptr);
    }
  }

  const smelt::Machine& machine_;
  smelt::Operation operation_;
  int n_;
  std::mt19937 random_;
  std::vector<std::vector<int>> children_;
  std::vector<int> order_;
  std::vector<double> need_;
};

smelt::Plan planned(const smelt::Machine& machine, const smelt::Group& group, smelt::Operation operation,
                    const std::string& topology, double search_ms) {
  smelt::PlanOptions options;
  options.topology = topology;
  options.search_ms = search_ms;
  auto plan = smelt::make_plan(machine, group, operation, options);
  if (!plan) {
    fmt::print(stderr, "{}\n", plan.error().message);
    std::exit(1);
  }
  return std::move(*plan);
}

std::vector<smelt::Machine> machines(const Settings& settings) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(settings.directory)) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<smelt::Machine> all;
  for (const auto& file : files) {
    auto machine = smelt::import_core_to_core(file, settings.share);
    if (!machine) {
      fmt::print(stderr, "{}\n", machine.error().message);
      std::exit(1);
    }
    all.push_back(std::move(*machine));
    all.back().name = file.stem().string();
  }
  return all;
}

void quality(const Settings& settings, const std::vector<smelt::Machine>& all) {
  using smelt::Operation;
  for (const Operation operation :
       {Operation::broadcast, Operation::reduce, Operation::barrier, Operation::two_phase_commit}) {
    if (!settings.op.empty() && settings.op != smelt::to_string(operation)) continue;
    fmt::print("\n{} (ns), free root\n{:30} {:>4} {:>9} {:>9} {:>9} {:>7} {:>9} {:>9} {:>9} {:>8}\n",
               smelt::to_string(operation), "machine", "PUs", "best 0", "best", "annealed", "best/a", "bound",
               "adaptive", "adapt-opt", "0 in ms");
    for (const smelt::Machine& machine : all) {
      const smelt::Group group = smelt::whole_machine(machine);
      const double start = cpu_ms();
      const smelt::Plan fast = planned(machine, group, operation, "best", 0.0);
      const double fast_ms = cpu_ms() - start;
      const smelt::Plan best = planned(machine, group, operation, "best", settings.search_ms);
      const double annealed = settings.anneal_s > 0.0 ? Annealer(machine, operation, 1).run(settings.anneal_s) : NAN;
      fmt::print("{:30} {:4} {:9.1f} {:9.1f} {:9.1f} {:7.3f} {:9.1f} {:9.1f} {:9.1f} {:8.3f}\n", machine.name,
                 machine.size(), fast.predicted_ns, best.predicted_ns, annealed, best.predicted_ns / annealed,
                 best.lower_bound_ns.value_or(0.0), planned(machine, group, operation, "adaptive", 0.0).predicted_ns,
                 planned(machine, group, operation, "adaptive-optimized", 0.0).predicted_ns, fast_ms);
      std::fflush(stdout);
    }
  }
}

void optimal(const std::vector<smelt::Machine>& all) {
  std::mt19937 random(7);
  fmt::print("\noptimal on random subsets, free root: median and worst ms of processor time, share proved\n");
  for (const int ranks : {6, 8, 10, 12, 14}) {
    for (const auto operation : {smelt::Operation::broadcast, smelt::Operation::reduce, smelt::Operation::barrier,
                                 smelt::Operation::two_phase_commit}) {
      std::vector<double> times;
      int proved = 0;
      for (const smelt::Machine& machine : all) {
        for (int repeat = 0; repeat < (ranks > 12 ? 1 : 3); ++repeat) {
          smelt::Group group = smelt::whole_machine(machine);
          std::shuffle(group.pus.begin(), group.pus.end(), random);
          group.pus.resize(ranks);
          const double start = cpu_ms();
          proved += planned(machine, group, operation, "optimal", 0.0).optimal ? 1 : 0;
          times.push_back(cpu_ms() - start);
        }
      }
      std::sort(times.begin(), times.end());
      fmt::print("{:3} ranks {:18} {:10.3f} {:10.3f} {:4.0f} %\n", ranks, smelt::to_string(operation),
                 times[times.size() / 2], times.back(), 100.0 * proved / static_cast<double>(times.size()));
      std::fflush(stdout);
    }
  }
}

void construction() {
  fmt::print("\nconstruction alone on synthetic machines, processor time\n");
  for (const auto& [packages, cores, smt] : {std::tuple{2, 8, 2}, {4, 32, 2}, {8, 256, 2}}) {
    smelt::SynthSpec spec;
    spec.packages = packages;
    spec.cores = cores;
    spec.smt = smt;
    spec.l3 = 4;
    spec.jitter = 0.05;
    auto machine = smelt::synthesize_machine(spec);
    if (!machine) continue;
    const smelt::Group group = smelt::whole_machine(*machine);
    for (const auto operation : {smelt::Operation::broadcast, smelt::Operation::reduce, smelt::Operation::barrier,
                                 smelt::Operation::allreduce, smelt::Operation::two_phase_commit}) {
      std::vector<double> times;
      double ns = 0.0;
      for (int repeat = 0; repeat < 3; ++repeat) {
        const double start = cpu_ms();
        ns = planned(*machine, group, operation, "best", 0.0).predicted_ns;
        times.push_back(cpu_ms() - start);
      }
      std::sort(times.begin(), times.end());
      fmt::print("{:5} PUs {:18} {:10.3f} ms {:10.1f} ns\n", machine->size(), smelt::to_string(operation), times[1],
                 ns);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (argument == "--anneal")
      settings.anneal_s = std::atof(value), ++i;
    else if (argument == "--search")
      settings.search_ms = std::atof(value), ++i;
    else if (argument == "--share")
      settings.share = std::atof(value), ++i;
    else if (argument == "--op")
      settings.op = value, ++i;
    else if (argument == "--part")
      settings.part = value, ++i;
    else
      settings.directory = argument;
  }
  const bool all_parts = settings.part == "all";
  if (settings.directory.empty() && settings.part != "construction") {
    fmt::print(stderr,
               "usage: plan_quality DIRECTORY [--anneal SECONDS] [--search MS] [--share S] [--op NAME] "
               "[--part all|quality|optimal|construction]\n");
    return 2;
  }
  const auto all = settings.directory.empty() ? std::vector<smelt::Machine>{} : machines(settings);
  if (all_parts || settings.part == "quality") quality(settings, all);
  if (all_parts || settings.part == "optimal") optimal(all);
  if (all_parts || settings.part == "construction") construction();
  return 0;
}
