// Synthetic graphs. Each edge is a function of the seed and its number, so that any thread can generate any edge.
//
// Kronecker: for each of `scale` bits of an edge's ends one draw from the quadrants
//     (0,0) .57   (0,1) .19
//     (1,0) .19   (1,1) .05
// then a permutation of the nodes, because otherwise the numbers would reveal degrees. [Graph500; GAP]
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "graph/csr/build.hpp"
#include "graph/csr/edge_list.hpp"
#include "graph/team/team.hpp"
#include "smelt/graph.hpp"

namespace smelt::graph {
namespace {

constexpr int most_scale = 40;
constexpr std::uint64_t edges_per_part = 1u << 16;

/// SplitMix64: a stream of random numbers that can start at any position.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t number) : state_(mixed(seed ^ mixed(number + increment))) {}

  std::uint64_t next() noexcept { return mixed(state_ += increment); }

 private:
  static constexpr std::uint64_t increment = 0x9E3779B97F4A7C15ull;
  static std::uint64_t mixed(std::uint64_t x) noexcept {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
  }
  std::uint64_t state_;
};

/// A number in 0 .. bound-1, uniform up to a bias of bound / 2^64.
std::uint64_t below(std::uint64_t draw, std::uint64_t bound) noexcept {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(draw) * bound >> 64);
}

/// A bijection of the numbers of `bits` bits, since odd factors and shifted sums are invertible.
class Permutation {
 public:
  Permutation(int bits, std::uint64_t seed) : mask_((std::uint64_t{1} << bits) - 1), shift_((bits + 1) / 2) {
    RandomStream draws(seed, UINT64_MAX);
    for (auto& factor : factors_) factor = draws.next() | 1;
    for (auto& summand : summands_) summand = draws.next();
  }

  std::uint64_t operator()(std::uint64_t x) const noexcept {
    for (int round = 0; round < rounds; ++round) {
      x = (x * factors_[round] + summands_[round]) & mask_;
      x ^= x >> shift_;
    }
    return x;
  }

 private:
  static constexpr int rounds = 3;
  std::uint64_t mask_;
  int shift_;
  std::uint64_t factors_[rounds];
  std::uint64_t summands_[rounds];
};

struct Ends {
  std::uint64_t from, to;
};

constexpr std::uint32_t of_32_bits(double share) { return static_cast<std::uint32_t>(share * 4294967296.0); }
constexpr std::uint32_t upper_left = of_32_bits(0.57);
constexpr std::uint32_t upper_half = of_32_bits(0.57 + 0.19);
constexpr std::uint32_t lower_left = of_32_bits(0.57 + 0.19 + 0.19);

class Kronecker {
 public:
  explicit Kronecker(const GeneratorSpec& spec)
      : scale_(spec.scale), seed_(spec.seed), permutation_(spec.scale, spec.seed) {}

  Ends operator()(std::uint64_t edge) const noexcept {
    RandomStream draws(seed_, edge);
    std::uint64_t from = 0, to = 0, draw = 0;
    for (int bit = 0; bit < scale_; ++bit) {
      draw = bit % 2 == 0 ? draws.next() : draw >> 32;  // each bit uses 32 random bits
      const auto quadrant = static_cast<std::uint32_t>(draw);
      const bool lower = quadrant >= upper_half;
      const bool right = lower ? quadrant >= lower_left : quadrant >= upper_left;
      from = from << 1 | (lower ? 1 : 0);
      to = to << 1 | (right ? 1 : 0);
    }
    return {permutation_(from), permutation_(to)};
  }

 private:
  int scale_;
  std::uint64_t seed_;
  Permutation permutation_;
};

class Uniform {
 public:
  explicit Uniform(const GeneratorSpec& spec) : nodes_(std::uint64_t{1} << spec.scale), seed_(spec.seed) {}

  Ends operator()(std::uint64_t edge) const noexcept {
    RandomStream draws(seed_, edge);
    const auto from = below(draws.next(), nodes_);
    return {from, below(draws.next(), nodes_)};
  }

 private:
  std::uint64_t nodes_, seed_;
};

/// First the edges to the right neighbours, row by row, then those to the lower ones.
class Grid {
 public:
  explicit Grid(const GeneratorSpec& spec) : rows_(spec.rows), columns_(spec.columns) {}

  static std::uint64_t edges(const GeneratorSpec& spec) {
    return spec.rows * (spec.columns - 1) + (spec.rows - 1) * spec.columns;
  }

