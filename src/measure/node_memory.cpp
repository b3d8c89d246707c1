// Loads go to addresses from a multiplicative generator. In a pointer chase, the next address also depends on the
// loaded value, which is always zero, so that the buffer needs no preparation. The time of the generator itself is
// measured on a small buffer and subtracted.
//
//   pair (a, m)      one thread on node a, memory on m: chase, gather, read, write; all cores of a: read, write
//   page sizes       chase and gather on a's own memory, small pages against huge ones, by working set
//   first touch      64 MiB, each page size
//   copies           each method, one thread; the best one, all threads
#include "measure/node_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/stream.hpp"
#include "base/wait.hpp"
#include "machine/topology/affinity.hpp"
#include "machine/topology/numa.hpp"
#include "machine/topology/pages.hpp"
#include "measure/timing_thread.hpp"

namespace smelt::measure {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::uint64_t kept_free_bytes = 256 * mib;
constexpr std::size_t touched_bytes = 64 * mib, least_buffer_bytes = 16 * mib;

// ---- what is timed ---------------------------------------------------------------------------

std::uint64_t next_place(std::uint64_t state) noexcept { return state * 6364136223846793005u + 1442695040888963407u; }

/// A chain of dependent loads. The size of the buffer is a power of two.
double chase_ns(const std::byte* data, std::size_t bytes, int loads) noexcept {
  const std::size_t lines = bytes / 64;
  std::uint64_t state = 12345;
  const auto start = ticks();
  for (int i = 0; i < loads; ++i) {
    std::uint64_t word;
    std::memcpy(&word, data + (state >> 33) % lines * 64, sizeof word);
    state = next_place(state + word);
  }
  asm volatile("" : : "r"(state));
  return to_ns(ticks() - start) / loads;
}

/// The same with independent loads.
double gather_ns(const std::byte* data, std::size_t bytes, int loads) noexcept {
  const std::size_t lines = bytes / 64;
  std::uint64_t state = 54321, sum = 0;
  const auto start = ticks();
  for (int i = 0; i < loads; ++i) {
    std::uint64_t word;
    std::memcpy(&word, data + (state >> 33) % lines * 64, sizeof word);
    sum += word;
    state = next_place(state);
  }
  asm volatile("" : : "r"(sum));
  return to_ns(ticks() - start) / loads;
}

void read_all(const std::byte* data, std::size_t bytes) noexcept {
  std::array<std::uint64_t, 8> sums{};
  for (std::size_t at = 0; at + 64 <= bytes; at += 64) {
    std::array<std::uint64_t, 8> words;
    std::memcpy(words.data(), data + at, sizeof words);
    for (std::size_t k = 0; k < words.size(); ++k) sums[k] += words[k];
  }
  asm volatile("" : : "r"(sums.data()) : "memory");
}

/// Writes zeros, because chases over the same buffer rely on them.
void write_all(std::byte* data, std::size_t bytes) noexcept {
  std::memset(data, 0, bytes);
  asm volatile("" : : "r"(data) : "memory");
}

/// Time from the common start of work(t) on one thread per PU (os_index) to the end of the last one. 0 if threads
/// cannot be created.
template <class Work>
double together_ns(const std::vector<int>& pus, const Work& work) {
  std::atomic<std::size_t> ready{0};
  std::vector<std::uint64_t> starts(pus.size()), ends(pus.size());
  std::vector<std::thread> threads;
  std::atomic<bool> given_up{false};
  try {
    for (std::size_t t = 0; t < pus.size(); ++t) {
      threads.emplace_back([&, t] {
        (void)set_this_thread_affinity({pus[t]});
        // No thread starts before all have arrived. Relaxed: their data was written before the threads were created.
        ready.fetch_add(1, std::memory_order_relaxed);
        while (ready.load(std::memory_order_relaxed) < pus.size() && !given_up.load(std::memory_order_relaxed)) {
          std::this_thread::yield();
        }
        starts[t] = ticks();
        work(t);
        ends[t] = ticks();
      });
    }
  } catch (const std::system_error&) {
    given_up = true;
  }
  const bool complete = threads.size() == pus.size();
  for (auto& thread : threads) thread.join();
  if (!complete || pus.empty()) return 0.0;
  return to_ns(*std::max_element(ends.begin(), ends.end()) - *std::min_element(starts.begin(), starts.end()));
}

// ---- where -----------------------------------------------------------------------------------

/// The largest power of two up to `wanted` that the node can spare; 0 if that is too small.
std::size_t affordable(const MemoryView& view, int node, std::size_t wanted) {
  const int index = view.index_of(node);
  if (index < 0) return 0;
  const auto& memory = view.nodes[static_cast<std::size_t>(index)];
  const std::uint64_t kept = memory.total_bytes / 10 + kept_free_bytes, available = view.available_bytes(node);
  std::size_t bytes = std::size_t{1} << (63 - __builtin_clzll(wanted | 1));
  while (bytes >= least_buffer_bytes && bytes + kept > available) bytes /= 2;
  return bytes >= least_buffer_bytes ? bytes : 0;
}

class NodeMemory {
 public:
  NodeMemory(const Machine& machine, const MemoryEffort& effort, double deadline_s)
      : machine_(machine),
        effort_(effort),
        deadline_s_(deadline_s),
        view_(read_memory_view()),
        support_(read_page_support()) {
    const std::size_t nodes = machine.numa_nodes.size();
    for (const auto matrix : matrices) costs_.*matrix = Matrix(nodes);
    pus_.resize(nodes);
    std::set<int> cores;
    for (const auto& pu : machine.pus) {
      if (!cores.insert(pu.core).second) continue;
      pus_[static_cast<std::size_t>(pu.numa_node)].push_back(pu.os_index);
      all_pus_.push_back(pu.os_index);
    }
    huge_ = support_.transparent_bytes > 0;
    forget_pages();
  }

