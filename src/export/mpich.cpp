// MPICH 4.0: selection files, JSON.
//
//   {"collective=bcast": {"comm_type=intra": {"comm_size<4": {...}, "comm_size<=4": {...}, "comm_size=any": {...}}}}
//
// A key is a condition. If it holds, its value is evaluated, and otherwise the next key. A leaf is {"algorithm=NAME":
// {}}. The file replaces MPICH's own selection completely, so it contains MPICH's defaults for everything that is not
// decided here. Builds with the shared-memory device first ask another file, for four operations: whether to use the
// device's own algorithm (release_gather: through shared memory) or to continue with the first file.
#include "export/mpich.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "export/internal.hpp"

namespace smelt::plan {
namespace {

/// A JSON object of objects, keys in order.
struct Node {
  std::string key;
  std::vector<Node> children;

  Node& child(std::string_view name) {
    for (auto& each : children) {
      if (each.key == name) return each;
    }
    return children.emplace_back(Node{std::string(name), {}});
  }
};

Node leaf(std::string_view algorithm) { return {fmt::format("algorithm={}", algorithm), {}}; }

std::string format_node(const Node& node, int depth) {
  const std::string indent(static_cast<std::size_t>(depth) * 2, ' ');
  std::string text = depth == 0 ? "{" : fmt::format("{}\"{}\": {{", indent, node.key);
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    text += (i == 0 ? "\n" : ",\n") + format_node(node.children[i], depth + 1);
  }
  return text + (node.children.empty() ? "}" : "\n" + indent + "}");
}

std::vector<std::string_view> split(std::string_view words) {
  std::vector<std::string_view> list;
  while (!words.empty()) {
    const auto end = std::min(words.find(' '), words.size());
    list.push_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return list;
}

Node default_tree() {
  Node tree;
  for (const auto& each : mpich_defaults()) {
    Node* at = &tree.child(fmt::format("collective={}", each.collective));
    for (auto condition : split(each.conditions)) at = &at->child(condition);
    at->children.push_back(leaf(fmt::format("MPIR_{}", each.algorithm)));
  }
  return tree;
}

/// The first value for which "name<=12" or "name<12" does not hold; 0 if the condition is about another name.
std::size_t limit_of(std::string_view condition, std::string_view name) {
  if (!condition.starts_with(name) || condition.size() <= name.size() || condition[name.size()] != '<') return 0;
  condition.remove_prefix(name.size() + 1);
  const bool inclusive = condition.starts_with('=');
  if (inclusive) condition.remove_prefix(1);
  std::size_t value = 0;
  std::from_chars(condition.data(), condition.data() + condition.size(), value);
  return value + (inclusive ? 1 : 0);
}

/// Whether the condition holds for a built-in operator, different buffers, and at least as many elements as ranks.
bool holds(std::string_view condition, int ranks, std::size_t bytes) {
  const auto size = static_cast<std::size_t>(ranks);
  if (const auto limit = limit_of(condition, "comm_size")) return size < limit;
  if (const auto limit = limit_of(condition, "avg_msg_size")) return bytes < limit;
  if (const auto limit = limit_of(condition, "total_msg_size")) return bytes * size < limit;
  if (condition == "comm_size=pow2") return is_power_of_two(ranks);
  for (const char* no :
       {"comm_type=inter", "count<pow2", "is_sendbuf_inplace=yes", "is_op_built_in=no", "is_commutative=no"}) {
    if (condition == no) return false;
  }
  return true;
}

std::string_view default_algorithm(std::string_view collective, int ranks, std::size_t bytes) {
  for (const auto& each : mpich_defaults()) {
    const auto conditions = split(each.conditions);
    if (each.collective == collective &&
        std::all_of(conditions.begin(), conditions.end(), [&](auto c) { return holds(c, ranks, bytes); })) {
      return each.algorithm;
    }
  }
  return {};
}

struct SelectionCase {
  const char* collective;
  Operation operation;
  const char* size_key;  ///< MPICH's name of the size
  std::size_t size_blocks(int ranks) const {
    return std::string_view(size_key) == "total_msg_size" ? static_cast<std::size_t>(ranks) : 1;
  }
};
constexpr SelectionCase selected[] = {{"bcast", Operation::broadcast, "avg_msg_size"},
                                      {"allreduce", Operation::allreduce, "avg_msg_size"},
                                      {"reduce", Operation::reduce, "avg_msg_size"},
                                      {"allgather", Operation::allgather, "total_msg_size"},
                                      {"alltoall", Operation::alltoall, "avg_msg_size"}};

std::vector<RuntimeAlgorithm> contenders(Operation operation, int ranks) {
  switch (operation) {
    case Operation::broadcast:
      return {{"Bcast_intra_binomial", 0, "broadcast_tree+channels+tree=k-nomial:2"},
              {"Bcast_intra_scatter_ring_allgather", 0, "broadcast_scatter_allgather+channels"}};
    case Operation::allreduce:
      return {{"Allreduce_intra_recursive_doubling", 0, "allreduce_recursive_doubling+channels"},
              {"Allreduce_intra_reduce_scatter_allgather", 0, "allreduce_reduce_scatter_allgather+channels"}};
    case Operation::reduce:
      return {{"Reduce_intra_binomial", 0, "reduce_tree+channels+tree=k-nomial:2"},
              {"Reduce_intra_reduce_scatter_gather", 0, "reduce_scatter_gather+channels"}};
    case Operation::allgather: {
      std::vector<RuntimeAlgorithm> list = {{"Allgather_intra_brucks", 0, "allgather_bruck+channels"},
                                            {"Allgather_intra_ring", 0, "allgather_ring+channels"}};
      if (is_power_of_two(ranks)) {
        list.push_back({"Allgather_intra_recursive_doubling", 0, "allgather_recursive_doubling+channels"});
      }
      return list;
    }
    default:  // the scattered one posts at once what the pairwise one sends in turn
      return {{"Alltoall_intra_brucks", 0, "alltoall_bruck+channels"},
              {"Alltoall_intra_pairwise", 0, "alltoall_pairwise+channels"},
              {"Alltoall_intra_scattered", 0, "alltoall_pairwise+channels", false}};
  }
}

SimulatedRace make_race(const SelectionCase& collective, int ranks) {
  SimulatedRace race{.operation = collective.operation, .contenders = contenders(collective.operation, ranks)};
  for (const auto& each : mpich_defaults()) {
    if (each.collective != collective.collective) continue;
    for (auto condition : split(each.conditions)) {
      race.boundaries.push_back(limit_of(condition, "avg_msg_size"));
      race.boundaries.push_back(limit_of(condition, "total_msg_size") / static_cast<std::size_t>(ranks));
    }
  }
  race.default_of = [name = collective.collective, ranks, list = race.contenders](std::size_t bytes) {
    const auto algorithm = default_algorithm(name, ranks, bytes);
    for (int index = 0; index < static_cast<int>(list.size()); ++index) {
      if (list[static_cast<std::size_t>(index)].name == algorithm) return index;
    }
    return -1;
  };
  return race;
}

/// Reduce-scatter requires an element per rank and a built-in operator.
std::vector<Node> chosen_nodes(Operation operation, const std::vector<RuntimeAlgorithm>& list, int winner) {
  const Node algorithm = leaf("MPIR_" + list[static_cast<std::size_t>(winner)].name);
  const bool reduces = operation == Operation::allreduce || operation == Operation::reduce;
  if (!reduces || winner == 0) return {algorithm};
  const Node general = leaf("MPIR_" + list[0].name);
  return {Node{"is_op_built_in=yes", {Node{"count<pow2", {general}}, Node{"count=any", {algorithm}}}},
          Node{"is_op_built_in=no", {general}}};
}

/// The selection for exactly `ranks` ranks. `keep` is MPICH's own.
std::vector<Node> sized_nodes(const SelectionCase& collective, const SimulatedRace& race,
                              const std::vector<SizeRange>& ranges, int ranks, const std::vector<Node>& keep) {
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const int winner = ranges[i].winner;
    while (i + 1 < ranges.size() && ranges[i + 1].winner == winner) ++i;
    const std::string condition =
        i + 1 < ranges.size()
            ? fmt::format("{}<{}", collective.size_key, ranges[i + 1].from_bytes * collective.size_blocks(ranks))
            : fmt::format("{}=any", collective.size_key);
    nodes.push_back({condition, winner < 0 ? keep : chosen_nodes(collective.operation, race.contenders, winner)});
  }
  return nodes;
}

void insert(Node& tree, const SelectionCase& collective, const SimulatedRace& race,
            const std::vector<SizeRange>& ranges, int ranks) {
  Node* at = &tree.child(fmt::format("collective={}", collective.collective)).child("comm_type=intra");
  if (collective.operation == Operation::alltoall) at = &at->child("is_sendbuf_inplace=no");
  const std::vector<Node> keep = at->children;
  at->children = {Node{fmt::format("comm_size<{}", ranks), keep},
                  Node{fmt::format("comm_size<={}", ranks), sized_nodes(collective, race, ranges, ranks, keep)},
                  Node{"comm_size=any", keep}};
}

}  // namespace

