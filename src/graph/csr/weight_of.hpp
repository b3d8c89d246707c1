// For tests: the weight of an edge, for any type of weights.
#pragma once

#include <cstdint>

#include "smelt/graph.hpp"

namespace smelt::graph::test {

/// 0 if the graph has no weights.
inline double weight_of(const Graph& graph, std::uint64_t edge) {
  const auto* column = graph.edge_values("weight");
  if (column == nullptr) return 0.0;
  switch (column->type()) {
    case ValueType::int32: return column->values<std::int32_t>()[edge];
    case ValueType::int64: return static_cast<double>(column->values<std::int64_t>()[edge]);
    case ValueType::float32: return column->values<float>()[edge];
    default: return column->values<double>()[edge];
  }
}

}  // namespace smelt::graph::test
