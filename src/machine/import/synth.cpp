// Synthetic machines: a regular nest of packages, NUMA nodes, L3 caches, cores and PUs.
//
//   package p        cores [p*C, (p+1)*C)                      C = spec.cores
//   NUMA node        C / numa_per_package consecutive cores
//   L3               C / l3 consecutive cores
//   core             smt PUs with consecutive os_index
//
// L3 caches and NUMA nodes of a package nest either way: several L3s in a node (chiplets), or several nodes under one
// L3 (sub-NUMA clusters). The latency of a pair is that of its closest common level:
//
//   same core                       smt_ns
//   same L3 and same NUMA node      l3_ns
//   same L3 or same NUMA node       numa_ns
//   same package                    package_ns
//   else                            remote_ns
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "machine/costs_by_class.hpp"
#include "machine/fingerprint.hpp"
#include "machine/limits.hpp"
#include "smelt/machine.hpp"

namespace smelt {
namespace {

constexpr std::size_t most_jittered_units = 256;

std::uint64_t splitmix64(std::uint64_t state) {
  state += 0x9e3779b97f4a7c15u;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
  return state ^ (state >> 31);
}

/// Uniform in [-1, 1), a function of the seed and the unordered pair alone.
double noise(std::uint64_t seed, std::uint64_t low, std::uint64_t high) {
  const auto bits = splitmix64(splitmix64(seed) ^ (low << 32 | high));
  return static_cast<double>(bits >> 11) * 0x1p-52 - 1.0;
}

Result<void> check_counts(const SynthSpec& spec) {
  const std::pair<const char*, int> counts[] = {{"packages", spec.packages},
                                                {"numa_per_package", spec.numa_per_package},
                                                {"cores", spec.cores},
                                                {"smt", spec.smt},
                                                {"l3", spec.l3}};
  long long pus = 1;
  for (const auto& [name, count] : counts) {
    if (count < 1 || count > max_pus) {
      return make_error(Status::invalid_argument, "{}: must be 1..{}, is {}", name, max_pus, count);
    }
  }
  pus = 1LL * spec.packages * spec.cores;  // at most 2^24, so the next product fits too
  pus *= spec.smt;
  if (pus > max_pus) {
    return make_error(Status::invalid_argument, "packages x cores x smt: {} PUs, but at most {} are supported", pus,
                      max_pus);
  }
  if (spec.cores % spec.numa_per_package != 0) {
    return make_error(Status::invalid_argument, "numa_per_package: {} NUMA nodes do not divide {} cores per package",
                      spec.numa_per_package, spec.cores);
  }
  if (spec.cores % spec.l3 != 0) {
    return make_error(Status::invalid_argument, "l3: {} L3 caches do not divide {} cores per package", spec.l3,
                      spec.cores);
  }
  if (spec.l3 % spec.numa_per_package != 0 && spec.numa_per_package % spec.l3 != 0) {
    return make_error(Status::invalid_argument,
                      "l3: {} L3 caches and {} NUMA nodes per package do not nest; one must divide the other", spec.l3,
                      spec.numa_per_package);
  }
  return {};
}

Result<void> check_costs(const SynthSpec& spec) {
  const std::pair<const char*, double> costs[] = {{"smt_ns", spec.smt_ns},
                                                  {"l3_ns", spec.l3_ns},
                                                  {"numa_ns", spec.numa_ns},
                                                  {"package_ns", spec.package_ns},
                                                  {"remote_ns", spec.remote_ns}};
  for (const auto& [name, cost] : costs) {
    if (!(cost >= 0.0 && cost <= max_cost_ns / 2)) {
      return make_error(Status::invalid_argument, "{}: must be a time of 0..{} ns, is {}", name, max_cost_ns / 2, cost);
    }
  }
  if (!(spec.send_share >= 0.0 && spec.send_share <= 1.0)) {
    return make_error(Status::invalid_argument, "send_share: must be 0..1, is {}", spec.send_share);
  }
  if (!(spec.jitter >= 0.0 && spec.jitter < 1.0)) {
    return make_error(Status::invalid_argument, "jitter: must be 0 or more and less than 1, is {}", spec.jitter);
  }
  return {};
}

void place_pus(const SynthSpec& spec, Machine& machine) {
  const int cores = spec.packages * spec.cores;
  const int cores_per_node = spec.cores / spec.numa_per_package;
  const int cores_per_l3 = spec.cores / spec.l3;
  for (int core = 0; core < cores; ++core) {
    for (int thread = 0; thread < spec.smt; ++thread) {
      machine.pus.push_back({.os_index = core * spec.smt + thread,
                             .core = core,
                             .package = core / spec.cores,
                             .numa_node = core / cores_per_node,
                             .l2 = core,
                             .l3 = core / cores_per_l3});
    }
  }
  for (int node = 0; node < spec.packages * spec.numa_per_package; ++node) {
    machine.numa_nodes.push_back({.os_index = node, .memory_bytes = 0});
  }
}

double latency_ns(const SynthSpec& spec, const Pu& a, const Pu& b) {
  if (a.core == b.core) return spec.smt_ns;
  const bool same_l3 = a.l3 == b.l3;
  const bool same_node = a.numa_node == b.numa_node;
  if (same_l3 && same_node) return spec.l3_ns;
  if (same_l3 || same_node) return spec.numa_ns;
  return a.package == b.package ? spec.package_ns : spec.remote_ns;
}

/// Picoseconds are precise enough, and keep machine files of thousands of PUs short.
double rounded(double cost_ns) { return std::round(cost_ns * 1000.0) / 1000.0; }

void fill_costs(const SynthSpec& spec, Machine& machine) {
  const auto n = machine.size();
  machine.send_ns = Matrix(n);
  machine.recv_ns = Matrix(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      double latency = latency_ns(spec, machine.pus[i], machine.pus[j]);
      if (spec.jitter > 0.0) latency *= 1.0 + spec.jitter * noise(spec.seed, i, j);
      machine.send_ns(i, j) = machine.send_ns(j, i) = rounded(spec.send_share * latency);
      machine.recv_ns(i, j) = machine.recv_ns(j, i) = rounded((1.0 - spec.send_share) * latency);
    }
  }
}

double latency_ns(const SynthSpec& spec, SharedUnits shared) {
  const auto shares = [&](int level) { return (shared >> level & 1) != 0; };
  if (shares(4)) return spec.smt_ns;
  if (shares(2) && shares(1)) return spec.l3_ns;
  if (shares(2) || shares(1)) return spec.numa_ns;
  return shares(0) ? spec.package_ns : spec.remote_ns;
}

/// The same by class. Jitter applies to pairs of units: those of the finest level above the cores that has few enough.
/// A pair within an L3 has none, also where the units are NUMA nodes under that.
void fill_classes(const SynthSpec& spec, Machine& machine) {
  const auto places = std::make_shared<const Places>(machine.pus);
  const auto occurs = places->occurring()[0];
  auto send = std::make_shared<CostsByClass>(places), recv = std::make_shared<CostsByClass>(places);
  for (int shared = 0; shared < shared_count; ++shared) {
    if (!occurs[static_cast<std::size_t>(shared)]) continue;
    const double latency = latency_ns(spec, static_cast<SharedUnits>(shared));
    send->set_class(0, 0, static_cast<SharedUnits>(shared), rounded(spec.send_share * latency));
    recv->set_class(0, 0, static_cast<SharedUnits>(shared), rounded((1.0 - spec.send_share) * latency));
  }
  if (spec.jitter > 0.0) {
    int level = spec.l3 >= spec.numa_per_package ? 2 : 1;
    if (places->units(level) > most_jittered_units) level = spec.l3 >= spec.numa_per_package ? 1 : 2;
    if (places->units(level) > most_jittered_units) level = 0;
    std::vector<Residual> sends, recvs;
    std::vector<std::size_t> first(places->units(level), machine.size());
    for (std::size_t pu = machine.size(); pu-- > 0;) first[static_cast<std::size_t>(places->unit(level, pu))] = pu;
    for (std::size_t a = 0; a < first.size(); ++a) {
      for (std::size_t b = 0; b < first.size(); ++b) {
        if (a == b) continue;
        const double latency = latency_ns(spec, places->shared(first[a], first[b])) *
                               (1.0 + spec.jitter * noise(spec.seed, std::min(a, b), std::max(a, b)));
        const int from = static_cast<int>(a), to = static_cast<int>(b);
        sends.push_back({from, to, rounded(spec.send_share * latency)});
        recvs.push_back({from, to, rounded((1.0 - spec.send_share) * latency)});
      }
    }
    send->set_residuals(level, std::move(sends));
    recv->set_residuals(level, std::move(recvs));
  }
  machine.send_ns = Matrix(std::move(send));
  machine.recv_ns = Matrix(std::move(recv));
}

}  // namespace

Result<Machine> synthesize_machine(const SynthSpec& spec) {
  if (auto counts = check_counts(spec); !counts) return counts.error();
  if (auto costs = check_costs(spec); !costs) return costs.error();
  Machine machine;
  place_pus(spec, machine);
  machine.size() <= most_pus_in_full ? fill_costs(spec, machine) : fill_classes(spec, machine);
  machine.name = "synthetic, " + shape_of(machine);
  machine.fingerprint = fingerprint_of("synthetic", machine);
  machine.method = "synthetic";
  return machine;
}

}  // namespace smelt
