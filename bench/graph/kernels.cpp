// Question: how long do the six kernels of the GAP benchmark suite take as Green-Marl compiled by smelt, and how long as
// OpenMP code written by hand with the suite's algorithms?
//
// Method: one generated graph, of which each side has a copy. In each round each kernel runs once on both sides, one after
// the other, from the same source nodes. The side that begins alternates, and the source nodes differ by round. The
// time of a kernel includes allocating its memory, but not loading the graph. smelt's whole call, including the copying
// of results to the caller, is timed in addition. Before each run the process is idle, and then the threads of the side
// that runs are woken: OpenMP's threads poll for work for 3 to 20 ms after a loop, on the cores that the other side
// needs. Results are compared before anything is timed. Reported: medians, and
// reference / smelt (above 1: smelt takes less time), with its geometric mean. With --plain instead of the reference:
// smelt's programs with plain arrays on pages of the usual size and no hints (`smelt graph run --no-placement`).
// Expected: a geometric mean of at least 1, none below 0.85; beside plain arrays, none below 1.
//
//   kernels [--graph kron:20] [--threads N] [--rounds 9] [--kernels bfs,pr,...] [--delta 16] [--plain] [--json FILE]
//           [--commit C]
//   kernels --compile FILE.gm,... [--json FILE]    instead: how long programs take to be compiled: the front end from text to
//                                                  C++, with the C++ compiler, and again from the cache
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>

#include "graph/reference.hpp"
#include "smelt/graph.hpp"
#include "smelt/graph_algorithms.hpp"

