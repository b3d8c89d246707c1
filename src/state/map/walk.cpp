// Looks through the memory of a table that nobody uses, as its file may have been damaged: nothing that the operations
// follow or wait for may lead out of the memory or into a circle.
#include <bit>
#include <iterator>
#include <vector>

#include "state/map/blocks.hpp"

namespace smelt::map_detail {

class Table::Walk {
 public:
  explicit Walk(const Table& table)
      : table_(table),
        header_(table.header()),
        used_(header_.used.load(std::memory_order_acquire)),
        taken_(used_ / line) {}

  bool chains() {
    const Word active = header_.active.load(std::memory_order_acquire);
    const Word next = header_.next.load(std::memory_order_acquire);
    const bool grows = (next & log2_mask) > (active & log2_mask);  // otherwise left by a process that died at the end
    const Word log2 = active & log2_mask, buckets = Word{1} << log2;
    const Word checked = header_.checked[log2].load(std::memory_order_relaxed);
    if (grows && (next != table_.follow(active) || checked > buckets)) return false;
    for (Word i = 0; i < buckets; ++i) {
      const Bucket* const home = table_.bucket_of(active, i);
      const Word word = home->word.load(std::memory_order_acquire);
      const bool moved = (word & moved_bit) != 0;
      if ((moved || i < checked) && !grows) return false;
      if (!moved && (i < checked || !is_chain(home))) return false;
      for (Word child = i; grows && child < 2 * buckets; child += buckets) {
        const Bucket* const filled = table_.bucket_of(next, child);
        if (moved ? !is_chain(filled) : !are_leftovers(filled)) return false;
      }
    }
    return true;
  }

  bool free_blocks() {
    for (int size_class = 0; size_class < classes; ++size_class) {
      Word offset = offset_of(header_.free_lists[size_class].load(std::memory_order_relaxed));
      for (; offset != 0; offset = offset_of(table_.at(offset)->word.load(std::memory_order_relaxed))) {
        if (!take(offset, block_bytes(size_class))) return false;
      }
    }
    for (const auto& stash : header_.stashes) {
      for (const auto& block : stash.blocks) {
        const Word reference = block.load(std::memory_order_relaxed);
        if (reference != 0 && !take_referred(reference)) return false;
      }
    }
    return true;
  }

 private:
  static constexpr int classes = static_cast<int>(std::extent_v<decltype(Header::free_lists)>);

  /// False: no block can be there, or it has another use.
  bool take(Word offset, Word bytes) {
    if (offset % line != 0 || offset < sizeof(Header) || offset >= used_ || bytes > used_ - offset) return false;
    for (Word i = offset / line; i < (offset + bytes) / line; ++i) {
      if (taken_[i]) return false;
      taken_[i] = true;
    }
    return true;
  }
  bool take_referred(Word reference) {
    const Word size_class = reference >> offset_bits;
    return size_class < classes && take(offset_of(reference), block_bytes(static_cast<int>(size_class)));
  }
  bool take_bucket(Word link) {
    return take(link, block_bytes(class_of(header_.geometry.bucket_words * sizeof(Word))));
  }

  /// Whether the chain of a home bucket can be used, by a process that finds its owner dead.
  bool is_chain(const Bucket* home) {
    for (const Bucket* bucket = home;;) {
      if (!has_possible_cells(bucket)) return false;
      const Word link = bucket->link.load(std::memory_order_acquire);
      if (link == 0) return true;
      if (!take_bucket(link)) return false;
      bucket = table_.at(link);
    }
  }

  bool has_possible_cells(const Bucket* bucket) {
    const Geometry& geometry = header_.geometry;
    const Word word = bucket->word.load(std::memory_order_acquire);
    const unsigned valid = valid_cells(word);
    if ((word & (live_bit | moved_bit)) != live_bit || valid >> geometry.cells != 0 ||
        static_cast<unsigned>(std::popcount(valid)) > geometry.cells - geometry.spare) {
      return false;
    }
    if ((header_.flags & has_strings) == 0) return true;
    for (unsigned cells = valid; cells != 0; cells &= cells - 1) {
      const auto index = static_cast<std::size_t>(std::countr_zero(cells));
      const AtomicWord* const cell = bucket->cell(index, geometry.key_words + geometry.value_words);
      if (!take_referred(cell[1].load(std::memory_order_relaxed))) return false;
    }
    return true;
  }

  /// Of a bucket that is to be filled, what a dead process has put there already: copies of cells that count elsewhere,
  /// and overflow buckets, which are given back first.
  bool are_leftovers(const Bucket* child) {
    for (Word link = child->link.load(std::memory_order_acquire); link != 0;) {
      if (!take_bucket(link)) return false;
      link = table_.at(link)->link.load(std::memory_order_acquire);
    }
    return true;
  }

  const Table& table_;
  const Header& header_;
  Word used_;
  std::vector<bool> taken_;  ///< lines of memory whose use has been seen
};

bool Table::can_be_followed() const {
  if (header().used.load(std::memory_order_acquire) > header().backed.load(std::memory_order_acquire)) return false;
  Walk walk(*this);
  return walk.chains() && walk.free_blocks();
}

}  // namespace smelt::map_detail