Result<RuntimeSettings> export_mpich(const ExportTarget& job) {
  RuntimeSettings settings;
  Node tree = default_tree();
  for (const auto& collective : selected) {
    const SimulatedRace race = make_race(collective, job.ranks());
    auto ranges = run_race(job, race);
    if (!ranges) return ranges.error();
    add_choices(settings, race, *ranges);
    if (decides(*ranges)) insert(tree, collective, race, *ranges, job.ranks());
  }
  settings.text = format_node(tree, 0) + "\n";
  settings.usage =
      fmt::format("MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=FILE mpiexec -n {} -bind-to core PROGRAM\n", job.ranks());
  return settings;
}

namespace {

struct Device {
  const char* collective;
  Operation operation;
  const char* shared;  ///< recipe with the moves of release_gather
  const char* passing;
};
constexpr Device device_collectives[] = {
    {"bcast", Operation::broadcast, "broadcast_pipeline+staged", "broadcast_tree+channels+tree=k-nomial:2"},
    {"allreduce", Operation::allreduce, "allreduce_flat+staged", "allreduce_recursive_doubling+channels"},
    {"reduce", Operation::reduce, "reduce_flat+staged", "reduce_tree+channels+tree=k-nomial:2"}};

std::string shared(const Device& device) { return fmt::format("MPIDI_POSIX_mpi_{}_release_gather", device.collective); }

SimulatedRace device_race(const Device& device) {
  SimulatedRace race{
      .operation = device.operation,
      .contenders = {{shared(device), 0, device.shared, false, false}, {"message passing", 0, device.passing}}};
  race.default_of = [](std::size_t) { return 0; };
  return race;
}

Node device_leaf(const Device& device, int winner) {
  const Node own = leaf(shared(device));
  // The file format has no name for "continue". A case that no line covers continues. This condition never holds here,
  // since all programs are single-threaded.
  return winner < 0 ? own : Node{"is_multi_threaded=yes", {own}};
}

/// release_gather keeps state that threads must not share, and combines in no fixed order.
Node guarded(const Device& device, std::vector<Node> nodes) {
  const bool reduces = device.operation != Operation::broadcast;
  if (reduces) nodes = {Node{"is_commutative=yes", std::move(nodes)}};
  return {fmt::format("collective={}", device.collective),
          {Node{"comm_type=intra", {Node{"is_multi_threaded=no", std::move(nodes)}}}}};
}

}  // namespace