namespace {

using bench::reference::Node;
using bench::reference::Rows;
using smelt::graph::Graph;
using Placement = smelt::graph::RunOptions::Placement;

struct Settings {
  std::string graph = "kron:20", json, commit;
  std::vector<std::string> kernels = {"bfs", "pr", "cc", "bc", "sssp", "tc"};
  std::vector<std::string> programs;  ///< to be compiled
  int threads = omp_get_max_threads();
  int rounds = 9;
  int delta = 16;            ///< ours
  int reference_delta = 16;  ///< theirs
  bool plain = false;        ///< ours without placement instead of the reference
};

template <class T>
T must(smelt::Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return *std::move(result);
}

Rows rows_of(const Graph& graph) {
  if (graph.node_id_bytes() != 4 || graph.edge_id_bytes() != 4)
    throw std::runtime_error("the graph has too many edges");
  const auto out = graph.out<std::uint32_t, std::uint32_t>();
  Rows rows;
  rows.begin.assign(out.begin, out.begin + graph.num_nodes() + 1);
  rows.neighbour.assign(out.node_idx, out.node_idx + graph.num_edges());
  if (const auto* column = graph.edge_values("weight")) {
    const auto weight = column->values<std::int32_t>();
    for (std::size_t edge = 0; edge < weight.size(); ++edge)
      rows.weighted.push_back({rows.neighbour[edge], weight[edge]});
  }
  return rows;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Returns when no thread of this process has run for a millisecond, or after a second.
void wait_until_idle() {
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  for (int i = 0; i < 1000; ++i) {
    const double before = used();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (used() - before < 2e-4) return;
  }
}

/// OpenMP's threads poll for work after this, as those of a smelt team do that was just made.
void wake_openmp() {
  std::atomic<int> awake{0};
#pragma omp parallel
  awake.fetch_add(1, std::memory_order_relaxed);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

/// What both programs computed, to be compared.
using Numbers = std::vector<double>;

/// Ranks are iterated until they change by less than a bound in sum, in another order each time: they are compared by
/// that sum.
bool alike(const std::string& kernel, const Numbers& a, const Numbers& b) {
  if (kernel == "pr")
    return std::transform_reduce(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                                 [](double x, double y) { return std::abs(x - y); }) < 1e-3;
  const double tolerance = kernel == "bc" ? 1e-3 : 0;  // of single precision sums
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [&](double x, double y) {
           return x == y || std::abs(x - y) <= tolerance * std::max({1.0, std::abs(x), std::abs(y)});
         });
}

/// A node's distance from the root by its parents; -1 for those that have none.
template <class Parents>
Numbers depths(const Parents& parent) {
  Numbers depth(parent.size(), -2);
  for (std::size_t node = 0; node < parent.size(); ++node) {
    std::vector<std::size_t> path;
    std::size_t at = node;
    while (depth[at] == -2 && parent[at] >= 0 && static_cast<std::size_t>(parent[at]) != at) {
      path.push_back(at);
      at = static_cast<std::size_t>(parent[at]);
    }
    if (depth[at] == -2) depth[at] = parent[at] < 0 ? -1 : 0;
    double known = depth[at];
    for (auto each = path.rbegin(); each != path.rend(); ++each) depth[*each] = ++known;
  }
  return depth;
}

/// Components by their smallest node.
template <class Components>
Numbers smallest(const Components& comp) {
  std::vector<double> least(comp.size(), -1);
  Numbers numbers(comp.size());
  for (std::size_t node = 0; node < comp.size(); ++node) {
    auto& first = least[static_cast<std::size_t>(comp[node])];
    if (first < 0) first = static_cast<double>(node);
    numbers[node] = first;
  }
  return numbers;
}

template <class Values>
Numbers numbers_of(const Values& values) {
  return Numbers(values.begin(), values.end());
}

/// The six kernels in both programs. Each returns what it computed only if it is asked to.
class Kernels {
 public:
  Kernels(const Settings& settings, const Graph& graph) : settings_(settings), graph_(graph), rows_(rows_of(graph)) {
    std::mt19937 random(1);
    std::uniform_int_distribution<Node> any(0, rows_.num_nodes() - 1);
    while (sources_.size() < static_cast<std::size_t>(settings.rounds) + 8) {
      const Node node = any(random);
      if (rows_.degree(node) > 0) sources_.push_back(node);
    }
    for (const char* name : {"bfs", "pagerank", "components", "betweenness", "sssp", "triangles"}) {
      const auto program = must(smelt::graph::builtin_program(name));
      programs_.emplace(name, std::pair(must(program.compile(4, 4)), program.main_procedure()));
    }
  }

  void reference(const std::string& kernel, int round, Numbers* results) {
    using namespace bench::reference;
    if (kernel == "bfs") return keep(bfs(rows_, source(round)), results, [](const auto& x) { return depths(x); });
    if (kernel == "pr") return keep(pr(rows_, 0.85f, 1e-4, 20), results, [](const auto& x) { return numbers_of(x); });
    if (kernel == "cc") return keep(cc(rows_), results, [](const auto& x) { return smallest(x); });
    if (kernel == "bc")
      return keep(bc(rows_, {&sources_[at(round)], 4}), results, [](const auto& x) { return numbers_of(x); });
    if (kernel == "sssp")
      return keep(sssp(rows_, source(round), settings_.reference_delta), results,
                  [](const auto& x) { return numbers_of(x); });
    const std::uint64_t triangles = tc(rows_);
    if (results != nullptr) *results = {static_cast<double>(triangles)};
  }

  /// The seconds of the compiled procedure alone.
  double smelt(const std::string& kernel, int round, Numbers* results, Placement placement = Placement::automatic) {
    placement_ = placement;
    smelt::graph::Arguments given;
    const auto root = std::int64_t{source(round)};
    if (kernel == "bfs") {
      given.values["root"] = root;
      return run("bfs", given, "parent", results,
                 [](const auto& x) { return depths(x.template values<std::int64_t>()); });
    }
    if (kernel == "pr") {
      given.values = {{"damping", 0.85}, {"tolerance", 1e-4}, {"max_iterations", std::int64_t{20}}};
      return run("pagerank", given, "rank", results,
                 [](const auto& x) { return numbers_of(x.template values<float>()); });
    }
    if (kernel == "cc") {
      given.values["directed"] = false;
      return run("components", given, "comp", results,
                 [](const auto& x) { return smallest(x.template values<std::int64_t>()); });
    }
    if (kernel == "bc") {
      given.items["sources"].assign(&sources_[at(round)], &sources_[at(round)] + 4);
      return run("betweenness", given, "BC", results,
                 [](const auto& x) { return numbers_of(x.template values<float>()); });
    }
    if (kernel == "sssp") {
      given.values = {{"root", root}, {"delta", std::int64_t{settings_.delta}}};
      given.columns.emplace("len", *graph_.edge_values("weight"));
      return run("sssp", given, "dist", results,
                 [](const auto& x) { return numbers_of(x.template values<std::int32_t>()); });
    }
    return run("triangles", given, "", results, nullptr);
  }

 private:
  std::size_t at(int round) const { return static_cast<std::size_t>(round + 1); }
  Node source(int round) const { return sources_[at(round)]; }

  template <class Values, class Convert>
  static void keep(const Values& values, Numbers* results, Convert&& convert) {
    if (results != nullptr) *results = convert(values);
  }

  template <class Convert>
  double run(const char* name, smelt::graph::Arguments& given, const char* column, Numbers* results,
             Convert&& convert) {
    const auto& [program, procedure] = programs_.at(name);
    given.graphs.emplace("G", graph_);
    smelt::graph::RunOptions options;
    options.threads = settings_.threads;
    options.placement = placement_;
    const auto result = must(program.run(procedure, given, options));
    if (results != nullptr) {
      if constexpr (std::is_same_v<std::remove_cvref_t<Convert>, std::nullptr_t>) {
        *results = {static_cast<double>(std::get<std::int64_t>(result.returned))};
      } else {
        *results = convert(result.columns.at(column));
      }
    }
    return result.seconds;
  }

  const Settings& settings_;
  const Graph& graph_;
  const Rows rows_;
  Placement placement_ = Placement::automatic;
  std::vector<Node> sources_;
  std::map<std::string, std::pair<smelt::graph::CompiledProgram, std::string>> programs_;
};

struct Times {
  std::vector<double> smelt, smelt_call, reference;
  double ratio() const { return median(reference) / median(smelt); }
};

std::map<std::string, Times> measure(const Settings& settings, Kernels& kernels) {
  std::map<std::string, Times> times;
  for (const auto& kernel : settings.kernels) {
    Numbers ours, theirs;
    kernels.smelt(kernel, -1, &ours);
    kernels.reference(kernel, -1, &theirs);
    if (!alike(kernel, ours, theirs)) throw std::runtime_error(kernel + ": the results differ");
  }
  for (int round = 0; round < settings.rounds; ++round) {
    for (const auto& kernel : settings.kernels) {
      auto& own = times[kernel];
      const auto smelt = [&] {
        double seconds = 0;
        wait_until_idle();
        own.smelt_call.push_back(seconds_of([&] { seconds = kernels.smelt(kernel, round, nullptr); }));
        own.smelt.push_back(seconds);
      };
      const auto reference = [&] {
        wait_until_idle();
        if (!settings.plain) wake_openmp();
        own.reference.push_back(settings.plain ? kernels.smelt(kernel, round, nullptr, Placement::never)
                                               : seconds_of([&] { kernels.reference(kernel, round, nullptr); }));
      };
      if (round % 2 == 0) smelt();
      reference();
      if (round % 2 != 0) smelt();
    }
  }
  return times;
}

std::string processor() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

/// The text is not the library's own to the letter, so that it is compiled as any other.
nlohmann::json compile_times(const std::vector<std::string>& files) {
  nlohmann::json times;
  for (const auto& file : files) {
    std::ifstream stream(file);
    const std::string text = std::string(std::istreambuf_iterator<char>(stream), {}) + "// compiled at run time\n";
    const auto parse = [&] { return smelt::graph::GreenMarl::parse(file, text); };
    std::vector<double> front, cached;
    for (int i = 0; i < 9; ++i) front.push_back(seconds_of([&] { (void)parse().cpp(); }));
    smelt::graph::CompileOptions without_cache;
    without_cache.cache = false;
    const double whole = seconds_of([&] { (void)must(parse().compile(4, 4, without_cache)); });
    (void)must(parse().compile(4, 4));
    for (int i = 0; i < 9; ++i) cached.push_back(seconds_of([&] { (void)must(parse().compile(4, 4)); }));
    const std::string name = file.substr(file.rfind('/') + 1);
    times[name] = {{"front_end_s", median(front)}, {"with_compiler_s", whole}, {"cached_s", median(cached)}};
    std::printf("%-20s front end %.1f ms, with the C++ compiler %.2f s, cached %.1f ms\n", name.c_str(),
                median(front) * 1e3, whole, median(cached) * 1e3);
  }
  return times;
}

nlohmann::json as_json(const Settings& settings, const Graph& graph, const std::map<std::string, Times>& times) {
  nlohmann::json kernels;
  const std::string other = settings.plain ? "plain" : "reference";
  for (const auto& [name, own] : times) {
    kernels[name] = {{"smelt_s", median(own.smelt)},
                     {"smelt_call_s", median(own.smelt_call)},
                     {other + "_s", median(own.reference)},
                     {other + "/smelt", own.ratio()},
                     {"all_smelt_s", own.smelt},
                     {"all_" + other + "_s", own.reference}};
  }
  return {{"benchmark", settings.plain ? "graph-plain" : "graph-kernels"},
          {"machine", processor()},
          {"commit", settings.commit},
          {"compiler", __VERSION__},
          {"graph", settings.graph},
          {"nodes", graph.num_nodes()},
          {"edges", graph.num_edges()},
          {"threads", settings.threads},
          {"rounds", settings.rounds},
          {"kernels", kernels}};
}

void report(const Settings& settings, const std::map<std::string, Times>& times) {
  std::printf("%s, %d threads, medians of %d rounds\n", settings.graph.c_str(), settings.threads, settings.rounds);
  std::printf("%-6s %12s %12s %12s %18s\n", "kernel", "smelt ms", "with call", settings.plain ? "plain" : "reference",
              settings.plain ? "plain / smelt" : "reference / smelt");
  double logs = 0;
  for (const auto& name : settings.kernels) {
    const auto& own = times.at(name);
    logs += std::log(own.ratio());
    std::printf("%-6s %12.2f %12.2f %12.2f %18.2f\n", name.c_str(), median(own.smelt) * 1e3,
                median(own.smelt_call) * 1e3, median(own.reference) * 1e3, own.ratio());
  }
  std::printf("geometric mean %53.2f\n", std::exp(logs / static_cast<double>(settings.kernels.size())));
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("the six GAP kernels: compiled Green-Marl beside hand-written OpenMP");
  app.add_option("--graph", settings.graph, "kron:SCALE or uniform:SCALE");
  app.add_option("--threads", settings.threads, "threads of both");
  app.add_option("--rounds", settings.rounds, "measured runs of each kernel");
  app.add_option("--kernels", settings.kernels, "which ones")->delimiter(',');
  app.add_option("--compile", settings.programs, "programs to compile instead")->delimiter(',');
  app.add_option("--delta", settings.delta, "of smelt's sssp");
  app.add_option("--reference-delta", settings.reference_delta, "of the reference's sssp");
  app.add_flag("--plain", settings.plain, "smelt's programs without placement instead of the reference");
  app.add_option("--json", settings.json, "where the results go");
  app.add_option("--commit", settings.commit, "what the results say of the source");
  CLI11_PARSE(app, argc, argv);
  try {
    if (!settings.programs.empty()) {
      const auto times = compile_times(settings.programs);
      const nlohmann::json document = {{"benchmark", "graph-compile"},
                                       {"machine", processor()},
                                       {"commit", settings.commit},
                                       {"compiler", __VERSION__},
                                       {"programs", times}};
      if (!settings.json.empty()) std::ofstream(settings.json) << document.dump(1) << '\n';
      return 0;
    }
    omp_set_num_threads(settings.threads);
    const auto graph = must(
        smelt::graph::generate(must(smelt::graph::parse_generator(settings.graph + ":weights=255")), settings.threads));
    Kernels kernels(settings, graph);
    const auto times = measure(settings, kernels);
    report(settings, times);
    if (!settings.json.empty()) std::ofstream(settings.json) << as_json(settings, graph, times).dump(1) << '\n';
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernels: %s\n", error.what());
    return 1;
  }
  return 0;
}