  Ends operator()(std::uint64_t edge) const noexcept {
    const auto across = rows_ * (columns_ - 1);
    if (edge >= across) return {edge - across, edge - across + columns_};
    const auto from = edge / (columns_ - 1) * columns_ + edge % (columns_ - 1);
    return {from, from + 1};
  }

 private:
  std::uint64_t rows_, columns_;
};

Error no_room(std::uint64_t nodes, std::uint64_t count) {
  return make_error(Status::out_of_memory, "{} nodes and {} edges do not fit into memory", nodes, count);
}

/// Memory that the list and the graph built of it need at least: the larger of two lists, as the first one is freed
/// while the second one is filled, and an offset per node.
template <class NodeId>
double least_bytes(std::uint64_t nodes, std::uint64_t count, const GeneratorSpec& spec) {
  const bool weighted = spec.max_weight > 0;
  const std::size_t listed = weighted ? sizeof(Edge<NodeId, WeightBits>) : sizeof(Edge<NodeId, NoPayload>);
  const std::size_t sorted = weighted ? sizeof(Edge<NodeId, std::uint32_t>) : sizeof(Edge<NodeId, NoPayload>);
  const std::size_t per_edge = std::max(listed, spec.directed ? sorted : 2 * sorted);
  return static_cast<double>(count) * static_cast<double>(per_edge) +
         static_cast<double>(nodes) * static_cast<double>(sizeof(std::uint64_t));
}

template <class NodeId, class Payload, class Edges, class PayloadOf>
Result<EdgeList<NodeId, Payload>> list_edges(ThreadTeam& team, std::uint64_t nodes, std::uint64_t count,
                                             const Edges& edges, PayloadOf payload_of, const Progress& progress) {
  using List = EdgeList<NodeId, Payload>;
  std::vector<typename List::Part> parts((count + edges_per_part - 1) / edges_per_part);
  std::atomic<bool> room{true};
  std::atomic<std::size_t> done{0};
  team.for_each(parts.size(), [&](std::size_t part, int thread) {
    const auto first = part * edges_per_part, last = std::min(count, first + edges_per_part);
    for (auto edge = first; edge < last && room.load(std::memory_order_relaxed); ++edge) {
      const Ends ends = edges(edge);
      const bool added =
          parts[part].add({static_cast<NodeId>(ends.from), static_cast<NodeId>(ends.to), payload_of(edge)});
      if (!added) room.store(false, std::memory_order_relaxed);
    }
    const auto parts_done = done.fetch_add(1, std::memory_order_relaxed) + 1;
    if (thread == 0 && progress)
      progress("generate", static_cast<double>(parts_done) / static_cast<double>(parts.size()));
  });
  if (!room.load(std::memory_order_relaxed)) return no_room(nodes, count);
  List list;
  for (auto& part : parts) list.append(part);
  return list;
}

template <class NodeId, class Edges>
Result<Graph> generate_with(ThreadTeam& team, std::uint64_t nodes, std::uint64_t count, const Edges& edges,
                            const GeneratorSpec& spec, const Progress& progress) {
  if (!fits_into_memory(least_bytes<NodeId>(nodes, count, spec))) return no_room(nodes, count);
  ListOptions options;
  options.nodes = nodes;
  options.undirected = !spec.directed;
  options.simple = !spec.multi;
  if (spec.max_weight == 0) {
    const auto nothing = [](std::uint64_t) { return NoPayload{}; };
    auto list = list_edges<NodeId, NoPayload>(team, nodes, count, edges, nothing, progress);
    return list ? build_graph(team, *std::move(list), options) : Result<Graph>(list.error());
  }
  const auto weight = [&](std::uint64_t edge) {
    return 1 + below(RandomStream(~spec.seed, edge).next(), static_cast<std::uint64_t>(spec.max_weight));
  };
  auto list = list_edges<NodeId, WeightBits>(team, nodes, count, edges, weight, progress);
  return list ? build_graph(team, *std::move(list), {.min = 1, .max = spec.max_weight}, options)
              : Result<Graph>(list.error());
}

template <class Edges>
Result<Graph> generate_with(ThreadTeam& team, std::uint64_t nodes, std::uint64_t count, const Edges& edges,
                            const GeneratorSpec& spec, const Progress& progress) {
  return nodes <= most_ids<std::uint32_t> ? generate_with<std::uint32_t>(team, nodes, count, edges, spec, progress)
                                          : generate_with<std::uint64_t>(team, nodes, count, edges, spec, progress);
}

