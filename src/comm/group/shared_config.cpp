#include "comm/group/shared_config.hpp"

#include <charconv>
#include <concepts>

#include "base/error.hpp"
#include "plan/candidates.hpp"

namespace smelt::comm {
namespace {

constexpr std::string_view version = "smelt-shared-config/1";

// Fields in a fixed order, each as "LENGTH:TEXT". A list is the number of its elements and the elements. Not JSON,
// which would double the time that this file takes to compile.

class Writer {
 public:
  void add(std::string_view field) { text_ += std::to_string(field.size()).append(":").append(field); }
  /// The shortest text that reads back as the same number.
  template <typename Number>
  requires std::integral<Number> || std::floating_point<Number>
  void add(Number number) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    add(std::string_view(digits, static_cast<std::size_t>(end - digits)));
  }
  template <typename Element>
  void add(const std::vector<Element>& list) {
    add(list.size());
    for (const Element& element : list) add(element);
  }
  void add(const std::optional<Tree>& tree) {
    add(tree ? 1 : 0);
    if (!tree) return;
    add(tree->root);
    add(tree->children);
  }

  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

/// Reads what Writer wrote. After the first field that is not as expected, failed() is true and all values are empty.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  void read(std::string_view& field) {
    const std::size_t colon = rest_.find(':');
    std::size_t bytes = 0;
    field = {};
    if (colon == rest_.npos || !is_number(rest_.substr(0, colon), bytes) || bytes > rest_.size() - colon - 1)
      return fail();
    field = rest_.substr(colon + 1, bytes);
    rest_.remove_prefix(colon + 1 + bytes);
  }
  void read(std::string& text) {
    std::string_view field;
    read(field);
    text = field;
  }
  template <typename Number>
  requires std::integral<Number> || std::floating_point<Number>
  void read(Number& number) {
    std::string_view field;
    read(field);
    if (!is_number(field, number)) {
      number = 0;
      fail();
    }
  }
  template <typename Element>
  void read(std::vector<Element>& list) {
    std::size_t elements = 0;
    read(elements);
    if (elements > rest_.size()) return fail();  // each takes some bytes
    list.resize(elements);
    for (Element& element : list) read(element);
  }
  void read(std::optional<Tree>& tree) {
    int there = 0;
    read(there);
    if (there == 0) return;
    read(tree.emplace().root);
    read(tree->children);
  }

  bool failed() const { return failed_; }
  bool at_end() const { return rest_.empty(); }

 private:
  template <typename Number>
  static bool is_number(std::string_view text, Number& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
  }
  void fail() {
    failed_ = true;
    rest_ = {};
  }

  std::string_view rest_;
  bool failed_ = false;
};

Error other_version() {
  return make_error(
      Status::bad_format,
      "the communicator's shared configuration is not as this version writes it; use one version of smelt "
      "in all processes");
}

/// The plan of an operation, around the trees that were published.
Result<Plan> read_plan(Reader& reader, const SharedConfig& shared_config, Operation operation) {
  plan::Solution solution{};
  std::string reason;
  reader.read(solution.topology);
  reader.read(solution.reduce_tree);
  reader.read(solution.broadcast_tree);
  reader.read(reason);
  if (reader.failed()) return other_version();
  plan::Problem problem(shared_config.machine, shared_config.group, operation);
  auto plan = plan::make_plan_of(problem, shared_config.group, std::move(solution), false);
  if (plan) plan->reason = std::move(reason);
  return plan;
}

}  // namespace

std::string format_shared_config(const SharedConfig& shared_config) {
  const CommunicatorOptions& options = shared_config.options;
  Writer writer;
  writer.add(version);
  writer.add(format_machine(shared_config.machine));
  writer.add(shared_config.group.pus);
  writer.add(options.topology);
  writer.add(options.barrier);
  writer.add(options.algorithm);
  writer.add(options.search_ms);
  writer.add(options.late_ns);
  writer.add(shared_config.parallelism);
  writer.add(shared_config.profile);
  for (int i = 0; i < operation_count && has_tree_plan(static_cast<Operation>(i)); ++i) {
    const Plan& plan = shared_config.plans[i];
    writer.add(plan.topology);
    writer.add(plan.reduce_tree);
    writer.add(plan.broadcast_tree);
    writer.add(plan.reason);
  }
  return std::move(writer).text();
}

Result<SharedConfig> parse_shared_config(std::string_view text) {
  Reader reader(text);
  std::string_view written_as, machine_text;
  reader.read(written_as);
  reader.read(machine_text);
  if (written_as != version || reader.failed()) return other_version();
  auto machine = parse_machine(machine_text, "the communicator's shared configuration");
  if (!machine) return machine.error();

  SharedConfig shared_config;
  CommunicatorOptions& options = shared_config.options;
  shared_config.machine = std::move(*machine);
  reader.read(shared_config.group.pus);
  reader.read(options.topology);
  reader.read(options.barrier);
  reader.read(options.algorithm);
  reader.read(options.search_ms);
  reader.read(options.late_ns);
  reader.read(shared_config.parallelism);
  reader.read(shared_config.profile);
  if (reader.failed()) return other_version();
  for (int i = 0; i < operation_count && has_tree_plan(static_cast<Operation>(i)); ++i) {
    auto plan = read_plan(reader, shared_config, static_cast<Operation>(i));
    if (!plan) return plan.error();
    shared_config.plans[i] = std::move(*plan);
  }
  if (!reader.at_end()) return other_version();
  return shared_config;
}

}  // namespace smelt::comm
