// Saves graphs to files.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "graph/csr/build.hpp"
#include "graph/csr/structure.hpp"
#include "graph/files/container.hpp"
#include "graph/files/crc32c.hpp"
#include "graph/files/ebin.hpp"
#include "graph/files/format.hpp"
#include "graph/files/output.hpp"
#include "graph/team/team.hpp"
#include "smelt/graph.hpp"

namespace smelt::graph {
namespace {

constexpr std::uint64_t edges_per_part = 1u << 16;

template <class T>
void append(std::string& text, T number) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  text.append(digits, end);
}

void append_weight(std::string& text, const Column& weights, std::uint64_t edge) {
  switch (weights.type()) {
    case ValueType::boolean: return append(text, weights.values<bool>()[edge] ? 1 : 0);
    case ValueType::int32: return append(text, weights.values<std::int32_t>()[edge]);
    case ValueType::int64: return append(text, weights.values<std::int64_t>()[edge]);
    case ValueType::float32: return append(text, weights.values<float>()[edge]);
    case ValueType::float64: return append(text, weights.values<double>()[edge]);
  }
}

bool has_whole_weights(const Column* weights) {
  return weights == nullptr || weights->type() == ValueType::int32 || weights->type() == ValueType::int64;
}

/// The lines of a text format: the text before, between and after a node's edges.
struct TextStyle {
  std::string header;
  bool line_per_node = false;  ///< false: a line per edge
  bool node_first = true;      ///< a line starts with the node's number
  const char* mark = "";       ///< before it
  std::uint64_t first_number = 0;
  bool lower_half = false;  ///< only edges to nodes with no larger numbers
  const Column* weights = nullptr;
  const char* constant_weight = nullptr;
};

template <class NodeId, class EdgeId>
void append_node(std::string& text, const Adjacency<NodeId, EdgeId>& out, std::uint64_t node, const TextStyle& style) {
  const auto start = [&] {
    text += style.mark;
    if (style.node_first) append(text, node + style.first_number);
  };
  if (style.line_per_node) start();
  for (std::uint64_t edge = out.begin[node]; edge < out.begin[node + 1]; ++edge) {
    if (style.lower_half && out.node_idx[edge] > node) continue;
    if (!style.line_per_node) start();
    if (!style.line_per_node || style.node_first || edge > out.begin[node]) text += ' ';
    append(text, out.node_idx[edge] + style.first_number);
    if (style.weights != nullptr) append_weight(text += ' ', *style.weights, edge);
    if (style.constant_weight != nullptr) text += style.constant_weight;
    if (!style.line_per_node) text += '\n';
  }
  if (style.line_per_node) text += '\n';
}

/// All threads convert parts to text, which is written in order.
void write_text(OutputFile& file, const Graph& graph, const TextStyle& style, ThreadTeam& team,
                const Progress& progress) {
  file.write(style.header.data(), style.header.size());
  with_ids(graph, [&](auto node_id, auto edge_id) {
    const auto out = graph.out<decltype(node_id), decltype(edge_id)>();
    const auto nodes = graph.num_nodes();
    const auto parts = (graph.num_edges() + nodes) / edges_per_part + 1;
    std::vector<std::string> texts(static_cast<std::size_t>(team.size()) * 4);
    for (std::uint64_t first = 0; first < parts && !file.failed(); first += texts.size()) {
      const auto count = std::min<std::uint64_t>(texts.size(), parts - first);
      team.for_each(count, [&](std::size_t i, int) {
        texts[i].clear();
        const auto last = first_node_of_part(out.begin, nodes, first + i + 1, parts);
        for (auto node = first_node_of_part(out.begin, nodes, first + i, parts); node < last; ++node) {
          append_node(texts[i], out, node, style);
        }
      });
      for (std::size_t i = 0; i < count; ++i) file.write(texts[i].data(), texts[i].size());
      if (progress) progress("write", static_cast<double>(first + count) / static_cast<double>(parts));
    }
  });
}

TextStyle edge_list_style(const Graph& graph) {
  TextStyle style;
  style.weights = graph.edge_values("weight");
  return style;
}

std::uint64_t count_lower_half(const Graph& graph) {
  return with_ids(graph, [&](auto node_id, auto edge_id) {
    using NodeId = decltype(node_id);
    const auto out = graph.out<NodeId, decltype(edge_id)>();
    std::uint64_t count = 0;
    for (std::uint64_t node = 0; node < graph.num_nodes(); ++node) {
      const auto neighbours = out.neighbours(static_cast<NodeId>(node));
      count +=
          static_cast<std::uint64_t>(std::upper_bound(neighbours.begin(), neighbours.end(), node) - neighbours.begin());
    }
    return count;
  });
}

TextStyle matrix_market_style(const Graph& graph) {
  TextStyle style;
  style.weights = graph.edge_values("weight");
  style.first_number = 1;
  style.lower_half = graph.undirected();
  const char* field = style.weights == nullptr ? "pattern" : has_whole_weights(style.weights) ? "integer" : "real";
  style.header = fmt::format("%%MatrixMarket matrix coordinate {} {}\n{} {} {}\n", field,
                             graph.undirected() ? "symmetric" : "general", graph.num_nodes(), graph.num_nodes(),
                             graph.undirected() ? count_lower_half(graph) : graph.num_edges());
  return style;
}

TextStyle dimacs_style(const Graph& graph) {
  TextStyle style;
  style.weights = graph.edge_values("weight");
  if (style.weights == nullptr) style.constant_weight = " 1";
  style.mark = "a ";
  style.first_number = 1;
  style.header = fmt::format("p sp {} {}\n", graph.num_nodes(), graph.num_edges());
  return style;
}

TextStyle metis_style(const Graph& graph) {
  TextStyle style;
  style.weights = graph.edge_values("weight");
  style.first_number = 1;
  style.line_per_node = true;
  style.node_first = false;
  // Loops are listed once, so the number of entries may be odd. Such a graph is written as directed.
  const bool both = graph.undirected() && graph.num_edges() % 2 == 0;
  style.header = fmt::format("{} {}{}\n", graph.num_nodes(), both ? graph.num_edges() / 2 : graph.num_edges(),
                             style.weights == nullptr ? "" : " 1");
  return style;
}

TextStyle adj_style(const Graph& graph) {
  TextStyle style;
  style.weights = graph.edge_values("weight");
  style.line_per_node = true;
  return style;
}

/// Numbers of the given width, converted piece by piece.
template <class To, class From>
void write_as(OutputFile& file, const From* values, std::uint64_t count) {
  if constexpr (sizeof(To) == sizeof(From)) {
    file.write(values, count * sizeof(From));
  } else {
    std::vector<To> piece(std::min<std::uint64_t>(count, 1u << 16));
    for (std::uint64_t first = 0; first < count && !file.failed(); first += piece.size()) {
      const auto size = std::min<std::uint64_t>(piece.size(), count - first);
      std::transform(values + first, values + first + size, piece.begin(), [](From x) { return static_cast<To>(x); });
      file.write(piece.data(), size * sizeof(To));
    }
  }
}

/// Neighbours of 32 bits, each followed by its weight if there are any; edge_of(i) is the number of the i-th edge.
template <class NodeId, class EdgeOf>
void write_gap_neighbours(OutputFile& file, const NodeId* node_idx, std::uint64_t count, const Column* weights,
                          EdgeOf edge_of) {
  if (weights == nullptr) return write_as<std::uint32_t>(file, node_idx, count);
  struct Pair {
    std::uint32_t node;
    std::int32_t weight;
  };
  const auto values = weights->values<std::int32_t>();
  std::vector<Pair> piece(std::min<std::uint64_t>(count, 1u << 16));
  for (std::uint64_t first = 0; first < count && !file.failed(); first += piece.size()) {
    const auto size = std::min<std::uint64_t>(piece.size(), count - first);
    for (std::uint64_t i = 0; i < size; ++i) {
      piece[i] = {static_cast<std::uint32_t>(node_idx[first + i]), values[edge_of(first + i)]};
    }
    file.write(piece.data(), size * sizeof(Pair));
  }
}

Result<void> write_gap(OutputFile& file, const Graph& graph, bool weighted, int threads) {
  const Column* weights = weighted ? graph.edge_values("weight") : nullptr;
  if (weighted && (weights == nullptr || weights->type() != ValueType::int32)) {
    return make_error(Status::invalid_argument, ".wsg files have whole weights of 32 bits; this graph {}",
                      weights == nullptr ? "has none" : "has others");
  }
  if (graph.num_nodes() > INT32_MAX) {
    return make_error(Status::invalid_argument, "{} nodes: GAP's files have at most 2^31 - 1", graph.num_nodes());
  }
  return with_ids(graph, [&](auto node_id, auto edge_id) -> Result<void> {
    using NodeId = decltype(node_id);
    using EdgeId = decltype(edge_id);
    const auto out = graph.out<NodeId, EdgeId>();
    const bool directed = !graph.undirected();
    file.write_value<std::uint8_t>(directed ? 1 : 0);
    file.write_value<std::int64_t>(static_cast<std::int64_t>(graph.num_edges()));
    file.write_value<std::int64_t>(static_cast<std::int64_t>(graph.num_nodes()));
    write_as<std::int64_t>(file, out.begin, graph.num_nodes() + 1);
    write_gap_neighbours(file, out.node_idx, graph.num_edges(), weights, [](std::uint64_t i) { return i; });
    if (!directed) return {};
    const auto in = graph.in<NodeId, EdgeId>(threads);
    if (!in) return in.error();
    const auto numbers = graph.in_edge_numbers<EdgeId>(threads);
    if (!numbers) return numbers.error();
    write_as<std::int64_t>(file, in->begin, graph.num_nodes() + 1);
    write_gap_neighbours(file, in->node_idx, graph.num_edges(), weights,
                         [&](std::uint64_t i) { return (*numbers)[i]; });
    return {};
  });
}

void write_column(OutputFile& file, const Column& column) {
  const auto* found = std::find(ebin::types.begin(), ebin::types.end(), column.type());
  file.write_value(static_cast<std::uint32_t>(found - ebin::types.begin()));
  file.write(column.data(), column.size() * size_of(column.type()));
}

void write_ebin(OutputFile& file, const Graph& graph) {
  with_ids(graph, [&](auto node_id, auto edge_id) {
    using NodeId = decltype(node_id);
    using EdgeId = decltype(edge_id);
    const auto out = graph.out<NodeId, EdgeId>();
    file.write_value(ebin::magic);
    file.write_value<std::uint32_t>(sizeof(NodeId));
    file.write_value<std::uint32_t>(sizeof(EdgeId));
    file.write_value(static_cast<NodeId>(graph.num_nodes()));
    file.write_value(static_cast<EdgeId>(graph.num_edges()));
    file.write(out.begin, (graph.num_nodes() + 1) * sizeof(EdgeId));
    file.write(out.node_idx, graph.num_edges() * sizeof(NodeId));
  });
  file.write_value(static_cast<std::uint32_t>(graph.node_columns().size()));
  for (const auto& column : graph.node_columns()) write_column(file, column);
  const auto* weights = graph.edge_values("weight");
  file.write_value<std::uint32_t>(weights == nullptr ? 0 : 1);
  if (weights != nullptr) write_column(file, *weights);
  file.write_value(ebin::end_mark);
}

class ContainerWriter {
 public:
  ContainerWriter(OutputFile& file, const Graph& graph) : file_(file), graph_(graph) {}

