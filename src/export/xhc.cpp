// Open MPI 5, coll/xhc: shared-memory collectives in a hierarchy of leaders, by environment variables.
//
//   OMPI_MCA_coll_xhc_hierarchy=numa,socket    levels from the innermost; none: "flat"
//   OMPI_MCA_coll_xhc_chunk_size=65536         bytes that go from level to level at a time
//
// A level is used if messages inside its parts are cheaper than messages between them, by the margin.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "export/internal.hpp"

namespace smelt::plan {
namespace {

struct LocalityLevel {
  const char* name;
  int Pu::*part;
};
constexpr LocalityLevel levels[] = {{"l3", &Pu::l3}, {"numa", &Pu::numa_node}, {"socket", &Pu::package}};

/// The part of a level that each rank is in.
std::vector<int> parts(const ExportTarget& job, const LocalityLevel& level) {
  std::vector<int> list;
  for (int pu : job.group.pus) list.push_back(job.machine.pus[static_cast<std::size_t>(pu)].*level.part);
  return list;
}

/// Mean time of a message between ranks of the same part, and between ranks of different parts.
struct LocalityCosts {
  double inside_ns = 0.0, across_ns = 0.0;
};
LocalityCosts contrast(const ExportTarget& job, const std::vector<int>& part) {
  double inside = 0.0, across = 0.0;
  std::size_t insides = 0, acrosses = 0;
  const auto& pus = job.group.pus;
  for (std::size_t a = 0; a < pus.size(); ++a) {
    for (std::size_t b = 0; b < pus.size(); ++b) {
      if (a == b) continue;
      const auto from = static_cast<std::size_t>(pus[a]);
      const auto to = static_cast<std::size_t>(pus[b]);
      const double ns = job.machine.send_ns(from, to) + job.machine.recv_ns(from, to) +
                        (job.machine.propagation_ns ? (*job.machine.propagation_ns)(from, to) : 0.0);
      (part[a] == part[b] ? inside : across) += ns;
      ++(part[a] == part[b] ? insides : acrosses);
    }
  }
  if (insides == 0 || acrosses == 0) return {};
  return {inside / static_cast<double>(insides), across / static_cast<double>(acrosses)};
}

/// The division with parts renumbered by their first rank, so that equal divisions compare equal.
std::vector<std::size_t> canonical(const std::vector<int>& part) {
  std::vector<std::size_t> firsts;
  for (int each : part) {
    std::size_t first = 0;
    while (part[first] != each) ++first;
    firsts.push_back(first);
  }
  return firsts;
}

std::vector<std::string> useful_levels(const ExportTarget& job) {
  std::vector<std::string> names;
  std::set<std::vector<std::size_t>> seen;
  for (const auto& level : levels) {
    const auto part = parts(job, level);
    const auto [inside_ns, across_ns] = contrast(job, part);
    const bool pays = across_ns > 0.0 && inside_ns < (1.0 - job.options.margin) * across_ns;
    if (pays && seen.insert(canonical(part)).second) names.push_back(level.name);
  }
  return names;
}

/// The chunk size with which a long broadcast is fastest.
Result<std::size_t> best_chunk(const ExportTarget& job) {
  std::size_t best = 16384;
  double best_ns = std::numeric_limits<double>::max();
  for (std::size_t chunk = 4096; chunk <= 262144; chunk *= 2) {
    auto ns =
        predict(job, Operation::broadcast, fmt::format("broadcast_tree+direct+tree=cluster+chunk={}", chunk), 4u << 20);
    if (!ns) return ns.error();
    if (*ns < best_ns) {
      best_ns = *ns;
      best = chunk;
    }
  }
  return best;
}

}  // namespace

Result<RuntimeSettings> export_xhc(const ExportTarget& job) {
  RuntimeSettings settings;
  settings.text = fmt::format("# Open MPI 5, coll/xhc: {} ranks on {}\n", job.ranks(), job.machine.name);
  settings.usage = "set -a; . FILE; set +a; mpirun PROGRAM\n";
  if (job.crowded) {
    settings.text += "# Ranks share a PU: the model is not asked, all stays with the runtime.\n";
    return settings;
  }
  const auto names = useful_levels(job);
  settings.text += fmt::format("OMPI_MCA_coll_xhc_priority=100\nOMPI_MCA_coll_xhc_hierarchy={}\n",
                               names.empty() ? "flat" : fmt::format("{}", fmt::join(names, ",")));
  if (names.empty()) {
    settings.text += "# One level: chunks do not wait for one another, their size stays the default.\n";
    return settings;
  }
  auto chunk = best_chunk(job);
  if (!chunk) return chunk.error();
  settings.text += fmt::format("OMPI_MCA_coll_xhc_chunk_size={}\n", *chunk);
  return settings;
}

}  // namespace smelt::plan
