// Question: what does a model lose when most pairs of PUs are inferred from a few measured ones?
//
// Method: a published table of pairs replaces the machine. As in `smelt measure` when time is short, a few pairs of
// each class are asked for, classes that are not homogeneous are split, and all other pairs are inferred. The inferred
// latencies are compared with the table's. The broadcast tree planned on the inferred machine is costed on the table,
// beside the one planned on the table.
//
//   bench_inference DIRECTORY [SHARE...]    JSON; shares of the pairs that may be measured, such as 0.05
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "measure/pair_classes.hpp"
#include "smelt/machine.hpp"
#include "smelt/plan.hpp"

namespace {

using namespace smelt;
using namespace smelt::measure;

constexpr std::size_t first_samples = 3;

PairCosts costs_of(const Machine& machine, Pair pair) {
  const auto a = static_cast<std::size_t>(pair.a), b = static_cast<std::size_t>(pair.b);
  PairCosts costs;
  const auto set = [&](Cost cost, double value) { costs[cost] = {value, 0.0, 0.0}; };
  set(Cost::send_forward, machine.send_ns(a, b));
  set(Cost::recv_forward, machine.recv_ns(a, b));
  set(Cost::send_backward, machine.send_ns(b, a));
  set(Cost::recv_backward, machine.recv_ns(b, a));
  set(Cost::round_trip, machine.send_ns(a, b) + machine.recv_ns(a, b) + machine.send_ns(b, a) + machine.recv_ns(b, a));
  return costs;
}

double latency(const Machine& machine, std::size_t a, std::size_t b) {
  return machine.send_ns(a, b) + machine.recv_ns(a, b);
}

struct Inferred {
  Machine machine;
  std::size_t measured = 0;
};

/// As the campaign does it, with a number of pairs in place of a time.
Inferred infer(const Machine& machine, std::size_t most_pairs) {
  PairClasses classes(machine.pus, most_pairs / (2 * first_samples));
  std::size_t measured = 0;
  for (std::size_t samples = first_samples;; samples *= 2) {
    do {
      for (const Pair pair : classes.wanted(samples)) {
        if (measured >= most_pairs) break;
        classes.record(pair, costs_of(machine, pair));
        ++measured;
      }
    } while (measured < most_pairs && classes.refine((most_pairs - measured) / first_samples));
    if (samples >= PairClasses::max_samples || measured + classes.class_count() * samples > most_pairs) break;
  }
  classes.finish();
  Inferred result{machine, measured};
  for (std::size_t a = 0; a < machine.size(); ++a) {
    for (std::size_t b = 0; b < machine.size(); ++b) {
      if (a == b) continue;
      const auto costs = classes.costs(static_cast<int>(a), static_cast<int>(b), true);
      result.machine.send_ns(a, b) = costs[Cost::send_forward].value;
      result.machine.recv_ns(a, b) = costs[Cost::recv_forward].value;
    }
  }
  return result;
}

double percentile(std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

/// What the tree takes on `truth`.
double broadcast_ns(const Machine& planned_on, const Machine& truth) {
  PlanOptions options;
  options.search_ms = 0.0;
  options.root = 0;
  const auto group = whole_machine(truth);
  const auto plan = make_plan(planned_on, group, Operation::broadcast, options);
  if (!plan) return NAN;
  const auto again = plan_from_tree(truth, group, Operation::broadcast, *plan->broadcast_tree);
  return again ? again->predicted_ns : NAN;
}

void compare(const std::string& name, const Machine& truth, double share, bool& first) {
  const auto n = truth.size();
  const auto pairs = n * (n - 1) / 2;
  const auto inferred = infer(truth, static_cast<std::size_t>(share * static_cast<double>(pairs)));
  std::vector<double> errors;
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      errors.push_back(std::abs(latency(inferred.machine, a, b) / latency(truth, a, b) - 1.0));
    }
  }
  std::sort(errors.begin(), errors.end());
  fmt::print("{}    [\"{}\", {}, {}, {}, {:.4f}, {:.4f}, {:.4f}, {:.4f}]", first ? "" : ",\n", name, n, pairs,
             inferred.measured, percentile(errors, 0.5), percentile(errors, 0.95), errors.back(),
             broadcast_ns(inferred.machine, truth) / broadcast_ns(truth, truth) - 1.0);
  first = false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_inference DIRECTORY [SHARE...]\n");
    return 2;
  }
  std::vector<double> shares;
  for (int i = 2; i < argc; ++i) shares.push_back(std::strtod(argv[i], nullptr));
  if (shares.empty()) shares = {0.05, 0.2, 0.5};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  fmt::print("{{\n  \"question\": \"What a model loses when most pairs are inferred from a few measured ones.\",\n");
  fmt::print(
      "  \"columns\": [\"machine\", \"pus\", \"pairs\", \"measured\", "
      "\"median_error_fraction\", \"p95_error_fraction\", \"largest_error_fraction\", "
      "\"broadcast_slower_fraction\"],\n  \"rows\": [\n");
  bool first = true;
  for (const auto& file : files) {
    const auto machine = import_core_to_core(file);
    if (!machine) {
      fmt::print(stderr, "{}\n", machine.error().message);
      return 1;
    }
    for (const double share : shares) compare(file.stem().string(), *machine, share, first);
  }
  fmt::print("\n  ]\n}}\n");
  return 0;
}