  Result<void> run() {
    const Structure& structure = graph_.structure();
    const auto begin_bytes = (structure.nodes + 1) * static_cast<std::uint64_t>(structure.edge_bytes);
    const auto node_idx_bytes = structure.edges * static_cast<std::uint64_t>(structure.node_bytes);
    file_.pad_to(container::alignment);
    section(container::SectionKind::out_begin, structure.out_view.begin, begin_bytes);
    section(container::SectionKind::out_node_idx, structure.out_view.node_idx, node_idx_bytes);
    if (!structure.undirected && structure.in_ready.load(std::memory_order_acquire)) {
      section(container::SectionKind::in_begin, structure.in_view.begin, begin_bytes);
      section(container::SectionKind::in_node_idx, structure.in_view.node_idx, node_idx_bytes);
    }
    if (structure.in_edge_ids_ready.load(std::memory_order_acquire)) {
      section(container::SectionKind::in_edge_ids, structure.in_edge_ids_view,
              structure.edges * static_cast<std::uint64_t>(structure.edge_bytes));
    }
    for (const auto& column : graph_.node_columns()) {
      if (auto put = values(container::SectionKind::node_values, column); !put) return put;
    }
    for (const auto& column : graph_.edge_columns()) {
      if (auto put = values(container::SectionKind::edge_values, column); !put) return put;
    }
    finish();
    return {};
  }

