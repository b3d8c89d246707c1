#include "cli/state/maps.hpp"

#include <algorithm>
#include <cmath>

#include "cli/arguments.hpp"

namespace smelt::cli {
namespace {

/// The value whose name the text is, or a Failure with the names.
template <class T>
T parse_name(const std::string& option, const std::string& text, const std::vector<std::pair<std::string, T>>& known) {
  std::vector<std::string> names;
  for (const auto& [name, value] : known) {
    if (name == text) return value;
    names.push_back(name);
  }
  fail_usage("{} {}: no such name{} (one of {})", option, text, suggestion(text, names), fmt::join(names, ", "));
}

}  // namespace

MapPlatform parse_platform(const std::string& option, const std::string& text) {
  std::vector<std::pair<std::string, MapPlatform>> known;
  for (const auto& each : {tile_gx(), intermediate_platform(), ideal_platform()}) known.push_back({each.name, each});
  return parse_name(option, text, known);
}

Consistency parse_consistency(const std::string& option, const std::string& text) {
  return parse_name<Consistency>(
      option, text, {{"linearizable", Consistency::linearizable}, {"sequential", Consistency::sequential}});
}

Faults parse_faults(const std::string& option, const std::string& text) {
  return parse_name<Faults>(option, text, {{"none", Faults::none}, {"crash", Faults::crash}, {"stop", Faults::stop}});
}

MapLoad load_of(const MapArguments& arguments) {
  MapLoad load;
  load.keys = arguments.keys;
  load.skew = arguments.skew;
  load.hash = arguments.hash;
  load.access = arguments.access;
  load.consistency = parse_consistency("--consistency", arguments.consistency);
  load.faults = parse_faults("--faults", arguments.faults);
  return load;
}

std::string format_share(double share) {
  const double rest = 1.0 - share;
  const int digits = rest <= 0.0 ? 1 : std::clamp(static_cast<int>(std::ceil(-std::log10(rest))) + 1, 3, 6);
  std::string text = fmt::format("{:.{}f}", share, digits);
  while (text.ends_with('0') && !text.ends_with(".0")) text.pop_back();
  return text;
}

Json load_document(const MapLoad& load) {
  return {{"lookups", load.lookups},
          {"keys", load.keys},
          {"bytes_per_key", load.bytes_per_key},
          {"skew", load.skew},
          {"hot_clients", load.hot_clients},
          {"hot_share", load.hot_share},
          {"hash", load.hash ? Json(*load.hash) : Json()},
          {"access", load.access ? Json(*load.access) : Json()},
          {"consistency", to_string(load.consistency)},
          {"faults", to_string(load.faults)}};
}

Json platform_document(const MapPlatform& platform) {
  static constexpr const char* broadcasts[] = {"sends", "tree", "hardware"};
  return {{"name", platform.name},
          {"cycle_ns", platform.cycle_ns},
          {"send", platform.send},
          {"send_word", platform.send_word},
          {"receive", platform.receive},
          {"receive_word", platform.receive_word},
          {"interrupt", platform.interrupt},
          {"latency", platform.latency},
          {"broadcast", broadcasts[static_cast<int>(platform.broadcast)]},
          {"hash", platform.hash},
          {"select_power_of_two", platform.select_power_of_two},
          {"select_other", platform.select_other},
          {"cached_access", platform.cached_access},
          {"memory_access", platform.memory_access},
          {"cache_bytes", platform.cache_bytes},
          {"line", platform.line ? Json(*platform.line) : Json()},
          {"replicas", platform.replicas}};
}

}  // namespace smelt::cli
