// Graph files of every format: "== FORMAT" and the content. The container's checksums are made right, so that what lies
// behind them is reached.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "fuzz.hpp"
#include "graph/files/container.hpp"
#include "graph/files/crc32c.hpp"
#include "smelt/graph.hpp"

namespace {

using smelt::fuzz::require;
namespace graph = smelt::graph;
namespace container = smelt::graph::container;

void repair(std::string& file) {
  container::Header header{};
  if (file.size() < sizeof header) return;
  std::memcpy(&header, file.data(), sizeof header);
  auto* data = reinterpret_cast<std::byte*>(file.data());
  const auto end = header.crcs_offset;
  if (end % container::alignment == 0 && end >= container::alignment && end < file.size()) {
    for (std::uint64_t first = container::alignment, at = end; first < end && at + 16 <= file.size(); at += 16) {
      const auto last = std::min(first + container::block_bytes, end);
      const auto crcs = graph::crc32c_lanes(data + first, (last - first) / graph::crc_lanes);
      std::memcpy(file.data() + at, crcs.data(), sizeof crcs);
      first = last;
    }
  }
  header.file_bytes = file.size();
  header.crc = 0;
  header.sections = std::min(header.sections, container::most_sections);
  header.crc = graph::crc32c(reinterpret_cast<const std::byte*>(&header), container::header_bytes(header.sections));
  std::memcpy(file.data(), &header, sizeof header);
}

/// Reads all that a graph says it has.
void walk(const graph::Graph& read) {
  graph::with_ids(read, [&](auto node_id, auto edge_id) {
    using EdgeId = decltype(edge_id);
    const auto out = read.out<decltype(node_id), EdgeId>();
    std::uint64_t edges = 0;
    for (std::uint64_t node = 0; node < read.num_nodes(); ++node) {
      for (auto edge = out.begin[node]; edge < out.begin[node + 1]; ++edge, ++edges) {
        require(out.node_idx[edge] < read.num_nodes(), "an edge to nowhere");
        const bool first = edge == out.begin[node];
        require(first || out.node_idx[edge - 1] <= out.node_idx[edge], "not sorted");
      }
    }
    require(edges == read.num_edges(), "edges are missing");
    require(static_cast<bool>(read.in<decltype(node_id), EdgeId>(1)), "no in edges");
  });
  for (const auto* columns : {&read.node_columns(), &read.edge_columns()}) {
    for (const auto& column : *columns) {
      const auto* bytes = static_cast<const unsigned char*>(column.data());
      unsigned sum = 0;
      for (std::uint64_t i = 0; i < column.size() * graph::size_of(column.type()); ++i) sum += bytes[i];
      require(sum + 1 != 0, "");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (auto [name, content] : smelt::fuzz::files_of(smelt::fuzz::text_of(data, size))) {
    const auto format = graph::parse_format(name);
    if (!format) {
      smelt::fuzz::check_message(format.error().message);
      continue;
    }
    if (*format == graph::Format::smelt) repair(content);
    const int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
    require(write(descriptor, content.data(), content.size()) == static_cast<ssize_t>(content.size()),
            "no memory file");
    graph::LoadOptions options;
    options.format = *format;
    options.threads = 2;
    options.adj_edge_values = static_cast<int>(size % 2);
    options.simple = size % 3 == 0;
    options.undirected = size % 5 == 0;
    options.renumber = size % 7 == 0;
    const auto read = graph::load("/proc/self/fd/" + std::to_string(descriptor), options);
    if (read) {
      walk(*read);
    } else {
      smelt::fuzz::check_message(read.error().message);
    }
    close(descriptor);
  }
  return 0;
}
