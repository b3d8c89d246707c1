#include "graph/files/container.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "graph/csr/structure.hpp"
#include "graph/files/binary.hpp"
#include "graph/files/checks.hpp"
#include "graph/files/crc32c.hpp"
#include "graph/files/edge_checks.hpp"

namespace smelt::graph {
namespace {

using container::Header;
using container::Section;
using container::SectionKind;

class ContainerReader {
 public:
  ContainerReader(const File& file, ThreadTeam& team) : file_(file), team_(team) {}

  Result<Graph> run() {
    if (auto header = check_header(); !header) return header.error();
    auto mapped = Pages::map(file_.descriptor(), file_.size_bytes());
    if (!mapped) return make_error(Status::io_error, "{}: {}", file_.name(), mapped.error().message);
    structure_->file = *std::move(mapped);
    if (auto sections = check_sections(); !sections) return sections.error();
    auto content = with_ids(*structure_, [&](auto node, auto edge) { return check_content(node, edge); });
    if (!content) return content.error();
    return graph();
  }

 private:
  Error bad(const char* what) const { return make_error(Status::bad_format, "{}: {}", file_.name(), what); }

  Result<void> check_header() {
    const auto count = file_.read_at(0, &header_, sizeof header_);
    if (!count) return count.error();
    const bool starts =
        *count == sizeof header_ && std::memcmp(header_.magic, container::magic, sizeof header_.magic) == 0;
    if (!starts) return bad("does not start as a graph file of smelt does");
    if (header_.byte_order != container::byte_order) return bad("was written on a machine with another byte order");
    if (header_.version != container::version) {
      return make_error(Status::not_supported, "{}: has version {}; this smelt reads version {}; convert it anew",
                        file_.name(), header_.version, container::version);
    }
    if (header_.file_bytes != file_.size_bytes()) {
      return make_error(Status::bad_format, "{}: has {} bytes; its header says {}: it is not complete", file_.name(),
                        file_.size_bytes(), header_.file_bytes);
    }
    const auto width = [](std::uint32_t bytes) { return bytes == 4 || bytes == 8; };
    if (header_.sections > container::most_sections || !width(header_.node_bytes) || !width(header_.edge_bytes)) {
      return bad("has a damaged header");
    }
    const auto crc = std::exchange(header_.crc, 0);
    const auto* bytes = reinterpret_cast<const std::byte*>(&header_);
    if (crc32c(bytes, container::header_bytes(header_.sections)) != crc) return bad("has a damaged header (CRC)");
    const auto most = header_.file_bytes;  // so that no product below overflows
    const bool fits = header_.nodes < most && header_.edges < most && header_.crcs_offset < most &&
                      header_.crcs_offset % container::alignment == 0 && header_.crcs_offset >= container::alignment;
    const Widths needed = widths_for(header_.nodes, header_.edges);
    if (!fits || needed.node_bytes > static_cast<int>(header_.node_bytes) ||
        needed.edge_bytes > static_cast<int>(header_.edge_bytes) || header_.edge_bytes < header_.node_bytes) {
      return bad("has a header that contradicts itself");
    }
    if (crcs_size() != most - header_.crcs_offset) return bad("has a header that contradicts itself");
    structure_ = make_structure(header_.nodes, header_.edges,
                                {static_cast<int>(header_.node_bytes), static_cast<int>(header_.edge_bytes)}, {});
    structure_->undirected = header_.undirected != 0;
    structure_->simple = header_.simple != 0;
    return {};
  }

  std::uint64_t blocks() const { return container::blocks_of(header_.crcs_offset - container::alignment); }
  std::uint64_t crcs_size() const { return blocks() * crc_lanes * sizeof(std::uint32_t); }

  /// The required size of a section; empty for an unknown kind.
  std::optional<std::uint64_t> expected_size(const Section& section) const {
    const auto begin = (header_.nodes + 1) * header_.edge_bytes, node_idx = header_.edges * header_.node_bytes;
    const bool values = section.kind == SectionKind::node_values || section.kind == SectionKind::edge_values;
    if (values && section.type > static_cast<std::uint32_t>(ValueType::float64)) return std::nullopt;
    switch (section.kind) {
      case SectionKind::out_begin:
      case SectionKind::in_begin: return begin;
      case SectionKind::out_node_idx:
      case SectionKind::in_node_idx: return node_idx;
      case SectionKind::in_edge_ids: return header_.edges * header_.edge_bytes;
      case SectionKind::node_values: return header_.nodes * size_of(static_cast<ValueType>(section.type));
      case SectionKind::edge_values: return header_.edges * size_of(static_cast<ValueType>(section.type));
    }
    return std::nullopt;
  }

