// The options of a load on a map, which explain and compare have in any build.
#include "cli/arguments.hpp"
#include "cli/state/maps.hpp"

namespace smelt::cli {
namespace {

void add_cycles(Command& command, const std::string& name, std::optional<double>& target, const std::string& what) {
  command.value(
      name, "TIME", [&target, name](const std::string& text) { target = parse_number(name, text, 0, 1e6); }, what);
}

}  // namespace

const std::vector<std::string>& map_options() {
  static const std::vector<std::string> names = {"--platform", "--consistency", "--faults", "--keys",
                                                 "--skew",     "--hash",        "--access"};
  return names;
}

void add_map_options(Command& command, MapArguments& arguments) {
  command.text("--platform", arguments.platform, "NAME",
               "maps: tile-gx|intermediate|ideal in place of a machine's model");
  command.text("--consistency", arguments.consistency, "NAME",
               "maps: least promise: linearizable|sequential (default linearizable)");
  command.text("--faults", arguments.faults, "NAME", "maps: faults to survive: none|crash|stop (default none)");
  command.number("--keys", arguments.keys, 1, 1e12, "maps: number of keys (default 1000)");
  command.number("--skew", arguments.skew, 0, 10, "maps: exponent of the keys' Zipf distribution (default 0: uniform)");
  add_cycles(command, "--hash", arguments.hash, "maps: time to hash a key, in ns or in cycles of the platform");
  add_cycles(command, "--access", arguments.access, "maps: time of an access to the table for any size, likewise");
}

}  // namespace smelt::cli
