// Grouping: sorts edges by one of their ends into compressed sparse rows; stable, parallel, without atomics.
//
//   count       counts, for each slice of the source, the edges of each bucket (a range of keys)
//   distribute  moves the edges into one array, by bucket, within a bucket by slice
//   place       one thread per bucket counts the edges per key, sums the counts, and moves the edges to their places
//
// The result depends only on the source's order, not on the number of threads. Two groupings sort: if edges are grouped
// by `to` and then by `from`, each node's edges are ascending. Writes go to at most `most_buckets` places at a time
// while distributing, and stay within one bucket while placing, so that they hit caches and TLBs.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "graph/csr/edge_list.hpp"
#include "graph/storage/pages.hpp"
#include "graph/team/team.hpp"

namespace smelt::graph {

/// The grouped edges. `begin` has nodes + 1 offsets of 64 bits.
struct Grouped {
  Pages begin;
  Pages values;    ///< NodeId per edge
  Pages payloads;  ///< Payload per edge; nothing for NoPayload
};

/// A Source has `slices()` parts in order. `visit(slice, last, emit)` calls emit(key, value, payload) for each edge of
/// a slice in order. Each slice is visited twice. With `last`, the second time, its memory may be freed.
template <class NodeId, class Payload, class Source>
class Grouping {
 public:
  Grouping(ThreadTeam& team, std::uint64_t nodes, Source& source)
      : team_(team), nodes_(nodes), source_(source), shift_(bucket_shift(nodes)), buckets_(buckets()) {}

  Result<Grouped> run() {
    count();
    auto edges = Pages::allocate(total_ * sizeof(Item), Pages::Use::passing);
    if (!edges) return edges.error();
    distribute(edges->template as<Item>());
    Grouped grouped;
    auto begin = Pages::allocate((nodes_ + 1) * sizeof(std::uint64_t));
    auto values = Pages::allocate(total_ * sizeof(NodeId));
    auto payloads = Pages::allocate(has_payload ? total_ * sizeof(Payload) : 0);
    for (const auto* pages : {&begin, &values, &payloads}) {
      if (!*pages) return pages->error();
    }
    grouped = {*std::move(begin), *std::move(values), *std::move(payloads)};
    place(*edges, grouped);
    return grouped;
  }

 private:
  static constexpr std::uint64_t most_buckets = 512;
  static constexpr bool has_payload = !std::is_same_v<Payload, NoPayload>;

  /// The lower bits of a key would suffice within a bucket. Whole ids keep the code the same for all sizes.
  struct Item {
    NodeId key;
    NodeId value;
    [[no_unique_address]] Payload payload;
  };

  static int bucket_shift(std::uint64_t nodes) noexcept {
    return nodes <= most_buckets ? 0 : static_cast<int>(std::bit_width((nodes - 1) / most_buckets));
  }
  std::size_t buckets() const noexcept {
    return static_cast<std::size_t>(nodes_ == 0 ? 0 : ((nodes_ - 1) >> shift_) + 1);
  }

  void count() {
    starts_.assign(source_.slices() * buckets_, 0);
    team_.for_each(source_.slices(), [&](std::size_t slice, int) {
      auto* counts = starts_.data() + slice * buckets_;
      source_.visit(slice, false, [&](NodeId key, NodeId, Payload) { ++counts[key >> shift_]; });
    });
    bucket_begin_.reserve(buckets_ + 1);
    for (std::size_t bucket = 0; bucket < buckets_; ++bucket) {
      bucket_begin_.push_back(total_);
      for (std::size_t slice = 0; slice < source_.slices(); ++slice) {
        auto& start = starts_[slice * buckets_ + bucket];
        const auto edges = start;
        start = total_;
        total_ += edges;
      }
    }
    bucket_begin_.push_back(total_);
  }

  void distribute(Item* items) {
    team_.for_each(source_.slices(), [&](std::size_t slice, int) {
      auto* next = starts_.data() + slice * buckets_;
      source_.visit(slice, true, [&](NodeId key, NodeId value, Payload payload) {
        items[next[key >> shift_]++] = {key, value, payload};
      });
    });
  }

  void place(Pages& edges, Grouped& grouped) {
    const auto keys_per_bucket = std::size_t{1} << shift_;
    std::vector<std::vector<std::uint64_t>> next(static_cast<std::size_t>(team_.size()));
    for (auto& own : next) own.resize(keys_per_bucket);
    team_.for_each(buckets_, [&](std::size_t bucket, int thread) {
      place_bucket(bucket, edges.as<Item>(), grouped, next[static_cast<std::size_t>(thread)]);
      edges.discard(bucket_begin_[bucket] * sizeof(Item), bucket_begin_[bucket + 1] * sizeof(Item));
    });
    grouped.begin.as<std::uint64_t>()[nodes_] = total_;
  }

  void place_bucket(std::size_t bucket, const Item* items, Grouped& grouped, std::vector<std::uint64_t>& next) {
    const std::uint64_t first_key = std::uint64_t{bucket} << shift_;
    const std::uint64_t keys = std::min(nodes_ - first_key, std::uint64_t{1} << shift_);
    const Item* first = items + bucket_begin_[bucket];
    const Item* last = items + bucket_begin_[bucket + 1];
    std::fill_n(next.begin(), keys, 0);
    for (const Item* item = first; item != last; ++item) ++next[item->key - first_key];
    auto* begin = grouped.begin.as<std::uint64_t>() + first_key;
    std::uint64_t offset = bucket_begin_[bucket];
    for (std::uint64_t key = 0; key < keys; ++key) {
      begin[key] = offset;
      offset += std::exchange(next[key], offset);
    }
    auto* values = grouped.values.as<NodeId>();
    auto* payloads = grouped.payloads.as<Payload>();
    for (const Item* item = first; item != last; ++item) {
      const auto at = next[item->key - first_key]++;
      values[at] = item->value;
      if constexpr (has_payload) payloads[at] = item->payload;
    }
  }

  ThreadTeam& team_;
  std::uint64_t nodes_;
  Source& source_;
  int shift_;
  std::size_t buckets_;
  std::uint64_t total_ = 0;
  std::vector<std::uint64_t> starts_;        ///< by slice and bucket: first a count, then the position of the next edge
  std::vector<std::uint64_t> bucket_begin_;  ///< position of a bucket's first edge
};

}  // namespace smelt::graph