 private:
  container::Section& section(container::SectionKind kind, const void* data, std::uint64_t size_bytes) {
    auto& section = header_.section[header_.sections++];
    section.kind = kind;
    section.offset = file_.written();
    section.size_bytes = size_bytes;
    const auto* bytes = static_cast<const std::byte*>(data);
    for (std::uint64_t done = 0; done < size_bytes && !file_.failed();) {
      const auto count = std::min(size_bytes - done, container::block_bytes - filled_);
      add(bytes + done, count);
      done += count;
    }
    const auto padding = container::aligned(file_.written()) - file_.written();
    const std::vector<std::byte> zeros(padding);
    add(zeros.data(), padding);
    return section;
  }

  Result<void> values(container::SectionKind kind, const Column& column) {
    if (header_.sections + 1 >= container::most_sections || column.name().size() >= container::name_bytes) {
      return make_error(Status::invalid_argument, "values '{}': too many, or their name is longer than {} bytes",
                        column.name(), container::name_bytes - 1);
    }
    auto& put = section(kind, column.data(), column.size() * size_of(column.type()));
    put.type = static_cast<std::uint32_t>(column.type());
    std::copy(column.name().begin(), column.name().end(), put.name);
    return {};
  }

  /// At most up to the end of the current block.
  void add(const std::byte* data, std::uint64_t size) {
    std::copy_n(data, size, block_.data() + filled_);
    filled_ += size;
    file_.write(data, size);
    if (filled_ == container::block_bytes) end_block();
  }

