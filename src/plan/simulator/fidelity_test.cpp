// The simulator against a published many-core machine: what it predicts from the costs of pairs, beside what the same
// authors measured of whole operations (docs/explanation/many-core-model.md).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "smelt/machine.hpp"
#include "smelt/plan.hpp"

namespace smelt {
namespace {

struct Compared {
  std::string name;
  double predicted, measured;
  double ratio() const { return predicted / measured; }
};

/// "algorithm,bintree,bintree_stderr,...": a time in thousands of cycles for every tree, by tree.
std::map<std::string, double> published_times(const std::filesystem::path& file, const std::string& algorithm) {
  std::ifstream stream(file);
  std::string titles, line;
  std::getline(stream, titles);
  std::map<std::string, double> times;
  while (std::getline(stream, line)) {
    if (line.rfind(algorithm + ",", 0) != 0) continue;
    std::istringstream names(titles), cells(line);
    std::string name, cell;
    while (std::getline(names, name, ',') && std::getline(cells, cell, ',')) {
      if (name != "algorithm") times[name] = 1000.0 * std::strtod(cell.c_str(), nullptr);
    }
  }
  return times;
}

std::vector<Compared> compared(const Machine& machine, const std::filesystem::path& file) {
  constexpr std::pair<Operation, const char*> operations[] = {{Operation::broadcast, "ab"},
                                                              {Operation::reduce, "reduction"}};
  constexpr std::pair<const char*, const char*> trees[] = {
      {"binary", "bintree"}, {"cluster", "cluster"},     {"bad", "badtree"}, {"sequential", "sequential"},
      {"mst", "mst"},        {"fibonacci", "fibonacci"}, {"adaptive", "AT"}};
  std::vector<Compared> all;
  for (const auto& [operation, algorithm] : operations) {
    const auto times = published_times(file, algorithm);
    for (const auto& [topology, title] : trees) {
      PlanOptions options;
      options.topology = topology;
      options.root = 0;
      options.completion = true;  // both were timed with the message that says that all is done
      const auto plan = make_plan(machine, whole_machine(machine), operation, options);
      const auto measured = times.find(title);
      if (!plan || measured == times.end()) return {};
      all.push_back({std::string(to_string(operation)) + " " + topology, plan->predicted_ns, measured->second});
    }
  }
  return all;
}

/// Kendall's tau: how many of the pairs are in the same order, less those that are not.
double rank_correlation(const std::vector<Compared>& all) {
  double agree = 0.0, pairs = 0.0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j, pairs += 1.0) {
      const double product = (all[i].predicted - all[j].predicted) * (all[i].measured - all[j].measured);
      agree += product > 0.0 ? 1.0 : product < 0.0 ? -1.0 : 0.0;
    }
  }
  return agree / pairs;
}

double mean_error(const std::vector<Compared>& all) {
  double sum = 0.0;
  for (const Compared& one : all) sum += std::abs(one.ratio() - 1.0);
  return sum / static_cast<double>(all.size());
}

TEST(PublishedManyCore, IsPredicted) {
  const char* shared = std::getenv("SMELT_SHARED");
  const auto directory = std::filesystem::path(shared != nullptr ? shared : SMELT_SOURCE_DIR "/../shared") /
                         "machines/machinedb/intel-xeon-e5-v2-2x10";
  if (!std::filesystem::exists(directory)) {
    GTEST_SKIP() << "no published machine in " << directory << "; set SMELT_SHARED";
  }
  auto machine = import_machinedb(directory);
  ASSERT_TRUE(machine) << machine.error().message;
  const auto all = compared(*machine, directory / "measured.csv");
  ASSERT_EQ(all.size(), 14U);
  for (const Compared& one : all) {
    EXPECT_LT(one.ratio(), 1.5) << one.name;
    EXPECT_GT(one.ratio(), 1 / 1.5) << one.name;
  }
  EXPECT_LE(mean_error(all), 0.15);
  EXPECT_GE(rank_correlation(all), 0.8);
  // The published formula, on the same costs, is much further away.
  machine->propagation_ns.reset();
  machine->send_gap_ns.reset();
  machine->recv_gap_ns.reset();
  EXPECT_GT(mean_error(compared(*machine, directory / "measured.csv")), 0.4);
}

}  // namespace
}  // namespace smelt