  Result<void> check_sections() {
    std::uint64_t end = container::alignment;
    for (std::uint32_t i = 0; i < header_.sections; ++i) {
      const Section& section = header_.section[i];
      const auto size = expected_size(section);
      const bool fits = size && section.size_bytes == *size && section.offset % container::alignment == 0 &&
                        section.offset >= end && section.offset <= header_.crcs_offset &&
                        *size <= header_.crcs_offset - section.offset;
      if (!fits || section.name[container::name_bytes - 1] != 0) return bad("has a damaged table of sections");
      end = section.offset + section.size_bytes;
      const void* data = structure_->file.data() + section.offset;
      if (section.kind == SectionKind::out_begin) structure_->out_view.begin = data;
      if (section.kind == SectionKind::out_node_idx) structure_->out_view.node_idx = data;
      if (section.kind == SectionKind::in_begin) structure_->in_view.begin = data;
      if (section.kind == SectionKind::in_node_idx) structure_->in_view.node_idx = data;
      if (section.kind == SectionKind::in_edge_ids) structure_->in_edge_ids_view = data;
    }
    const auto complete = [](const Structure::View& view) { return view.begin != nullptr && view.node_idx != nullptr; };
    if (!complete(structure_->out_view)) return bad("has no edges' sections");
    if (structure_->undirected) structure_->in_view = structure_->out_view;
    structure_->in_ready.store(complete(structure_->in_view), std::memory_order_relaxed);  // not shared yet
    structure_->in_edge_ids_ready.store(structure_->in_edge_ids_view != nullptr, std::memory_order_relaxed);
    return {};
  }

  /// Checks the CRCs of all blocks, and what their numbers must be while the blocks are in caches.
  template <class NodeId, class EdgeId>
  Result<void> check_content(NodeId, EdgeId) {
    using Checks = EdgeChecks<NodeId, EdgeId>;
    const auto checks_of = [&](const Structure::View& view, bool out) {
      return Checks(static_cast<const EdgeId*>(view.begin), static_cast<const NodeId*>(view.node_idx), header_.nodes,
                    out && structure_->undirected, out && structure_->simple);
    };
    const auto &out = structure_->out_view, &in = structure_->in_view;
    const bool has_in = in.node_idx != nullptr && !structure_->undirected;
    const bool offsets = ascending<EdgeId>(out) && (!has_in || ascending<EdgeId>(in));
    Checks out_edges = checks_of(out, true), in_edges = checks_of(in, false);
    auto read = check_blocks([&](std::uint64_t first, std::uint64_t last) {
      if (!offsets) return;
      add_edges(out_edges, out, first, last);
      if (has_in) add_edges(in_edges, in, first, last);
    });
    if (!read) return read;
    if (!offsets) return bad("has nodes' offsets that do not ascend to the number of edges");
    add_borders(out_edges, out);
    if (has_in) add_borders(in_edges, in);
    if (!out_edges.sorted() || !in_edges.sorted()) return bad("has a node whose edges do not ascend");
    if (!out_edges.simple()) return bad("says that it is simple, but has a loop or repeats an edge");
    if (!out_edges.symmetric()) return bad("says that it is undirected, but the reverse of an edge is missing");
    return {};
  }

  /// Also calls more(first, last) with the bytes of the file that are in caches.
  template <class More>
  Result<void> check_blocks(More&& more) {
    const auto* data = structure_->file.data();
    const auto* crcs = reinterpret_cast<const std::uint32_t*>(data + header_.crcs_offset);
    std::atomic<bool> intact{true}, in_bounds{true};
    team_.for_each(blocks(), [&](std::size_t block, int) {
      const auto first = container::alignment + block * container::block_bytes;
      const auto last = std::min(first + container::block_bytes, header_.crcs_offset);
      const auto found = crc32c_lanes(data + first, (last - first) / crc_lanes);
      // Both are read after the team's barrier.
      if (!std::equal(found.begin(), found.end(), crcs + block * crc_lanes))
        intact.store(false, std::memory_order_relaxed);
      if (!bounded(first, last)) in_bounds.store(false, std::memory_order_relaxed);
      more(first, last);
    });
    if (!intact.load(std::memory_order_relaxed)) return bad("is damaged: a checksum is wrong");
    if (!in_bounds.load(std::memory_order_relaxed)) return bad("has an edge that leads to a node that is not there");
    return {};
  }

