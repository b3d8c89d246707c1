// What moving bytes costs: the equations of docs/reference/model.md, "Copies".
//
// Measured: a broken line through the four sizes that were measured, which goes on at the rate of
// memory.
//
//   ns |                        /
//      |                    /     memory_ns_per_kib
//      |            . /
//      |     . '          shared_ns_per_kib
//      | .'       cached_ns_per_kib
//      |' startup_ns
//      +----+-------+-----------+---- bytes
//        cached   shared      memory           (and a chunk, smaller than cached)
//
// Estimated: a core waits for `lines_in_flight` cache lines at once, so a line costs it the latency
// of the pair divided by that (Little's law).
#include "machine/model/copy_costs.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

#include "smelt/machine.hpp"

namespace smelt {
namespace {

constexpr double line_bytes = 64.0;
constexpr double kib = 1024.0;

// Assumptions of the estimate; docs/reference/model.md gives the reasons.
constexpr double lines_in_flight = 12.0;    ///< line fill buffers of a core: 10 to 16 on x86 since 2008
constexpr double own_line_ns = 2.0;         ///< copying a line within the own cache
constexpr double memory_line_ns = 6.4;      ///< copying a line out of memory and back: 10 GB/s
constexpr double saturating_copiers = 4.0;  ///< PUs that use up the memory bandwidth of a NUMA node
constexpr double add_share = 0.5;           ///< of own_line_ns, for adding a line that is there
constexpr ProcessCopyCosts estimated_process = {800.0, 50.0};

/// The time of a copy, by where its bytes come from.
struct CopyTerms {
  double startup_ns = 0.0;
  double chunk_ns = 0.0;
  double cached_ns = 0.0;
  double shared_ns = 0.0;
  double memory_ns = 0.0;
};

/// Time that a line from (low, low_ns) to (high, high_ns) adds up to `bytes`. Requires low_ns <= high_ns.
double rise_ns(double low, double low_ns, double high, double high_ns, double bytes) {
  if (bytes <= low) return 0.0;
  return (std::min(bytes, high) - low) / (high - low) * (high_ns - low_ns);
}

CopyTerms measured_parts(const CopyCosts& copy, std::size_t from, std::size_t to, double bytes) {
  const double memory_rate = copy.memory_ns_per_kib(from, to) / kib;
  const double chunk_ns = copy.chunk_bytes * copy.chunk_ns_per_kib(from, to) / kib;
  const double cached_ns = std::max(chunk_ns, copy.cached_bytes * copy.cached_ns_per_kib(from, to) / kib);
  const double shared_ns = std::max(cached_ns, copy.shared_bytes * copy.shared_ns_per_kib(from, to) / kib);
  const double memory_ns = std::max(shared_ns, copy.memory_bytes * memory_rate);
  CopyTerms parts;
  parts.startup_ns = copy.startup_ns(from, to);
  parts.chunk_ns = rise_ns(0.0, 0.0, copy.chunk_bytes, chunk_ns, bytes);
  parts.cached_ns = rise_ns(copy.chunk_bytes, chunk_ns, copy.cached_bytes, cached_ns, bytes);
  parts.shared_ns = rise_ns(copy.cached_bytes, cached_ns, copy.shared_bytes, shared_ns, bytes);
  parts.memory_ns = rise_ns(copy.shared_bytes, shared_ns, copy.memory_bytes, memory_ns, bytes);
  parts.memory_ns += std::max(0.0, bytes - copy.memory_bytes) * memory_rate;
  return parts;
}

double one_way_ns(const Machine& machine, std::size_t from, std::size_t to) {
  if (from == to || !machine.has_costs()) return 0.0;
  const double propagation = machine.propagation_ns ? (*machine.propagation_ns)(from, to) : 0.0;
  return machine.send_ns(from, to) + machine.recv_ns(from, to) + propagation;
}

CopyTerms estimated_parts(const Machine& machine, std::size_t from, std::size_t to, double bytes) {
  const double latency = one_way_ns(machine, from, to);
  const double line_ns = std::max(own_line_ns, latency / lines_in_flight);
  const double cached = std::min(bytes, estimated_cache_bytes);
  const double memory_ns = (bytes - cached) / line_bytes * std::max(memory_line_ns, line_ns);
  return {latency, 0.0, cached / line_bytes * line_ns, 0.0, memory_ns};
}

double measured_factor(const std::vector<double>& contention, std::size_t pus, int copiers) {
  if (copiers <= 1 || contention.size() < 2) return 1.0;
  const auto all = std::min(static_cast<std::size_t>(copiers), pus);
  const auto below = static_cast<std::size_t>(std::bit_width(all)) - 1;
  if (below + 1 >= contention.size()) return contention.back();
  const double low = static_cast<double>(std::size_t{1} << below);
  const double high = static_cast<double>(std::min(std::size_t{2} << below, pus));
  const double share = (static_cast<double>(all) - low) / (high - low);
  return contention[below] + share * (contention[below + 1] - contention[below]);
}

double estimated_factor(const Machine& machine, int copiers) {
  const double nodes = static_cast<double>(std::max<std::size_t>(1, machine.numa_nodes.size()));
  return std::max(1.0, copiers / (nodes * saturating_copiers));
}

/// Linear in the logarithm of the size between the measured ones.
double combine_share_of(const Machine& machine, double bytes) {
  const double sizes[] = {combine_sizes_bytes[0], combine_sizes_bytes[1],
                          std::max(2 * combine_sizes_bytes[1], machine.copy->cached_bytes)};
  const auto& shares = machine.combine_share;
  if (bytes <= sizes[0]) return shares[0];
  const std::size_t k = bytes <= sizes[1] ? 1 : 2;
  const double way = std::log(std::min(bytes, sizes[k]) / sizes[k - 1]) / std::log(sizes[k] / sizes[k - 1]);
  return shares[k - 1] + way * (shares[k] - shares[k - 1]);
}

/// A multiple of a copy up to cached_bytes, and what a copy takes beyond. Loads that are waited for hide less latency
/// than a copy does, and copiers that wait disturb each other less.
double shared_combine_ns(const Machine& machine, std::size_t from, std::size_t to, double bytes, int copiers,
                         double buffer_bytes) {
  const double cached = std::min(bytes, machine.copy->cached_bytes);
  const double beyond_ns = copy_ns(machine, from, to, bytes, copiers) - copy_ns(machine, from, to, cached, copiers);
  return combine_share_of(machine, std::max(cached, buffer_bytes)) * copy_ns(machine, from, to, cached) + beyond_ns;
}

}  // namespace

std::size_t contention_levels(std::size_t pus) noexcept {
  return pus < 2 ? 1 : static_cast<std::size_t>(std::bit_width(pus - 1)) + 1;
}

double chunk_slowdown(const Machine& machine, int copiers) noexcept {
  return std::max(1.0, measured_factor(machine.chunk_contention, machine.size(), copiers));
}

double copy_ns(const Machine& machine, std::size_t from, std::size_t to, double bytes, int copiers) noexcept {
  if (!(bytes > 0.0)) return 0.0;
  if (!machine.copy) {
    const auto parts = estimated_parts(machine, from, to, bytes);
    return parts.startup_ns + parts.cached_ns + parts.memory_ns * estimated_factor(machine, copiers);
  }
  const auto& copy = *machine.copy;
  const auto parts = measured_parts(copy, from, to, bytes);
  // Own data that fits the caches of the core disturbs nobody.
  static const std::vector<double> alone = {1.0};
  const auto& of_chunks = machine.chunk_contention.empty() ? copy.cached_contention
                          : from == to                     ? alone
                                                           : machine.chunk_contention;
  return parts.startup_ns + parts.chunk_ns * std::max(1.0, measured_factor(of_chunks, machine.size(), copiers)) +
         parts.cached_ns * measured_factor(copy.cached_contention, machine.size(), copiers) +
         parts.shared_ns * measured_factor(copy.shared_contention, machine.size(), copiers) +
         parts.memory_ns * measured_factor(copy.memory_contention, machine.size(), copiers);
}

double process_copy_ns(const Machine& machine, std::size_t from, std::size_t to, double bytes, int copiers) noexcept {
  if (!(bytes > 0.0)) return 0.0;
  if (machine.copy && !machine.copy->process) return std::numeric_limits<double>::infinity();
  const auto& process = machine.copy ? *machine.copy->process : estimated_process;
  return process.call_ns + bytes / kib * process.ns_per_kib + copy_ns(machine, from, to, bytes, copiers);
}

double combine_ns(const Machine& machine, std::size_t from, std::size_t to, double bytes, int copiers) noexcept {
  return combine_part_ns(machine, from, to, bytes, bytes, copiers);
}

double combine_part_ns(const Machine& machine, std::size_t from, std::size_t to, double bytes, double buffer_bytes,
                       int copiers) noexcept {
  const double copied = copy_ns(machine, from, to, bytes, copiers);
  if (!(bytes > 0.0)) return copied;
  if (!machine.copy) return copied + bytes / line_bytes * own_line_ns * add_share;
  if (from != to && machine.combine_share.size() == std::size(combine_sizes_bytes) + 1) {
    return std::max(copied, shared_combine_ns(machine, from, to, bytes, copiers, buffer_bytes));
  }
  const double more = std::max(0.0, machine.copy->add_ns_per_kib - machine.copy->cached_ns_per_kib(to, to));
  return copied + bytes / kib * more;
}

}  // namespace smelt
