#include "graph/files/text_edges.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <mutex>

#include "base/error.hpp"

namespace smelt::graph {
namespace {

/// More isolated nodes than this indicate an error or sparse numbers.
constexpr std::uint64_t free_nodes = 1u << 20;
constexpr std::uint64_t nodes_per_edge = 64;

template <class NodeId, class Payload>
class ListSink final : public EdgeSink {
 public:
  static constexpr bool weighted = !std::is_same_v<Payload, NoPayload>;

  void finish() { flush(); }
  void note(std::uint64_t node) override { nodes_up_to_ = std::max(nodes_up_to_, node + 1); }
  bool too_wide() const noexcept { return too_wide_; }
  bool real() const noexcept { return real_; }
  std::uint64_t count() const noexcept { return count_; }
  /// Larger than every node number.
  std::uint64_t nodes_up_to() const noexcept { return nodes_up_to_; }
  const WeightRange& range() const noexcept { return range_; }
  typename EdgeList<NodeId, Payload>::Part& part() noexcept { return part_; }

 private:
  void take(const RawEdge* edges, std::size_t count) override {
    std::uint64_t largest = 0;
    for (std::size_t i = 0; i < count; ++i) largest = std::max({largest, edges[i].from, edges[i].to});
    if (count > 0) nodes_up_to_ = std::max(nodes_up_to_, largest + 1);
    count_ += count;
    if (largest >= most_ids<NodeId>) {
      too_wide_ = failed_ = true;
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto from = static_cast<NodeId>(edges[i].from), to = static_cast<NodeId>(edges[i].to);
      bool added = false;
      if constexpr (weighted) {
        added = part_.add({from, to, edges[i].weight});
        if (!real_) widen(range_, static_cast<std::int64_t>(edges[i].weight));
      } else {
        added = part_.add({from, to, {}});
      }
      if (!added) failed_ = true;
    }
  }

  static void widen(WeightRange& range, std::int64_t weight) noexcept {
    range.min = std::min(range.min, weight);
    range.max = std::max(range.max, weight);
  }

  void make_real() override {
    if constexpr (weighted) {
      part_.for_each([](auto& edge) {
        edge.payload = std::bit_cast<WeightBits>(static_cast<double>(static_cast<std::int64_t>(edge.payload)));
      });
    }
  }

  typename EdgeList<NodeId, Payload>::Part part_;
  WeightRange range_;
  std::uint64_t count_ = 0;
  std::uint64_t nodes_up_to_ = 0;
  bool too_wide_ = false;
};

/// The result of one chunk.
template <class Sink>
struct Parsed {
  Sink sink;
  std::uint64_t lines = 0;
  std::optional<ParseError> mistake;
};

template <class NodeId, class Payload>
class TextReader {
 public:
  TextReader(Lines& lines, const TextFormat& format, const LoadOptions& options, ThreadTeam& team)
      : lines_(lines), format_(format), options_(options), team_(team) {}

  Result<Graph> run() {
    team_.run([this](int thread) { work(thread); });
    if (auto status = lines_.status(); !status) return status.error();
    if (const auto error = first_error()) return *error;
    return join();
  }

  /// The reason why run() failed.
  bool too_wide() const noexcept { return too_wide_; }

 private:
  using Sink = ListSink<NodeId, Payload>;

  void work(int thread) {
    Lines::Chunk chunk;
    while (lines_.next(chunk)) {
      Parsed<Sink>& parsed = place(chunk.number);
      Cursor cursor({chunk.memory.data(), chunk.size});
      parsed.mistake = format_.parse(cursor, parsed.sink);
      parsed.sink.finish();
      parsed.lines = cursor.line() - 1;
      if (parsed.mistake || parsed.sink.failed()) lines_.stop();
      if (thread == 0 && options_.progress) options_.progress("read", lines_.fraction());
    }
  }

  Parsed<Sink>& place(std::size_t number) {
    const std::lock_guard lock(mutex_);
    while (parsed_.size() <= number) parsed_.emplace_back();
    return parsed_[number];  // elements of a deque do not move
  }

  /// The error in the first wrong line. All earlier chunks have been parsed completely.
  std::optional<Error> first_error() {
    auto line = lines_.lines_read();
    for (const auto& each : parsed_) {
      if (each.mistake) {
        return make_error(Status::bad_format, "{}:{}: {}", lines_.name(), line + each.mistake->line,
                          each.mistake->reason);
      }
      too_wide_ = each.sink.too_wide();
      if (each.sink.failed()) return make_error(Status::out_of_memory, "{}: does not fit into memory", lines_.name());
      line += each.lines;
    }
    return std::nullopt;
  }

