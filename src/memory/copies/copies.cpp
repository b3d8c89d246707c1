#include "memory/copies/copies.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "smelt/machine.hpp"

namespace smelt::memory {
namespace {

constexpr std::size_t least_piece_bytes = std::size_t{1} << 20;
constexpr std::size_t pieces_per_worker = 4;  // so that a late thread delays the rest by a quarter of its share at most

std::size_t rounded_up(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }

}  // namespace

CopyMethod best_copy_method() {
  static const CopyMethod best = [] {
    const auto machine = load_cached_machine();
    if (!machine || !machine->memory) return CopyMethod{copy_by_library};
    const auto& costs = *machine->memory;
    const std::pair<double, CopyMethod> methods[] = {{costs.copy_memcpy_gbs, copy_by_library},
                                                     {costs.copy_nontemporal_gbs, copy_nontemporal},
                                                     {costs.copy_string_gbs, copy_by_string}};
    return std::max_element(std::begin(methods), std::end(methods),
                            [](const auto& a, const auto& b) { return a.first < b.first; })
        ->second;
  }();
  return best;
}

std::vector<Piece> pieces_of(std::span<const PageRun> runs, const MemoryView& view, std::size_t element_bytes,
                             std::size_t unit_bytes) {
  std::vector<Piece> pieces;
  const std::size_t common = std::lcm(element_bytes, unit_bytes);
  const std::size_t unit = common <= 8 * least_piece_bytes ? common : element_bytes;
  for (const auto& run : runs) {
    // An element on the pages of two runs belongs to the first one.
    const std::size_t begin = rounded_up(run.first_byte, element_bytes), end = rounded_up(run.last_byte, element_bytes);
    const std::size_t workers = std::max<std::size_t>(workers_of(view, run.node).size(), 1);
    const std::size_t share = (end - begin) / (workers * pieces_per_worker);
    const std::size_t each = rounded_up(std::max(least_piece_bytes, share), unit);
    for (std::size_t first = begin; first < end;) {
      const std::size_t last = std::min(end, first / unit * unit + each);
      pieces.push_back({first, last, run.node});
      first = last;
    }
  }
  return pieces;
}

}  // namespace smelt::memory