  Result<MeasuredMemory> measure() {
    const SavedAffinity saved;
    const bool all_pairs = in_time([&] { measure_pairs(); });
    if (pairs_ == 0) {
      return all_pairs ? make_error(Status::out_of_memory, "no NUMA node has memory to spare to measure on")
                       : make_error(Status::timed_out, "no time left");
    }
    MeasuredMemory measured;
    if (!all_pairs) measured.left_out.push_back("pairs of nodes");
    if (!in_time([&] { measure_pages(); })) {
      forget_pages();
      measured.left_out.push_back("page sizes");
    }
    if (!in_time([&] { measure_copies(); })) {
      forget_copies();
      measured.left_out.push_back("copies");
    }
    if (!in_time([&] { measure_interleaved(); })) measured.left_out.push_back("interleaving");
    measured.costs = std::move(costs_);
    return measured;
  }

 private:
  static constexpr Matrix MemoryCosts::*matrices[] = {&MemoryCosts::latency_ns,   &MemoryCosts::gather_ns,
                                                      &MemoryCosts::read_gbs,     &MemoryCosts::write_gbs,
                                                      &MemoryCosts::read_all_gbs, &MemoryCosts::write_all_gbs};

  bool late() const { return monotonic_s() > deadline_s_; }

  /// Whether the work was done completely.
  template <class Work>
  bool in_time(const Work& work) {
    complete_ = !late();
    if (complete_) work();
    return complete_;
  }

  /// The best of the repetitions for which there is time. Without any, what is being measured is not complete.
  template <class Work>
  double best_ns(const Work& work) {
    double best = INFINITY;
    int done = 0;
    for (; done < effort_.repetitions && !late(); ++done) best = std::min<double>(best, work());
    if (done == 0) complete_ = false;
    return best;
  }

  /// Backs a mapping with memory, piece by piece as that takes long. False without memory or time.
  bool populated(const PageMapping& mapping) {
    constexpr std::size_t piece = 32 * mib;
    for (std::size_t at = 0; at < mapping.size(); at += piece) {
      if (late()) return complete_ = false;
      if (!populate(mapping.data() + at, std::min(piece, mapping.size() - at))) return false;
    }
    return true;
  }

