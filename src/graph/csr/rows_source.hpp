// RowsSource: the edges of compressed sparse rows, as the source of a grouping by the other end.
#pragma once

#include <cstdint>
#include <type_traits>

#include "graph/csr/grouping.hpp"
#include "graph/csr/structure.hpp"

namespace smelt::graph {

/// Payload of an edge: its number, of type EdgeId.
template <class EdgeId>
struct EdgeNumber {
  EdgeId operator()(std::uint64_t edge) const noexcept { return static_cast<EdgeId>(edge); }
};

struct NothingTravels {
  NoPayload operator()(std::uint64_t) const noexcept { return {}; }
};

/// Payload of an edge: an element of an array.
template <class Payload>
struct ElementOf {
  const Payload* values;
  Payload operator()(std::uint64_t edge) const noexcept { return values[edge]; }
};

template <class NodeId, class EdgeId, class PayloadOf>
class RowsSource {
 public:
  /// `passing`: the pages of node_idx if they are freed slice by slice during the last visit; otherwise null.
  RowsSource(const EdgeId* begin, const NodeId* node_idx, std::uint64_t nodes, PayloadOf payload, std::size_t slices,
             Pages* passing = nullptr)
      : begin_(begin), node_idx_(node_idx), nodes_(nodes), payload_(payload), slices_(slices), passing_(passing) {}

  std::size_t slices() const noexcept { return slices_; }

  template <class Emit>
  void visit(std::size_t slice, bool last, Emit&& emit) const {
    const auto first_node = first_node_of_part(begin_, nodes_, slice, slices_);
    const auto last_node = first_node_of_part(begin_, nodes_, slice + 1, slices_);
    for (std::uint64_t node = first_node; node < last_node; ++node) {
      for (std::uint64_t edge = begin_[node], end = begin_[node + 1]; edge < end; ++edge) {
        emit(node_idx_[edge], static_cast<NodeId>(node), payload_(edge));
      }
    }
    if (passing_ != nullptr && last) {
      passing_->discard(begin_[first_node] * sizeof(NodeId), begin_[last_node] * sizeof(NodeId));
    }
  }

 private:
  const EdgeId* begin_;
  const NodeId* node_idx_;
  std::uint64_t nodes_;
  PayloadOf payload_;
  std::size_t slices_;
  Pages* passing_;
};

}  // namespace smelt::graph
