// Renumbering: replaces arbitrary node numbers by 0, 1, ..., in the same order.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/csr/edge_list.hpp"
#include "graph/storage/pages.hpp"
#include "graph/team/team.hpp"
#include "smelt/graph.hpp"

namespace smelt::graph {

/// A hash table from old to new numbers: open addressing, linear probing, at most half full.
class NumberTable {
 public:
  NumberTable() : slots_(1u << 10, none) {}

  void insert(std::uint64_t number) {
    auto& slot = find(number);
    if (slot.number == number) return;
    slot.number = number;
    if (++count_ * 2 > slots_.size()) grow();
  }
  std::uint64_t& rank(std::uint64_t number) { return find(number).rank; }

  template <class F>
  void for_each(F&& f) const {
    for (const auto& slot : slots_) {
      if (slot.number != none.number) f(slot.number);
    }
  }

  /// Hash function for both the table and the slot.
  static std::uint64_t hash(std::uint64_t number) noexcept { return (number + 1) * 0x9E3779B97F4A7C15ull; }

 private:
  struct Slot {
    std::uint64_t number;
    std::uint64_t rank;
  };
  static constexpr Slot none = {UINT64_MAX, 0};  // no node has this number, which means "none"

  Slot& find(std::uint64_t number) {
    const auto mask = slots_.size() - 1;
    auto at = hash(number) >> 20 & mask;
    while (slots_[at].number != number && slots_[at].number != none.number) at = (at + 1) & mask;
    return slots_[at];
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2, none);
    old.swap(slots_);
    for (const auto& slot : old) {
      if (slot.number != none.number) find(slot.number) = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

/// Renumbers the nodes of the list's edges. Returns the old numbers in ascending order as a column "id" of longs. Each
/// thread reads all edges and handles the numbers that hash to it.
template <class NodeId, class Payload>
Column renumber(ThreadTeam& team, EdgeList<NodeId, Payload>& list) {
  const auto threads = static_cast<std::size_t>(team.size());
  std::vector<NumberTable> tables(threads);
  const auto table_of = [&](std::uint64_t number) { return (NumberTable::hash(number) >> 56) % threads; };
  team.run([&](int thread) {
    const auto own = static_cast<std::size_t>(thread);
    for (const auto& block : list.blocks()) {
      for (std::size_t edge = 0; edge < block.count; ++edge) {
        for (const std::uint64_t number :
             {block.edges()[edge].from + block.from_offset, std::uint64_t{block.edges()[edge].to}}) {
          if (table_of(number) == own) tables[own].insert(number);
        }
      }
    }
  });
  std::vector<std::int64_t> numbers;
  for (const auto& table : tables) {
    table.for_each([&](std::uint64_t number) { numbers.push_back(static_cast<std::int64_t>(number)); });
  }
  std::sort(numbers.begin(), numbers.end());
  for (std::size_t rank = 0; rank < numbers.size(); ++rank) {
    const auto number = static_cast<std::uint64_t>(numbers[rank]);
    tables[table_of(number)].rank(number) = rank;
  }
  team.for_each(list.blocks().size(), [&](std::size_t i, int) {
    auto& block = list.blocks()[i];
    for (std::size_t edge = 0; edge < block.count; ++edge) {
      for (auto* end : {&block.edges()[edge].from, &block.edges()[edge].to}) {
        const auto number = *end + (end == &block.edges()[edge].from ? block.from_offset : 0);
        *end = static_cast<NodeId>(tables[table_of(number)].rank(number));
      }
    }
    block.from_offset = 0;
  });
  return Column::of<std::int64_t>("id", numbers);
}

}  // namespace smelt::graph
