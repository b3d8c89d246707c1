// Green-Marl's binary formats, without padding:
//
//   magic: 4 bytes | bytes of a node's number: 4 | bytes of an edge's number: 4
//   nodes | edges                                    as wide as their numbers
//   begin: (nodes + 1) edge numbers | node_idx: edges node numbers
//   extended (EBIN) only:
//     count of node values: 4 | for each: type: 4, values | count of edge values: 4 | for each: type: 4, values
//     end mark: 4
//
// The first edge values become "weight"; further ones are ignored. Node values become "node0", "node1", ...
#include "graph/files/ebin.hpp"

#include <vector>

#include "base/error.hpp"
#include "graph/files/binary.hpp"

namespace smelt::graph {
namespace {

/// Reads the parts of a file in order.
class Parts {
 public:
  explicit Parts(const File& file) : file_(file) {}

  std::uint64_t at() const noexcept { return at_; }
  std::uint64_t left() const noexcept { return at_ < file_.size_bytes() ? file_.size_bytes() - at_ : 0; }
  void skip(std::uint64_t bytes) noexcept { at_ += bytes; }

  Result<std::uint64_t> number(std::uint64_t bytes) {
    std::uint64_t value = 0;
    if (auto read = file_.read_all_at(at_, &value, bytes); !read) return read.error();
    at_ += bytes;
    return value;
  }

 private:
  const File& file_;
  std::uint64_t at_ = 0;
};

/// One of the values that follow the edges.
struct Values {
  ValueType type;
  std::uint64_t offset;
};

class EbinReader {
 public:
  EbinReader(const File& file, const LoadOptions& options, ThreadTeam& team)
      : file_(file), options_(options), team_(team), parts_(file) {}

  Result<Graph> run() {
    if (auto header = read_header(); !header) return header.error();
    if (auto rest = find_values(); !rest) return rest.error();
    if (!edge_values_.empty()) {
      rows_.weights_offset = edge_values_.front().offset;
      rows_.weight_type = edge_values_.front().type;
    }
    auto graph = read_rows(file_, rows_, options_, team_);
    if (options_.renumber) return graph;  // the values belong to the old numbers
    for (std::size_t i = 0; graph && i < node_values_.size(); ++i) {
      auto column = read_column(fmt::format("node{}", i), node_values_[i], rows_.nodes);
      graph = column ? graph->with_node_values(*std::move(column)) : Result<Graph>(column.error());
    }
    return graph;
  }

 private:
  Result<void> read_header() {
    std::uint64_t header[3] = {};
    for (auto& value : header) {
      const auto number = parts_.number(4);
      if (!number) return number.error();
      value = *number;
    }
    const auto [magic, node_bytes, edge_bytes] = header;
    const auto width = [](std::uint64_t bytes) { return bytes == 4 || bytes == 8; };
    if ((magic != ebin::magic && magic != ebin::plain_magic) || !width(node_bytes) || !width(edge_bytes)) {
      return make_error(Status::bad_format, "{}: does not start as a binary file of Green-Marl does", file_.name());
    }
    extended_ = magic == ebin::magic;
    const auto nodes = parts_.number(node_bytes);
    if (!nodes) return nodes.error();
    const auto edges = parts_.number(edge_bytes);
    if (!edges) return edges.error();
    rows_.nodes = *nodes;
    rows_.edges = *edges;
    rows_.node_bytes = static_cast<int>(node_bytes);
    rows_.begin_bytes = static_cast<int>(node_bytes == 8 ? 8 : edge_bytes);
    if (node_bytes == 8 && edge_bytes == 4) {
      return make_error(Status::not_supported, "{}: has nodes of 64 bits, but edges of 32", file_.name());
    }
    if (*nodes >= parts_.left() / edge_bytes || *edges > parts_.left() / node_bytes) return too_short();
    rows_.begin_offset = parts_.at();
    parts_.skip((rows_.nodes + 1) * edge_bytes);
    rows_.node_idx_offset = parts_.at();
    parts_.skip(rows_.edges * node_bytes);
    return {};
  }

  Result<void> find_values() {
    if (!extended_) return {};
    if (auto found = find_values(node_values_, rows_.nodes); !found) return found;
    if (auto found = find_values(edge_values_, rows_.edges); !found) return found;
    const auto end = parts_.number(4);
    if (!end) return end.error();
    if (*end == ebin::end_mark) return {};
    return make_error(Status::bad_format, "{}: does not end with the mark of the format", file_.name());
  }

  Result<void> find_values(std::vector<Values>& values, std::uint64_t size) {
    const auto count = parts_.number(4);
    if (!count) return count.error();
    for (std::uint64_t i = 0; i < *count; ++i) {
      const auto type = parts_.number(4);
      if (!type) return type.error();
      if (*type >= ebin::types.size()) {
        return make_error(Status::bad_format, "{}: values of the unknown type {}", file_.name(), *type);
      }
      values.push_back({ebin::types[*type], parts_.at()});
      const auto bytes = size_of(values.back().type);
      if (size > parts_.left() / bytes) return too_short();
      parts_.skip(size * bytes);
    }
    return {};
  }

  Result<Column> read_column(std::string name, const Values& values, std::uint64_t size) {
    auto pages = Pages::allocate(size * size_of(values.type));
    if (!pages) return pages.error();
    const auto owner = std::make_shared<Pages>(*std::move(pages));
    auto read = read_values(file_, values.offset, owner->data(), values.type, size, team_);
    if (!read) return read.error();
    return Column(std::move(name), values.type, size, {owner, owner->data()});
  }

  Error too_short() const {
    return make_error(Status::bad_format, "{}: has {} bytes, too few for what its header says", file_.name(),
                      file_.size_bytes());
  }

  const File& file_;
  const LoadOptions& options_;
  ThreadTeam& team_;
  Parts parts_;
  bool extended_ = false;
  RawRows rows_;
  std::vector<Values> node_values_, edge_values_;
};

}  // namespace

Result<Graph> read_ebin(const std::string& name, const LoadOptions& options, ThreadTeam& team) {
  const auto file = File::open(name);
  if (!file) return file.error();
  return EbinReader(*file, options, team).run();
}

}  // namespace smelt::graph
