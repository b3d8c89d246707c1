#include "graph/files/format.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/error.hpp"
#include "graph/files/binary.hpp"
#include "graph/files/bytes.hpp"
#include "graph/files/container.hpp"
#include "graph/files/ebin.hpp"
#include "graph/files/text_edges.hpp"
#include "graph/team/team.hpp"
#include "smelt/graph.hpp"

namespace smelt::graph {
namespace {

struct Name {
  std::string_view name;
  Format format;
};

/// The first name of each format is its name; all are extensions of file names.
constexpr std::array names = {
    Name{"edge-list", Format::edge_list},
    Name{"el", Format::edge_list},
    Name{"wel", Format::edge_list},
    Name{"txt", Format::edge_list},
    Name{"edges", Format::edge_list},
    Name{"tsv", Format::edge_list},
    Name{"csv", Format::edge_list},
    Name{"matrix-market", Format::matrix_market},
    Name{"mtx", Format::matrix_market},
    Name{"dimacs", Format::dimacs},
    Name{"gr", Format::dimacs},
    Name{"col", Format::dimacs},
    Name{"metis", Format::metis},
    Name{"graph", Format::metis},
    Name{"gap", Format::gap},
    Name{"sg", Format::gap},
    Name{"wsg", Format::gap},
    Name{"ebin", Format::ebin},
    Name{"bin", Format::ebin},
    Name{"adj", Format::adj},
    Name{"smelt", Format::smelt},
    Name{"smg", Format::smelt},
};

const Name* find_name(std::string_view name) {
  const auto* found = std::find_if(names.begin(), names.end(), [&](const Name& each) { return each.name == name; });
  return found == names.end() ? nullptr : found;
}

/// Recognizes formats by their magic numbers.
Result<Format> format_by_start(const File& file) {
  char start[16] = {};
  const auto count = file.read_at(0, start, sizeof start);
  if (!count) return count.error();
  std::uint32_t word = 0;
  std::memcpy(&word, start, sizeof word);
  if (std::memcmp(start, container::magic, sizeof container::magic) == 0) return Format::smelt;
  if (word == ebin::magic || word == ebin::plain_magic) return Format::ebin;
  if (std::string_view(start, *count).starts_with("%%MatrixMarket")) return Format::matrix_market;
  return Format::automatic;
}

Result<Format> format_of(const std::string& name) {
  if (is_regular_file(name)) {
    const auto file = File::open(name);
    if (!file) return file.error();
    auto format = format_by_start(*file);
    if (!format || *format != Format::automatic) return format;
  }
  const auto by_name = format_by_name(name);
  return by_name == Format::automatic ? Format::edge_list : by_name;
}

Result<Graph> load_metis(const std::string& file, const LoadOptions& options, ThreadTeam& team) {
  bool may_have_sizes = false;
  const auto read = [&](bool sizes) {
    return read_text(
        file, [&](Lines& lines) { return read_metis_header(lines, sizes, may_have_sizes); }, options, team);
  };
  auto graph = read(false);
  const bool again = may_have_sizes && is_regular_file(file);
  if (graph || !again || graph.error().status != Status::bad_format) return graph;
  auto with_sizes = read(true);
  return with_sizes ? std::move(with_sizes) : std::move(graph);
}

Result<Graph> load(const std::string& file, Format format, const LoadOptions& options, ThreadTeam& team) {
  switch (format) {
    case Format::automatic:
    case Format::edge_list: return read_text(file, read_edge_list_header, options, team);
    case Format::matrix_market: return read_text(file, read_matrix_market_header, options, team);
    case Format::dimacs: return read_text(file, read_dimacs_header, options, team);
    case Format::metis: return load_metis(file, options, team);
    case Format::adj:
      return read_text(
          file, [&](Lines& lines) { return read_adj_header(lines, options); }, options, team);
    case Format::gap: return read_gap(file, options, team);
    case Format::ebin: return read_ebin(file, options, team);
    case Format::smelt: return read_container(file, options, team);
  }
  return make_error(Status::invalid_argument, "{}: no such format", file);
}

}  // namespace

const char* to_string(Format format) noexcept {
  if (format == Format::automatic) return "automatic";
  for (const auto& each : names) {
    if (each.format == format) return each.name.data();
  }
  return "?";
}

Result<Format> parse_format(std::string_view name) {
  if (name == "automatic") return Format::automatic;
  if (const auto* found = find_name(name)) return found->format;
  std::string all;
  for (const auto& each : names) {
    if (each.name == to_string(each.format)) all += (all.empty() ? "" : ", ") + std::string(each.name);
  }
  return make_error(Status::invalid_argument, "'{}': no such format (one of {})", shown(name), all);
}

Format format_by_name(std::string_view file) {
  for (const std::string_view compressed : {".gz", ".zst", ".zstd"}) {
    if (file.ends_with(compressed)) file.remove_suffix(compressed.size());
  }
  const auto dot = file.rfind('.');
  if (dot == std::string_view::npos || file.find('/', dot) != std::string_view::npos) return Format::automatic;
  const auto* found = find_name(file.substr(dot + 1));
  return found == nullptr ? Format::automatic : found->format;
}

Result<Graph> load(const std::string& file, const LoadOptions& options) {
  const auto wrong = [](int values) { return values < 0 || values > 1000; };
  if (wrong(options.adj_node_values) || wrong(options.adj_edge_values) || options.adj_edge_values > 1) {
    return make_error(Status::invalid_argument, "values in an ADJ file: 0 to 1000 per node, 0 or 1 per edge");
  }
  const auto format = options.format == Format::automatic ? format_of(file) : Result<Format>(options.format);
  if (!format) return format.error();
  const auto team = ThreadTeam::create(options.threads);
  if (!team) return team.error();
  return load(file, *format, options, **team);
}

}  // namespace smelt::graph