Result<RuntimeSettings> export_mpich_posix(const ExportTarget& job) {
  RuntimeSettings settings;
  Node tree;
  for (const auto& device : device_collectives) {
    const SimulatedRace race = device_race(device);
    auto ranges = run_race(job, race);
    if (!ranges) return ranges.error();
    add_choices(settings, race, *ranges);
    const std::vector<Node> keep = {leaf(shared(device))};
    std::vector<Node> nodes = keep;
    if (decides(*ranges)) {
      nodes = {Node{fmt::format("comm_size<{}", job.ranks()), keep},
               Node{fmt::format("comm_size<={}", job.ranks()), {}}, Node{"comm_size=any", keep}};
      for (std::size_t i = 0; i < ranges->size(); ++i) {
        const auto& each = (*ranges)[i];
        const bool last = i + 1 == ranges->size();
        const std::string size =
            last ? "avg_msg_size=any" : fmt::format("avg_msg_size<{}", (*ranges)[i + 1].from_bytes);
        nodes[1].children.push_back({size, {device_leaf(device, each.winner)}});
      }
    }
    tree.children.push_back(guarded(device, std::move(nodes)));
  }
  tree.children.push_back(
      {"collective=barrier",
       {Node{"comm_type=intra", {Node{"is_multi_threaded=no", {leaf("MPIDI_POSIX_mpi_barrier_release_gather")}}}}}});
  settings.text = format_node(tree, 0) + "\n";
  settings.usage = fmt::format(
      "MPIR_CVAR_CH4_POSIX_COLL_SELECTION_TUNING_JSON_FILE=FILE mpiexec -n {} -bind-to core PROGRAM\n", job.ranks());
  return settings;
}

}  // namespace smelt::plan
