#include "memory/pages/cuts.hpp"

#include <algorithm>
#include <utility>

namespace smelt::memory {
namespace {

/// The node with most of the bytes [first, last). `part` must begin at or before `first`; it is advanced to the last
/// part that does.
int owner_of(std::size_t first, std::size_t last, std::span<const std::size_t> cuts, std::span<const int> nodes,
             std::size_t element_bytes, std::size_t& part) {
  while (part + 1 < cuts.size() && cuts[part + 1] * element_bytes <= first) ++part;
  std::vector<std::pair<int, std::size_t>> shares;  // in order of appearance
  for (std::size_t p = part; p < cuts.size() && cuts[p] * element_bytes < last; ++p) {
    const std::size_t end = p + 1 < cuts.size() ? std::min(last, cuts[p + 1] * element_bytes) : last;
    const std::size_t begin = std::max(first, cuts[p] * element_bytes);
    if (end <= begin) continue;
    const auto known =
        std::find_if(shares.begin(), shares.end(), [&](const auto& share) { return share.first == nodes[p]; });
    (known != shares.end() ? *known : shares.emplace_back(nodes[p], 0)).second += end - begin;
  }
  return std::max_element(shares.begin(), shares.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

}  // namespace

std::vector<std::size_t> static_cuts(std::size_t count, std::size_t parts) {
  std::vector<std::size_t> cuts;
  for (std::size_t part = 0; part < parts; ++part) cuts.push_back(static_part(count, part, parts).first);
  return cuts;
}

IndexRange part_of(std::span<const std::size_t> cuts, std::size_t part, std::size_t count) noexcept {
  return {cuts[part], part + 1 < cuts.size() ? cuts[part + 1] : count};
}

std::vector<PageRun> page_runs(std::span<const std::size_t> cuts, std::span<const int> nodes, std::size_t count,
                               std::size_t element_bytes, std::size_t page_bytes) {
  std::vector<PageRun> runs;
  const std::size_t size_bytes = count * element_bytes;
  std::size_t part = 0;
  for (std::size_t first = 0; first < size_bytes; first += page_bytes) {
    const std::size_t last = std::min(size_bytes, first + page_bytes);
    const int node = owner_of(first, last, cuts, nodes, element_bytes, part);
    if (!runs.empty() && runs.back().node == node) {
      runs.back().last_byte = last;
    } else {
      runs.push_back({first, last, node});
    }
  }
  return runs;
}

}  // namespace smelt::memory
