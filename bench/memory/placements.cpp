// Question: what do placements of memory gain in graph programs and streamcluster on the machines of [Kaestle16], by the
// model, beside what the thesis measured there?
// Method: the cost function of docs/reference/memory-model.md over src/memory/choice/published.hpp. Prints the table as
// JSON, which bench/results/simulated keeps.
// Expected shape: the same order as measured. The model has no computation and no barriers: it predicts more.
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "memory/choice/published.hpp"

namespace {

using smelt::Machine, smelt::Placement, smelt::PlacementCandidate;
using namespace smelt::memory;

double phase(const Machine& machine, const std::vector<smelt::ArrayUse>& arrays, Placement read_only, Placement others,
             std::uint64_t page) {
  std::vector<PlacementCandidate> placed;
  for (const auto& use : arrays) placed.push_back({use.read_only ? read_only : others, page});
  return smelt::phase_ns(machine, arrays, placed, 32);
}

const char* separator = "    ";

void row(const char* program, const char* machine, const std::string& from, const std::string& to, double predicted,
         const std::string& thesis) {
  std::printf("%s[\"%s\", \"%s\", \"%s\", \"%s\", \"%.1f\", \"%s\"]", separator, program, machine, from.c_str(),
              to.c_str(), predicted, thesis.c_str());
  separator = ",\n    ";
}

}  // namespace

int main() {
  std::puts(
      "{\n  \"question\": \"What do placements gain on the thesis's machines, by the model and as measured there?\",\n"
      "  \"source\": \"bench/memory/placements.cpp; [Kaestle16] tables 3.1 and 4.3, figures 4.7, 4.8 and 4.10.\",\n"
      "  \"columns\": [\"program\", \"machine\", \"from\", \"to\", \"predicted gain\", \"thesis\"],\n  \"rows\": [");
  constexpr auto single = Placement::single_node, spread = Placement::interleaved, replicated = Placement::replicated;
  const auto clustering = streamcluster(), ranks = pagerank();
  const struct {
    const char* name;
    Machine machine;
    double thesis;
  } machines[] = {{"A IL 4x4x2", thesis_machine(8), 215.6 / 51.8}, {"I SB 4x8x2", sandy_bridge(), 236.5 / 66.4}};
  for (const auto& [name, machine, thesis] : machines) {
    const double before = phase(machine, clustering, single, single, kib4);
    row("streamcluster", name, "one node, 4 KiB", "interleaved, 2 MiB",
        before / phase(machine, clustering, spread, spread, mib2), "");
    row("streamcluster", name, "one node, 4 KiB", "replicated, 2 MiB",
        before / phase(machine, clustering, replicated, spread, mib2), fmt::format("{:.1f}", thesis));
  }
  const struct {
    std::uint64_t page;
    const char* name;
    double thesis;
  } pages[] = {{kib4, "4 KiB", 51.32 / 34.43}, {mib2, "2 MiB", 58.09 / 28.87}, {gib1, "1 GiB", 265.94 / 128.77}};
  for (const auto& [page, name, thesis] : pages) {
    const Machine& machine = machines[0].machine;
    row("PageRank", "A IL 4x4x2", std::string("interleaved, ") + name, std::string("graph replicated, ") + name,
        phase(machine, ranks, spread, spread, page) / phase(machine, ranks, replicated, spread, page),
        fmt::format("{:.1f}", thesis));
  }
  row("PageRank", "I SB 4x8x2", "interleaved, 2 MiB", "graph replicated, 2 MiB",
      phase(machines[1].machine, ranks, spread, spread, mib2) /
          phase(machines[1].machine, ranks, replicated, spread, mib2),
      "");
  const std::pair<Configuration, const char*> configurations[] = {
      {Configuration::distributed, "all distributed"},
      {Configuration::replicated, "and the graph replicated"},
      {Configuration::partitioned, "and loop-indexed arrays partitioned"},
      {Configuration::large_pages, "and 2 MiB pages"},
  };
  for (const auto& [name, machine, measured] : machines) {
    for (const auto& program : graph_programs()) {
      for (const auto& [configuration, change] : configurations) {
        row(program.name, name, "stock Green-Marl", change, gain_over_stock(machine, program, configuration, 32),
            configuration == Configuration::large_pages ? "at most 2" : "");
      }
    }
  }
  std::puts("\n  ]\n}");
  return 0;
}