  template <class EdgeId>
  bool ascending(const Structure::View& view) const {
    return ascend(static_cast<const EdgeId*>(view.begin), header_.nodes, header_.edges, team_);
  }

  /// Where a list of edges begins in the file.
  std::uint64_t offset_of(const Structure::View& view) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(view.node_idx) - structure_->file.data());
  }

  /// Those of the bytes [first, last) of the file.
  template <class Checks>
  void add_edges(Checks& checks, const Structure::View& view, std::uint64_t first, std::uint64_t last) const {
    const auto begin = offset_of(view), end = begin + header_.edges * header_.node_bytes;
    const auto from = std::max(first, begin), to = std::min(last, end);
    if (from < to) checks.add((from - begin) / header_.node_bytes, (to - begin) / header_.node_bytes);
  }
  template <class Checks>
  void add_borders(Checks& checks, const Structure::View& view) const {
    const auto into_block = (offset_of(view) - container::alignment) % container::block_bytes;
    checks.add_borders((container::block_bytes - into_block) / header_.node_bytes,
                       container::block_bytes / header_.node_bytes, header_.edges);
  }

  template <class T>
  static const T* as(const std::byte* data) {
    return reinterpret_cast<const T*>(data);
  }

  struct Bounds {
    std::uint32_t bytes;  ///< bytes of an element; 0: any
    std::uint64_t bound;
  };
  Bounds bounds_of(const Section& section) const {
    switch (section.kind) {
      case SectionKind::out_node_idx:
      case SectionKind::in_node_idx: return {header_.node_bytes, header_.nodes};
      case SectionKind::in_edge_ids: return {header_.edge_bytes, header_.edges};
      case SectionKind::node_values:
      case SectionKind::edge_values:
        if (static_cast<ValueType>(section.type) == ValueType::boolean) return {1, 2};
        return {0, 0};
      default: return {0, 0};
    }
  }

  /// Whether the numbers of nodes and edges in the bytes [first, last) of the file are within their bounds.
  bool bounded(std::uint64_t first, std::uint64_t last) const {
    for (std::uint32_t i = 0; i < header_.sections; ++i) {
      const Section& section = header_.section[i];
      const auto [bytes, bound] = bounds_of(section);
      const auto from = std::max(first, section.offset), to = std::min(last, section.offset + section.size_bytes);
      if (bytes == 0 || from >= to) continue;
      const auto *data = structure_->file.data() + from, *end = structure_->file.data() + to;
      const bool good = bytes == 1   ? all_below(as<std::uint8_t>(data), as<std::uint8_t>(end), bound)
                        : bytes == 4 ? all_below(as<std::uint32_t>(data), as<std::uint32_t>(end), bound)
                                     : all_below(as<std::uint64_t>(data), as<std::uint64_t>(end), bound);
      if (!good) return false;
    }
    return true;
  }

  Result<Graph> graph() {
    const std::shared_ptr<const Structure> structure = structure_;
    Result<Graph> graph = Graph(structure);
    for (std::uint32_t i = 0; graph && i < header_.sections; ++i) {
      const Section& section = header_.section[i];
      const bool of_nodes = section.kind == SectionKind::node_values;
      if (!of_nodes && section.kind != SectionKind::edge_values) continue;
      Column column(section.name, static_cast<ValueType>(section.type), of_nodes ? header_.nodes : header_.edges,
                    {structure, structure->file.data() + section.offset});
      graph = of_nodes ? graph->with_node_values(std::move(column)) : graph->with_edge_values(std::move(column));
    }
    return graph;
  }

  const File& file_;
  ThreadTeam& team_;
  Header header_{};
  std::shared_ptr<Structure> structure_;
};

}  // namespace

Result<Graph> read_container(const std::string& name, const LoadOptions& options, ThreadTeam& team) {
  const auto file = File::open(name);
  if (!file) return file.error();
  auto graph = ContainerReader(*file, team).run();
  if (!graph) return graph;
  const bool changed =
      options.renumber || (options.simple && !graph->simple()) || (options.undirected && !graph->undirected());
  return changed ? rebuild_graph(*graph, options, team, name) : std::move(graph);
}

}  // namespace smelt::graph