  /// Zeroed memory on a node; empty if it cannot be placed there, or without time.
  std::optional<PageMapping> buffer_on(int node, std::size_t bytes, PageKind kind, std::size_t page) {
    if (bytes == 0) return std::nullopt;
    auto mapping = PageMapping::map(bytes, kind, page);
    if (!mapping) return std::nullopt;
    if (view_.nodes.size() > 1 && !set_node_policy(mapping->data(), mapping->size(), node)) return std::nullopt;
    if (!populated(*mapping)) return std::nullopt;
    if (view_.nodes.size() > 1) {
      const auto last = nodes_of_pages(mapping->data() + bytes - 4096, 4096, 4096);
      if (last && last->front() != node) return std::nullopt;
    }
    return *std::move(mapping);
  }

  int os_index(std::size_t node) const { return machine_.numa_nodes[node].os_index; }
  PageKind large_kind() const { return huge_ ? PageKind::transparent : PageKind::base; }
  std::size_t large_page() const { return huge_ ? support_.transparent_bytes : support_.base_bytes; }

  std::optional<PageMapping> large_buffer(std::size_t node, std::size_t wanted) {
    return buffer_on(os_index(node), affordable(view_, os_index(node), wanted), large_kind(), large_page());
  }

  /// The kind of a pair: the firmware's distance, or 0 for a node's own memory.
  int kind_of(std::size_t a, std::size_t m) const {
    if (a == m) return 0;
    const int from = view_.index_of(os_index(a)), to = view_.index_of(os_index(m));
    if (from < 0 || to < 0) return -1;
    const auto& distances = view_.nodes[static_cast<std::size_t>(from)].distances;
    const int distance =
        static_cast<std::size_t>(to) < distances.size() ? distances[static_cast<std::size_t>(to)] : 255;
    return pus_[m].empty() ? 1000 + distance : distance;  // a node without PUs has another kind of memory
  }

  /// False if there was no time for all of it.
  bool measure_pair(std::size_t a, std::size_t m, PageMapping& buffer) {
    std::byte* const data = buffer.data();
    const std::size_t bytes = buffer.size();
    (void)set_this_thread_affinity({pus_[a].front()});
    const double generator_ns = chase_ns(data, 4096, effort_.loads);
    const double chase = best_ns([&] { return chase_ns(data, bytes, effort_.loads); });
    // The subtracted time includes a load from the first-level cache, about a nanosecond.
    costs_.latency_ns(a, m) = std::max(1.0, chase - generator_ns + 1.0);
    costs_.gather_ns(a, m) = best_ns([&] { return gather_ns(data, bytes, effort_.loads); });
    const auto gbs = [&](const std::vector<int>& pus, const auto& work) {
      const std::size_t share = bytes / pus.size() / 64 * 64;
      const double ns =
          best_ns([&] { return together_ns(pus, [&](std::size_t t) { work(data + t * share, share); }); });
      return ns > 0.0 ? static_cast<double>(share * pus.size()) / ns : 0.0;
    };
    const std::vector<int> one = {pus_[a].front()};
    costs_.read_gbs(a, m) = gbs(one, read_all);
    costs_.write_gbs(a, m) = gbs(one, write_all);
    costs_.read_all_gbs(a, m) = pus_[a].size() == 1 ? costs_.read_gbs(a, m) : gbs(pus_[a], read_all);
    costs_.write_all_gbs(a, m) = pus_[a].size() == 1 ? costs_.write_gbs(a, m) : gbs(pus_[a], write_all);
    if (complete_) {
      ++pairs_;
    } else {
      for (const auto matrix : matrices) (costs_.*matrix)(a, m) = 0.0;
    }
    return complete_;
  }

