#include "cli/plan/calls.hpp"

#include <charconv>
#include <map>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "smelt/tune.hpp"

namespace smelt::cli {

Operation parse_tunable_operation(const std::string& option, const std::string& text) {
  std::vector<std::string> names;
  for (const auto operation : tunable_operations()) {
    if (text == to_string(operation)) return operation;
    names.push_back(to_string(operation));
  }
  fail_usage("{} {}: no operation with a choice of algorithms{} (one of {})", option, text, suggestion(text, names),
             fmt::join(names, ", "));
}

Sync parse_sync(const std::string& option, const std::string& text) {
  if (text == "loose") return Sync::loose;
  if (text == "strict") return Sync::strict;
  fail_usage("{} {}: must be loose or strict", option, text);
}

std::size_t parse_byte_count(const std::string& option, const std::string& text) {
  static const std::map<std::string, int> shifts = {{"", 0},   {"B", 0},    {"K", 10}, {"KiB", 10},
                                                    {"M", 20}, {"MiB", 20}, {"G", 30}, {"GiB", 30}};
  constexpr std::size_t most = std::size_t{1} << 30;
  std::size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [last, status] = std::from_chars(text.data(), end, number);
  const auto shift = shifts.find(std::string(last, end));
  if (status != std::errc() || shift == shifts.end() || number > most >> shift->second) {
    fail_usage("{} {}: a size up to 1GiB, such as 8, 64K or 16MiB", option, text);
  }
  return number << shift->second;
}

std::string format_byte_count(std::size_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  const bool large = bytes >= (1u << 20);
  const double value = static_cast<double>(bytes) / (large ? 1 << 20 : 1 << 10);
  const char* unit = large ? "MiB" : "KiB";
  return value == static_cast<double>(static_cast<long>(value)) ? fmt::format("{:.0f} {}", value, unit)
                                                                : fmt::format("{:.1f} {}", value, unit);
}

Group group_of(const Machine& machine, bool own, int ranks) {
  Allowance allowance;
  if (own) {
    allowance = take(discover_allowance());
  } else {
    for (const auto& pu : machine.pus) allowance.pus.push_back(pu.os_index);
  }
  return take(default_group(machine, allowance, ranks));
}

std::string loss_text(double ns, double best_ns, bool equal) {
  if (equal) return "equal";
  const double loss = best_ns > 0.0 ? ns / best_ns - 1.0 : 0.0;
  return loss < 1.0 ? fmt::format("{:+.0f} %", 100.0 * loss) : fmt::format("x {:.1f}", ns / best_ns);
}

}  // namespace smelt::cli