Result<void> check(const GeneratorSpec& spec) {
  constexpr std::uint64_t most_side = 1u << 30;
  if (spec.max_weight < 0)
    return make_error(Status::invalid_argument, "weight {}: must be at least 0", spec.max_weight);
  if (spec.kind == GeneratorSpec::Kind::grid) {
    if (spec.rows >= 1 && spec.columns >= 1 && spec.rows <= most_side && spec.columns <= most_side) return {};
    return make_error(Status::invalid_argument, "a grid of {} x {}: both must be 1 to {}", spec.rows, spec.columns,
                      most_side);
  }
  if (spec.scale < 0 || spec.scale > most_scale) {
    return make_error(Status::invalid_argument, "scale {}: must be 0 to {}", spec.scale, most_scale);
  }
  if (spec.degree < 0 || spec.degree > 1 << 20) {
    return make_error(Status::invalid_argument, "degree {}: must be 0 to {}", spec.degree, 1 << 20);
  }
  return {};
}

std::optional<std::uint64_t> parse_whole(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// One part of the text after the kind, such as "20", "1000x500", "degree=8", "directed".
bool parse_part(GeneratorSpec& spec, std::string_view part) {
  if (part == "directed") return spec.directed = true;
  if (part == "multi") return spec.multi = true;
  const auto equals = part.find('=');
  if (equals == std::string_view::npos && spec.kind == GeneratorSpec::Kind::grid) {
    const auto cross = part.find('x');
    if (cross == std::string_view::npos) return false;
    const auto rows = parse_whole(part.substr(0, cross)), columns = parse_whole(part.substr(cross + 1));
    spec.rows = rows.value_or(0);
    spec.columns = columns.value_or(0);
    return rows && columns;
  }
  const auto value = parse_whole(equals == std::string_view::npos ? part : part.substr(equals + 1));
  if (!value) return false;
  const auto name = equals == std::string_view::npos ? "scale" : part.substr(0, equals);
  if (name == "seed") {
    spec.seed = *value;
    return true;
  }
  if (*value > INT32_MAX) return false;
  const auto small = static_cast<int>(*value);
  if (name == "scale") return spec.scale = small, true;
  if (name == "degree") return spec.degree = small, true;
  if (name == "weights") return spec.max_weight = small, true;
  return false;
}

}  // namespace

Result<GeneratorSpec> parse_generator(std::string_view text) {
  GeneratorSpec spec;
  const auto colon = text.find(':');
  const auto kind = text.substr(0, colon);
  if (kind == "kron" || kind == "kronecker") {
    spec.kind = GeneratorSpec::Kind::kronecker;
  } else if (kind == "uniform") {
    spec.kind = GeneratorSpec::Kind::uniform;
  } else if (kind == "grid") {
    spec.kind = GeneratorSpec::Kind::grid;
  } else {
    return make_error(Status::invalid_argument, "'{}': no such generator (one of kron, uniform, grid)", kind);
  }
  std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  if (rest.empty()) {
    return make_error(Status::invalid_argument, "'{}': how large? as in kron:20 or grid:1000x500", text);
  }
  while (!rest.empty()) {
    const auto end = std::min(rest.find(':'), rest.size());
    const auto part = rest.substr(0, end);
    if (!parse_part(spec, part)) {
      return make_error(
          Status::invalid_argument,
          "'{}' in '{}': must be a scale (a grid's ROWSxCOLUMNS), degree=N, seed=N, weights=MAX, directed or multi",
          part, text);
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (auto checked = check(spec); !checked) return checked.error();
  return spec;
}

Result<Graph> generate(const GeneratorSpec& spec, int threads, const Progress& progress) {
  if (auto checked = check(spec); !checked) return checked.error();
  const auto team = ThreadTeam::create(threads);
  if (!team) return team.error();
  if (spec.kind == GeneratorSpec::Kind::grid) {
    return generate_with(**team, spec.rows * spec.columns, Grid::edges(spec), Grid(spec), spec, progress);
  }
  const auto nodes = std::uint64_t{1} << spec.scale;
  const auto count = nodes * static_cast<std::uint64_t>(spec.degree);
  return spec.kind == GeneratorSpec::Kind::kronecker
             ? generate_with(**team, nodes, count, Kronecker(spec), spec, progress)
             : generate_with(**team, nodes, count, Uniform(spec), spec, progress);
}

}  // namespace smelt::graph
