// Written replicas: every rank combines a share of the elements over all copies.
//
//     barrier                      all ranks have written
//     rank r, share r of n:        result = copy 0 (op) copy 1 (op) ...; result -> all copies
//     barrier                      all ranks may read
//
// Publishing is the same with one owner per element.
//
// Shares end at cache lines, so that no two ranks write to the same line. All processes have mapped all copies, so the
// barriers are the only communication. They also order the writes.
#include <algorithm>
#include <numeric>

#include "memory/array/storage.hpp"

namespace smelt::memory {
namespace {

constexpr std::size_t share_unit_bytes = 64;
constexpr std::size_t block_bytes =
    16u << 10;  ///< a block stays in the first-level cache while all copies are combined

/// A rank's bytes: whole elements, and whole lines if there are enough of them.
IndexRange share_of(const Layout& layout, int rank, int ranks) {
  const std::size_t unit = std::lcm(layout.element_bytes, share_unit_bytes), size = layout.size_bytes();
  const auto units =
      static_part((size + unit - 1) / unit, static_cast<std::size_t>(rank), static_cast<std::size_t>(ranks));
  return {std::min(size, units.first * unit), std::min(size, units.last * unit)};
}

/// Calls visit(offset, bytes) for blocks of whole elements.
template <class Visit>
void for_blocks(const Layout& layout, IndexRange share, const Visit& visit) {
  const std::size_t step = std::max<std::size_t>(1, block_bytes / layout.element_bytes) * layout.element_bytes;
  for (std::size_t at = share.first; at < share.last; at += step) {
    visit(at, std::min(step, share.last - at));
  }
}

}  // namespace

Status Block::sync(Rank& rank, const Reduction& op) noexcept {
  const Layout& layout = storage_->layout;
  if (op.element_bytes != layout.element_bytes) return Status::invalid_argument;
  if (const Status all = rank.barrier(); all != Status::ok) return all;
  auto& copies = storage_->copies;
  for_blocks(layout, share_of(layout, rank.rank(), rank.size()), [&](std::size_t at, std::size_t bytes) {
    std::byte* const result = copies.front().data + at;
    for (std::size_t k = 1; k < copies.size(); ++k) {
      op.combine(result, copies[k].data + at, bytes / layout.element_bytes, op.context);
    }
    for (std::size_t k = 1; k < copies.size(); ++k) std::memcpy(copies[k].data + at, result, bytes);
  });
  return rank.barrier();
}

Status Block::accumulate_into(Rank& rank, const Reduction& op, const void* identity, Fill fill,
                              const Block& total) noexcept {
  const Layout& layout = storage_->layout;
  if (op.element_bytes != layout.element_bytes || total.count_ != count_) return Status::invalid_argument;
  if (const Status all = rank.barrier(); all != Status::ok) return all;
  auto& totals = total.storage_->copies;
  for_blocks(layout, share_of(layout, rank.rank(), rank.size()), [&](std::size_t at, std::size_t bytes) {
    std::byte* const result = totals.front().data + at;
    for (auto& copy : storage_->copies) {
      op.combine(result, copy.data + at, bytes / layout.element_bytes, op.context);
      fill(copy.data + at, bytes, identity, layout.element_bytes);
    }
    for (std::size_t k = 1; k < totals.size(); ++k) std::memcpy(totals[k].data + at, result, bytes);
  });
  return rank.barrier();
}

Status Block::publish(Rank& rank, IndexRange mine) noexcept {
  const Layout& layout = storage_->layout;
  if (mine.first > mine.last || mine.last > count_) return Status::invalid_argument;
  const std::size_t at = mine.first * layout.element_bytes, bytes = mine.size() * layout.element_bytes;
  if (const Status all = rank.barrier(); all != Status::ok) return all;  // nobody reads any more what is to be replaced
  const auto own = static_cast<std::size_t>(storage_->near_here());
  auto& copies = storage_->copies;
  for (std::size_t k = 0; k < copies.size() && bytes > 0; ++k) {
    if (k != own) std::memcpy(copies[k].data + at, copies[own].data + at, bytes);
  }
  return rank.barrier();
}

}  // namespace smelt::memory