  void measure_pairs() {
    constexpr int most_of_a_kind = 2;
    std::map<int, std::vector<std::pair<std::size_t, std::size_t>>> measured;
    const std::size_t nodes = pus_.size();
    for (std::size_t m = 0; m < nodes && complete_; ++m) {
      std::optional<PageMapping> buffer;
      for (std::size_t a = 0; a < nodes && complete_; ++a) {
        auto& of_kind = measured[kind_of(a, m)];
        if (pus_[a].empty() || of_kind.size() >= most_of_a_kind) continue;
        if (!buffer) buffer = large_buffer(m, effort_.buffer_bytes);
        if (!buffer) break;
        if (measure_pair(a, m, *buffer)) of_kind.emplace_back(a, m);
      }
    }
    for (std::size_t a = 0; a < nodes; ++a) {
      for (std::size_t m = 0; m < nodes; ++m) fill_in(a, m, measured[kind_of(a, m)]);
    }
  }

  /// Gives each unmeasured pair that has memory and PUs the mean of its kind.
  void fill_in(std::size_t a, std::size_t m, const std::vector<std::pair<std::size_t, std::size_t>>& measured) {
    const bool is_measured = std::find(measured.begin(), measured.end(), std::pair(a, m)) != measured.end();
    if (is_measured || measured.empty() || pus_[a].empty() || machine_.numa_nodes[m].memory_bytes == 0) return;
    for (const auto matrix : matrices) {
      double sum = 0.0;
      for (const auto& [from, to] : measured) sum += (costs_.*matrix)(from, to);
      (costs_.*matrix)(a, m) = sum / static_cast<double>(measured.size());
    }
  }

  /// The first node that has both PUs and memory.
  std::optional<std::size_t> home() const {
    for (std::size_t node = 0; node < pus_.size(); ++node) {
      if (!pus_[node].empty() && costs_.read_gbs(node, node) > 0.0) return node;
    }
    return std::nullopt;
  }

  double touch_ns_per_mib(std::size_t node, PageKind kind, std::size_t page) {
    return best_ns([&] {
             auto mapping = PageMapping::map(touched_bytes, kind, page);
             if (!mapping) return double{INFINITY};
             if (view_.nodes.size() > 1) (void)set_node_policy(mapping->data(), mapping->size(), os_index(node));
             const auto start = ticks();
             (void)populate(mapping->data(), mapping->size());
             return to_ns(ticks() - start);
           }) /
           static_cast<double>(touched_bytes / mib);
  }

  /// As without a measurement: 0 stands for unknown.
  void forget_pages() {
    costs_.page_bytes = {static_cast<double>(support_.base_bytes)};
    if (huge_) costs_.page_bytes.push_back(static_cast<double>(support_.transparent_bytes));
    for (auto* list : {&costs_.walk_ns, &costs_.gather_walk_ns, &costs_.touch_ns_per_mib, &costs_.reach_bytes}) {
      list->assign(costs_.page_bytes.size(), 0.0);
    }
  }

  void forget_copies() {
    costs_.copy_memcpy_gbs = costs_.copy_nontemporal_gbs = costs_.copy_string_gbs = costs_.copy_threads_gbs = 0.0;
  }

  void measure_pages() {
    const auto node = home();
    if (!node) return;
    (void)set_this_thread_affinity({pus_[*node].front()});
    costs_.touch_ns_per_mib[0] = touch_ns_per_mib(*node, PageKind::base, support_.base_bytes);
    if (!huge_) return;
    costs_.touch_ns_per_mib[1] = touch_ns_per_mib(*node, PageKind::transparent, support_.transparent_bytes);
    auto large = large_buffer(*node, effort_.buffer_bytes);
    if (!large) return;
    auto small = buffer_on(os_index(*node), large->size(), PageKind::base, support_.base_bytes);
    if (small) compare_pages(*small, *large);
  }