  Result<Graph> join() {
    EdgeList<NodeId, Payload> list;
    WeightRange range;
    std::uint64_t nodes = 0, nodes_up_to = 0;
    for (auto& each : parsed_) {
      Sink& sink = each.sink;
      range.real = range.real || sink.real();
      range.min = std::min(range.min, sink.range().min);
      range.max = std::max(range.max, sink.range().max);
      nodes_up_to = std::max(nodes_up_to, sink.nodes_up_to());
      list.append(sink.part(), nodes, sink.real());
      nodes += sink.nodes();
    }
    if (auto checked = check_counts(list.count(), nodes); !checked) return checked.error();
    ListOptions options;
    static_cast<BuildOptions&>(options) = options_;
    options.what = lines_.name();
    options.nodes = format_.nodes.value_or(nodes_up_to);
    options.both_listed = list.count() == format_.edges_else && list.count() != format_.edges;
    options.undirected = (options_.undirected || format_.undirected) && !options.both_listed;
    if (auto checked = check_nodes(options.nodes, list.count()); !checked) return checked.error();
    if (options_.progress) options_.progress("arrange", 0.0);
    if constexpr (Sink::weighted) {
      return build_graph(team_, std::move(list), range, options);
    } else {
      return build_graph(team_, std::move(list), options);
    }
  }

  Result<void> check_counts(std::uint64_t edges, std::uint64_t nodes) const {
    if (format_.nodes_are_lines && nodes != *format_.nodes) {
      return make_error(Status::bad_format, "{}: has lines for {} nodes; its header says {}", lines_.name(), nodes,
                        *format_.nodes);
    }
    if (!format_.edges || edges == *format_.edges || edges == format_.edges_else) return {};
    return make_error(Status::bad_format, "{}: has {} edges; its header says {}", lines_.name(), edges, *format_.edges);
  }

  Result<void> check_nodes(std::uint64_t nodes, std::uint64_t edges) const {
    if (options_.renumber || format_.nodes_are_lines || nodes <= free_nodes + nodes_per_edge * edges) return {};
    return make_error(Status::bad_format,
                      "{}: numbers its nodes up to {}, of which most have no edge; --renumber numbers those that do",
                      lines_.name(), nodes - 1);
  }

  Lines& lines_;
  const TextFormat& format_;
  const LoadOptions& options_;
  ThreadTeam& team_;
  std::mutex mutex_;
  std::deque<Parsed<Sink>> parsed_;
  bool too_wide_ = false;
};

template <class NodeId, class Payload>
Result<Graph> read_chunks(Lines& lines, const TextFormat& format, const LoadOptions& options, ThreadTeam& team,
                          bool& too_wide) {
  TextReader<NodeId, Payload> reader(lines, format, options, team);
  auto graph = reader.run();
  too_wide = reader.too_wide();
  return graph;
}

template <class NodeId>
Result<Graph> attempt(const std::string& file, const ReadHeader& read_header, const LoadOptions& options,
                      ThreadTeam& team, bool& too_wide) {
  const auto lines = Lines::open(file);
  if (!lines) return lines.error();
  const auto format = read_header(**lines);
  if (auto status = (*lines)->status(); !status) return status.error();
  if (!format) return format.error();
  return format->weighted ? read_chunks<NodeId, WeightBits>(**lines, *format, options, team, too_wide)
                          : read_chunks<NodeId, NoPayload>(**lines, *format, options, team, too_wide);
}

}  // namespace

Result<Graph> read_text(const std::string& file, const ReadHeader& read_header, const LoadOptions& options,
                        ThreadTeam& team) {
  bool too_wide = false;
  auto graph = attempt<std::uint32_t>(file, read_header, options, team, too_wide);
  if (!too_wide) return graph;
  if (!is_regular_file(file)) {
    return make_error(Status::not_supported, "{}: numbers of more than 32 bits need a file that can be read twice",
                      file);
  }
  return attempt<std::uint64_t>(file, read_header, options, team, too_wide);
}

Error error_in_line(const Lines& lines, const std::string& reason) {
  return make_error(Status::bad_format, "{}:{}: {}", lines.name(), lines.lines_read(), reason);
}

}  // namespace smelt::graph
