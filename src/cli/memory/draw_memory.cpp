// What the memory of a machine costs, as tables.
#include <fmt/format.h>

#include <algorithm>

#include "cli/memory/memory.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {

std::string draw_memory(const Machine& machine) {
  if (!machine.memory) return {};
  const MemoryCosts& costs = *machine.memory;
  Table pairs("lrrrrrr");
  pairs.header({"PUs of, memory of", "latency", "random", "read", "write", "read, all", "write, all"});
  // Imported costs do not have all of it.
  const auto gbs = [](double value) { return value > 0.0 ? fmt::format("{:.1f} GB/s", value) : std::string("-"); };
  const auto ns = [](double value, int digits) {
    return value > 0.0 ? fmt::format("{:.{}f} ns", value, digits) : std::string("-");
  };
  for (std::size_t a = 0; a < costs.latency_ns.size(); ++a) {
    for (std::size_t m = 0; m < costs.latency_ns.size(); ++m) {
      if (std::max({costs.latency_ns(a, m), costs.read_gbs(a, m), costs.read_all_gbs(a, m)}) <= 0.0) continue;
      pairs.row({fmt::format("NUMA node {}, {}", machine.numa_nodes[a].os_index, machine.numa_nodes[m].os_index),
                 ns(costs.latency_ns(a, m), 0), ns(costs.gather_ns(a, m), 1), gbs(costs.read_gbs(a, m)),
                 gbs(costs.write_gbs(a, m)), gbs(costs.read_all_gbs(a, m)), gbs(costs.write_all_gbs(a, m))});
    }
  }
  if (costs.touch_ns_per_mib.front() <= 0.0) return pairs.text();
  Table pages("lrrrr");
  pages.header({"pages", "TLB reach", "miss, dependent", "miss, independent", "first touch"});
  for (std::size_t k = 0; k < costs.page_bytes.size(); ++k) {
    pages.row({format_bytes(costs.page_bytes[k]), format_bytes(costs.reach_bytes[k]),
               fmt::format("{:.0f} ns", costs.walk_ns[k]), fmt::format("{:.1f} ns", costs.gather_walk_ns[k]),
               fmt::format("{:.0f} us per MiB", costs.touch_ns_per_mib[k] / 1e3)});
  }
  std::string text = pairs.text() + pages.text();
  if (costs.interleaved_gbs > 0.0) text += fmt::format("  interleaved, all threads: {}\n", gbs(costs.interleaved_gbs));
  return text + fmt::format("  copies: memcpy {}, past the caches {}, string instruction {}; all threads {}\n",
                            gbs(costs.copy_memcpy_gbs), gbs(costs.copy_nontemporal_gbs), gbs(costs.copy_string_gbs),
                            gbs(costs.copy_threads_gbs));
}

}  // namespace smelt::cli
