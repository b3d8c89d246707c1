#include "cli/document.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <sstream>

#include "cli/command.hpp"
#include "cli/interrupt.hpp"

namespace smelt::cli {
namespace {

constexpr std::size_t max_plan_bytes = 64u << 20;
constexpr int max_depth = 32;
constexpr std::size_t max_shown_bytes = 80;

std::string compact(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// A value from a user's file, in a form that fits a message.
std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > max_shown_bytes ? text.substr(0, max_shown_bytes) + "..." : text;
}

bool holds_structures(const Json& value) {
  if (!value.is_array()) return false;
  for (const auto& element : value) {
    if (element.is_structured()) return true;
  }
  return false;
}

Json children_of(const Tree& tree) { return Json(tree.children); }

// Checks a tree that a user may have edited, so that the planner's code only ever gets spanning trees.
Tree checked_tree(const Json& children, int root, int ranks, const std::string& origin, const char* key) {
  if (!children.is_array() || static_cast<int>(children.size()) != ranks) {
    fail("{}: {}: must be an array of {} arrays, one per rank", origin, key, ranks);
  }
  Tree tree{root, {}};
  std::vector<int> parent(static_cast<std::size_t>(ranks), -1);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& list = children[static_cast<std::size_t>(rank)];
    if (!list.is_array()) fail("{}: {}[{}]: must be an array of ranks", origin, key, rank);
    auto& own = tree.children.emplace_back();
    for (const auto& child : list) {
      if (!child.is_number_integer()) fail("{}: {}[{}]: {} is not a rank", origin, key, rank, shown(child));
      const auto value = child.get<std::int64_t>();
      if (value < 0 || value >= ranks || value == root || parent[static_cast<std::size_t>(value)] >= 0) {
        fail("{}: {}[{}]: rank {} cannot be a child here: every rank but the root has one parent", origin, key, rank,
             value);
      }
      parent[static_cast<std::size_t>(value)] = rank;
      own.push_back(static_cast<int>(value));
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    int above = rank;
    for (int hops = 0; above != root && hops <= ranks; ++hops) {
      above = parent[static_cast<std::size_t>(above)];
      if (above < 0 || hops == ranks) fail("{}: {}: rank {} is not connected to the root {}", origin, key, rank, root);
    }
  }
  return tree;
}

const Json& required(const Json& document, const char* key, const std::string& origin) {
  const auto found = document.find(key);
  if (found == document.end()) fail("{}: {}: missing; this is not the JSON of `smelt plan --json`", origin, key);
  return *found;
}

Group group_of(const Machine& machine, const Json& pus, const std::string& origin) {
  if (!pus.is_array() || pus.empty()) fail("{}: pus: must be an array of OS numbers of PUs", origin);
  Group group;
  for (const auto& pu : pus) {
    const bool usable = pu.is_number_integer() && pu.get<std::int64_t>() >= 0 && pu.get<std::int64_t>() <= INT32_MAX;
    const int index = usable ? machine.index_of(pu.get<int>()) : -1;
    if (index < 0) fail("{}: pus: the machine '{}' has no PU {}", origin, machine.name, shown(pu));
    group.pus.push_back(index);
  }
  return group;
}

// The steps of an operation are those of its phases, one after the other.
void append_steps(const Plan& part, Plan& plan) {
  plan.steps.resize(part.steps.size());
  for (std::size_t rank = 0; rank < part.steps.size(); ++rank) {
    plan.steps[rank].insert(plan.steps[rank].end(), part.steps[rank].begin(), part.steps[rank].end());
  }
}

void append_phase(const Machine& machine, const Tree& tree, Operation phase, Plan& plan) {
  append_steps(take(plan_from_tree(machine, plan.group, phase, tree)), plan);
}

constexpr const char* exchanged_votes = "recursive doubling";

void append_exchange(const Machine& machine, Plan& plan) {
  PlanOptions options;
  options.topology = "dissemination";
  append_steps(take(make_plan(machine, plan.group, Operation::allreduce, options)), plan);
}

void append_phases(const Machine& machine, Plan& plan) {
  const Tree down = plan.broadcast_tree.value_or(Tree{});
  const Tree up = plan.reduce_tree.value_or(Tree{});
  switch (plan.operation) {
    case Operation::broadcast: return append_phase(machine, down, Operation::broadcast, plan);
    case Operation::reduce: return append_phase(machine, up, Operation::reduce, plan);
    case Operation::two_phase_commit:
      append_phase(machine, down, Operation::broadcast, plan);
      if (!plan.reduce_tree) return append_exchange(machine, plan);
      [[fallthrough]];
    case Operation::barrier:
    case Operation::allreduce:
      append_phase(machine, up, Operation::reduce, plan);
      return append_phase(machine, down, Operation::broadcast, plan);
    default: return;  // no tree plan
  }
}

Json parse_document(const std::string& text, const std::string& origin) {
  try {
    // Printing a value in an error recurses. So the depth is limited before any value exists.
    Json document = Json::parse(text, [&](int depth, Json::parse_event_t, const Json&) {
      if (depth > max_depth) fail("{}: nested more than {} deep; not a plan", origin, max_depth);
      return true;
    });
    if (!document.is_object()) fail("{}: must be a JSON object as `smelt plan --json` writes it", origin);
    return document;
  } catch (const Json::exception& error) {
    fail("{}: not JSON: {}", origin, error.what());
  }
}

int rank_in(const Json& document, const char* key, int ranks, const std::string& origin) {
  const Json& rank = required(document, key, origin);
  if (!rank.is_number_integer() || rank.get<std::int64_t>() < 0 || rank.get<std::int64_t>() >= ranks) {
    fail("{}: {}: {} is not a rank between 0 and {}", origin, key, shown(rank), ranks - 1);
  }
  return rank.get<int>();
}

/// Where a file is written.
struct WriteTarget {
  std::string file;      ///< without links
  bool replace = false;  ///< by a new file beside it; false: a device or pipe, which is written to directly
};

WriteTarget target_of(const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string target = fs::is_symlink(file, ignored) ? fs::weakly_canonical(file, ignored).string() : file;
  return {target, !fs::exists(target, ignored) || fs::is_regular_file(target, ignored)};
}

Plan read_plan(const Machine& machine, const std::string& text, const std::string& origin) {
  const Json document = parse_document(text, origin);
  const Json& operation = required(document, "operation", origin);
  const Json& topology = required(document, "topology", origin);
  if (!operation.is_string() || !topology.is_string()) fail("{}: operation, topology: must be text", origin);
  Plan plan;
  const auto known = parse_operation(operation.get<std::string>());
  if (!known) fail("{}: operation: {}", origin, known.error().message);
  plan.operation = *known;
  plan.topology = topology.get<std::string>();
  plan.group = group_of(machine, required(document, "pus", origin), origin);
  const int ranks = plan.group.size();
  plan.root = rank_in(document, "root", ranks, origin);
  const Json& children = required(document, "children", origin);
  if (plan.topology == "dissemination") {
    PlanOptions options;
    options.topology = plan.topology;
    options.root = plan.root;
    return take(make_plan(machine, plan.group, plan.operation, options));
  }
  const Tree tree = checked_tree(children, plan.root, ranks, origin, "children");
  if (plan.operation != Operation::reduce) plan.broadcast_tree = tree;
  if (plan.operation != Operation::broadcast) plan.reduce_tree = tree;
  if (plan.operation != Operation::reduce && plan.reduce_tree && document.contains("reduce_children")) {
    const int root = document.contains("reduce_root") ? rank_in(document, "reduce_root", ranks, origin) : plan.root;
    plan.reduce_tree = checked_tree(document["reduce_children"], root, ranks, origin, "reduce_children");
  }
  if (plan.operation == Operation::two_phase_commit && document.contains("votes")) {
    if (document["votes"] != exchanged_votes) fail("{}: votes: only \"{}\" is known", origin, exchanged_votes);
    plan.reduce_tree.reset();
  }
  append_phases(machine, plan);
  return plan;
}

}  // namespace

std::string one_line(std::string text) {
  constexpr std::size_t most = 400;
  for (char& c : text) c = static_cast<unsigned char>(c) < ' ' || c == 127 ? '?' : c;
  return text.size() > most ? text.substr(0, most) + "..." : text;
}

std::string format_json(const Json& document) {
  if (!document.is_object() || document.empty()) return compact(document) + "\n";
  std::string text = "{";
  const char* separator = "\n";
  for (const auto& [key, value] : document.items()) {
    text += fmt::format("{}  {}: ", separator, compact(Json(key)));
    separator = ",\n";
    if (!holds_structures(value)) {
      text += compact(value);
      continue;
    }
    const char* inner = "[\n    ";
    for (const auto& element : value) {
      text += inner + compact(element);
      inner = ",\n    ";
    }
    text += "\n  ]";
  }
  return text + "\n}\n";
}

Json machine_identity(const Machine& machine) { return {{"name", machine.name}, {"fingerprint", machine.fingerprint}}; }

Json machine_document(const Machine& machine) { return Json::parse(format_machine(machine)); }

std::vector<int> os_indices(const Machine& machine, const Group& group) {
  std::vector<int> result;
  for (const int pu : group.pus) result.push_back(machine.pus[static_cast<std::size_t>(pu)].os_index);
  return result;
}

bool exchanges_votes(const Plan& plan) {
  return plan.operation == Operation::two_phase_commit && plan.broadcast_tree && !plan.reduce_tree;
}

const char* step_name(Step::Kind kind) {
  switch (kind) {
    case Step::Kind::send: return "send";
    case Step::Kind::recv: return "recv";
    case Step::Kind::recv_combine: return "recv_combine";
  }
  return "?";
}

Json plan_document(const Machine& machine, const Plan& plan, bool with_steps) {
  const auto& tree = plan.broadcast_tree ? plan.broadcast_tree : plan.reduce_tree;
  const std::vector<std::vector<int>> none(plan.group.pus.size());
  Json document = {{"operation", to_string(plan.operation)},
                   {"topology", plan.topology},
                   {"pus", os_indices(machine, plan.group)},
                   {"root", plan.root},
                   {"children", tree ? children_of(*tree) : Json(none)}};
  if (plan.broadcast_tree && plan.reduce_tree) {
    document["reduce_children"] = children_of(*plan.reduce_tree);
    if (plan.reduce_tree->root != plan.root) document["reduce_root"] = plan.reduce_tree->root;
  }
  if (exchanges_votes(plan)) document["votes"] = exchanged_votes;
  document["arrival_ns"] = plan.arrival_ns;
  document["predicted_ns"] = plan.predicted_ns;
  document["lower_bound_ns"] = plan.lower_bound_ns ? Json(*plan.lower_bound_ns) : Json(nullptr);
  document["optimal"] = plan.optimal;
  document["search_ms"] = plan.search_ms;
  document["reason"] = plan.reason;
  document["machine"] = machine_identity(machine);
  if (with_steps) {
    Json ranks = Json::array();
    for (const auto& steps : plan.steps) {
      Json list = Json::array();
      for (const auto& step : steps) list.push_back({{"kind", step_name(step.kind)}, {"peer", step.peer}});
      ranks.push_back(std::move(list));
    }
    document["steps"] = std::move(ranks);
  }
  return document;
}

Plan parse_plan_document(const Machine& machine, const std::string& text, const std::string& origin) {
  try {
    return read_plan(machine, text, origin);
  } catch (Failure& failure) {
    failure.message = one_line(std::move(failure.message));
    throw;
  }
}

Json timeline_document(const Simulation& simulation) {
  Json events = Json::array();
  for (const auto& event : simulation.timeline) {
    events.push_back({{"rank", event.rank},
                      {"kind", step_name(event.kind)},
                      {"peer", event.peer},
                      {"start_ns", event.start_ns},
                      {"end_ns", event.end_ns}});
  }
  return events;
}

/// Complete or not at all. Links are followed; devices and pipes are written to directly.
void write_file(const std::string& file, const std::string& text) {
  const auto [target, replace] = target_of(file);
  const HoldSignals until_written(target);
  const std::string written_to = replace ? fmt::format("{}.{}.tmp", target, getpid()) : target;
  std::FILE* stream = std::fopen(written_to.c_str(), "w");
  if (stream == nullptr) fail("{}: cannot write: {}", file, std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  const bool closed = std::fclose(stream) == 0;
  if (written && closed && (!replace || std::rename(written_to.c_str(), target.c_str()) == 0)) return;
  const int reason = errno;
  if (replace) std::remove(written_to.c_str());
  fail("{}: cannot write: {}", file, std::strerror(reason));
}

void check_writable(const std::string& file) {
  const auto [target, replace] = target_of(file);
  const auto directory = std::filesystem::path(target).parent_path().string();
  if (!replace && std::filesystem::is_directory(target)) fail("{}: cannot write: {}", file, std::strerror(EISDIR));
  const int allowed =
      replace ? access(directory.empty() ? "." : directory.c_str(), W_OK | X_OK) : access(target.c_str(), W_OK);
  if (allowed != 0) fail("{}: cannot write: {}", file, std::strerror(errno));
}

std::string read_file(const std::string& file) {
  std::ifstream stream;
  if (file != "-") {
    errno = 0;
    stream.open(file, std::ios::binary);
    if (!stream) fail("{}: cannot read: {}", file, std::strerror(errno != 0 ? errno : EIO));
  }
  std::istream& source = file == "-" ? std::cin : stream;
  std::string text;
  char buffer[1 << 16];
  while (source.read(buffer, sizeof buffer) || source.gcount() > 0) {
    text.append(buffer, static_cast<std::size_t>(source.gcount()));
    if (text.size() > max_plan_bytes) fail("{}: larger than {} MiB: not a plan", file, max_plan_bytes >> 20);
  }
  // A directory as standard input: the stream takes the error for the end.
  if (source.bad() || (file == "-" && std::ferror(stdin) != 0)) fail("{}: cannot read: {}", file, std::strerror(errno));
  return text;
}

}  // namespace smelt::cli