  void end_block() {
    const auto crcs = crc32c_lanes(block_.data(), filled_ / crc_lanes);
    crcs_.insert(crcs_.end(), crcs.begin(), crcs.end());
    filled_ = 0;
  }

  void finish() {
    if (filled_ > 0) end_block();
    header_.crcs_offset = file_.written();
    file_.write(crcs_.data(), crcs_.size() * sizeof crcs_[0]);
    const Structure& structure = graph_.structure();
    std::copy_n(container::magic, sizeof container::magic, header_.magic);
    header_.version = container::version;
    header_.byte_order = container::byte_order;
    header_.file_bytes = file_.written();
    header_.nodes = structure.nodes;
    header_.edges = structure.edges;
    header_.node_bytes = static_cast<std::uint32_t>(structure.node_bytes);
    header_.edge_bytes = static_cast<std::uint32_t>(structure.edge_bytes);
    header_.undirected = structure.undirected;
    header_.simple = structure.simple;
    const auto bytes = container::header_bytes(header_.sections);
    header_.crc = crc32c(reinterpret_cast<const std::byte*>(&header_), bytes);
    file_.write_start(&header_, bytes);
  }

  OutputFile& file_;
  const Graph& graph_;
  container::Header header_{};
  std::vector<std::byte> block_ = std::vector<std::byte>(container::block_bytes);
  std::uint64_t filled_ = 0;
  std::vector<std::uint32_t> crcs_;
};

Result<void> write(OutputFile& file, const Graph& graph, Format format, const std::string& name,
                   const SaveOptions& options, ThreadTeam& team) {
  const auto text = [&](const TextStyle& style) {
    write_text(file, graph, style, team, options.progress);
    return Result<void>();
  };
  switch (format) {
    case Format::edge_list: return text(edge_list_style(graph));
    case Format::matrix_market: return text(matrix_market_style(graph));
    case Format::dimacs: return text(dimacs_style(graph));
    case Format::metis: return text(metis_style(graph));
    case Format::adj: return text(adj_style(graph));
    case Format::gap: {
      const bool by_name = name.ends_with(".wsg") || name.ends_with(".sg");
      return write_gap(file, graph, by_name ? name.ends_with(".wsg") : graph.edge_values("weight") != nullptr,
                       team.size());
    }
    case Format::ebin: return write_ebin(file, graph), Result<void>();
    case Format::smelt: return ContainerWriter(file, graph).run();
    case Format::automatic: break;
  }
  return make_error(Status::invalid_argument, "{}: which format? its name says none of those that there are", name);
}

}  // namespace

Result<void> save(const Graph& graph, const std::string& file, const SaveOptions& options) {
  const auto format = options.format == Format::automatic ? format_by_name(file) : options.format;
  if (format == Format::automatic || file.ends_with(".gz") || file.ends_with(".zst")) {
    return make_error(Status::invalid_argument,
                      "{}: its name must end as a format's, such as .smg or .el, uncompressed", file);
  }
  const auto team = ThreadTeam::create(options.threads);
  if (!team) return team.error();
  auto output = OutputFile::create(file);
  if (!output) return output.error();
  if (auto written = write(*output, graph, format, file, options, **team); !written) return written;
  return output->finish();
}

}  // namespace smelt::graph