  /// The extra cost of small pages over huge ones at the full size, and the size up to which it is below a tenth of
  /// that.
  void compare_pages(const PageMapping& small, const PageMapping& large) {
    const auto added = [&](std::size_t bytes, auto&& load) {
      const double with_small = best_ns([&] { return load(small.data(), bytes, effort_.loads); });
      return std::max(0.0, with_small - best_ns([&] { return load(large.data(), bytes, effort_.loads); }));
    };
    costs_.walk_ns[0] = added(large.size(), chase_ns);
    costs_.gather_walk_ns[0] = added(large.size(), gather_ns);
    for (std::size_t bytes = mib; bytes <= large.size() && complete_; bytes *= 2) {
      if (added(bytes, chase_ns) > 0.1 * costs_.walk_ns[0]) break;
      costs_.reach_bytes[0] = static_cast<double>(bytes);
    }
    // Assumes as many entries as for small pages, because current CPUs share entries between both.
    costs_.reach_bytes[1] = costs_.reach_bytes[0] / costs_.page_bytes[0] * costs_.page_bytes[1];
  }

  void measure_copies() {
    const auto node = home();
    if (!node) return;
    auto to = large_buffer(*node, touched_bytes), from = large_buffer(*node, touched_bytes);
    if (!to || !from) return;
    const std::size_t bytes = std::min(to->size(), from->size());
    const auto gbs = [&](const std::vector<int>& pus, CopyMethod copy) {
      const std::size_t share = bytes / pus.size();
      const double ns = best_ns([&] {
        return together_ns(pus, [&](std::size_t t) { copy(to->data() + t * share, from->data() + t * share, share); });
      });
      return ns > 0.0 ? static_cast<double>(share * pus.size()) / ns : 0.0;
    };
    const std::vector<int> one = {pus_[*node].front()};
    costs_.copy_memcpy_gbs = gbs(one, copy_by_library);
    costs_.copy_nontemporal_gbs = gbs(one, copy_nontemporal);
    costs_.copy_string_gbs = gbs(one, copy_by_string);
    for (const CopyMethod method : {copy_by_library, copy_nontemporal, copy_by_string}) {
      costs_.copy_threads_gbs = std::max(costs_.copy_threads_gbs, gbs(all_pus_, method));
    }
  }

  void measure_interleaved() {
    std::vector<int> nodes;
    for (std::size_t node = 0; node < pus_.size(); ++node) {
      if (costs_.read_gbs(node, node) > 0.0) nodes.push_back(os_index(node));
    }
    if (nodes.empty()) return;
    const std::size_t bytes = affordable(view_, nodes.front(), effort_.buffer_bytes);
    if (bytes == 0) return;
    auto mapping = PageMapping::map(bytes, large_kind(), large_page());
    if (!mapping || (nodes.size() > 1 && !set_interleave_policy(mapping->data(), mapping->size(), nodes))) return;
    if (!populated(*mapping)) return;
    const std::size_t share = bytes / all_pus_.size() / 64 * 64;
    const double ns = best_ns(
        [&] { return together_ns(all_pus_, [&](std::size_t t) { read_all(mapping->data() + t * share, share); }); });
    if (ns > 0.0) costs_.interleaved_gbs = static_cast<double>(share * all_pus_.size()) / ns;
  }

  const Machine& machine_;
  const MemoryEffort effort_;
  const double deadline_s_;
  const MemoryView view_;
  const PageSupport support_;
  bool huge_ = false;
  bool complete_ = true;               ///< there was time for all of what is being measured
  std::vector<std::vector<int>> pus_;  ///< os_index, one per core, by node
  std::vector<int> all_pus_;
  int pairs_ = 0;
  MemoryCosts costs_;
};

}  // namespace

MemoryEffort memory_effort(bool quick) {
  const long cache = std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE));
  const std::size_t wanted = std::max<std::size_t>(quick ? 64 * mib : 256 * mib, 4 * static_cast<std::size_t>(cache));
  std::size_t bytes = least_buffer_bytes;
  while (bytes < wanted) bytes *= 2;
  return {std::min<std::size_t>(bytes, 1024 * mib), quick ? 1 : 3, quick ? 50'000 : 200'000};
}

Result<MeasuredMemory> measure_node_memory(const Machine& machine, const MemoryEffort& effort, double deadline_s) {
  if (machine.numa_nodes.empty()) return make_error(Status::not_supported, "the machine has no NUMA nodes to measure");
  return NodeMemory(machine, effort, deadline_s).measure();
}

}  // namespace smelt::measure
