#include "smelt/settings.hpp"

#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/settings.hpp"

extern char** environ;

namespace smelt {
namespace {

bool is_choice(std::string_view value, std::string_view choices) {
  while (!choices.empty()) {
    const auto end = choices.find('|');
    if (choices.substr(0, end) == value) return true;
    if (end == std::string_view::npos) break;
    choices.remove_prefix(end + 1);
  }
  return false;
}

std::optional<int> parse_count(const std::string& text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [last, problem] = std::from_chars(text.data(), end, value);
  return problem == std::errc() && last == end ? std::optional(value) : std::nullopt;
}

}  // namespace

const std::vector<Setting>& settings() {
  static const std::vector<Setting> table = {
      {"SMELT_CACHE_DIR", "", "directory of cached machine models; default $XDG_CACHE_HOME/smelt or ~/.cache/smelt"},
      {"SMELT_HARDWARE", "",
       "set by smelt run for the processes of MPI: the machine that they need not discover again"},
      {"SMELT_MEMORY", "auto", "what the preload library of memory does: auto|interleave|local|huge|off"},
      {"SMELT_MPI", "1", "0: the preload libraries of MPI pass everything on to the MPI below"},
      {"SMELT_MPI_AFTER", "64", "collectives of an MPI communicator before it gets one of smelt; equal on all ranks"},
      {"SMELT_MPI_MACHINE", "", "any text; MPI ranks with different texts are treated as being on different machines"},
      {"SMELT_MPI_RACE", "32", "calls of one kind before the MPI library may challenge smelt at it; 0: it may not"},
      {"SMELT_MPI_RANKS", "",
       "here: ranks elsewhere and spawned ones may lack the preload library (set by smelt run); all: none does"},
      {"SMELT_OPENMP", "1", "0: the preload library of OpenMP passes everything on to the runtime"},
      {"SMELT_PTHREAD", "1", "0: the preload library of pthread barriers passes everything on to the C library"},
      {"SMELT_REVALIDATE", "0",
       "1: communicators of threads look at creation whether their profile still holds (0.1 s)"},
      {"SMELT_TIMEOUT", "0", "seconds after which a rank that does not arrive breaks its communicator; 0 = never"},
      {"SMELT_VERBOSE", "0", "1: preload libraries say on stderr at exit what they took over, saved and passed on"},
      {"SMELT_WAIT", "auto", "how ranks wait: spin|yield|sleep|auto"},
  };
  return table;
}

std::string setting_value(const std::string& name) {
  for (const auto& setting : settings()) {
    if (name != setting.name) continue;
    const char* value = std::getenv(setting.name);
    return value != nullptr && *value != '\0' ? value : setting.default_value;
  }
  return {};
}

// Not by strtod(), which wants a comma in the locales of some programs.
std::optional<double> parse_seconds(const std::string& text) {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !(value >= 0.0) || value > 1e9) return std::nullopt;
  return value;
}

std::vector<std::string> check_settings() {
  std::vector<std::string> problems;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.substr(0, 6) != "SMELT_") continue;
    const std::string name(text.substr(0, text.find('=')));
    bool known = false;
    for (const auto& setting : settings()) known |= name == setting.name;
    if (!known) problems.push_back(fmt::format("{}: no such setting; `smelt settings` lists them", name));
  }
  const auto timeout = setting_value("SMELT_TIMEOUT");
  if (!parse_seconds(timeout)) {
    problems.push_back(fmt::format("SMELT_TIMEOUT={}: not a number of seconds from 0 to 1e9", timeout));
  }
  const auto wait = setting_value("SMELT_WAIT");
  if (!is_choice(wait, "spin|yield|sleep|auto")) {
    problems.push_back(fmt::format("SMELT_WAIT={}: must be one of spin, yield, sleep, auto", wait));
  }
  const auto memory = setting_value("SMELT_MEMORY");
  if (!is_choice(memory, "auto|interleave|local|huge|off")) {
    problems.push_back(fmt::format("SMELT_MEMORY={}: must be one of auto, interleave, local, huge, off", memory));
  }
  const auto ranks = setting_value("SMELT_MPI_RANKS");
  if (!ranks.empty() && !is_choice(ranks, "here|all")) {
    problems.push_back(fmt::format("SMELT_MPI_RANKS={}: must be one of here, all", ranks));
  }
  for (const auto& [name, least] : {std::pair("SMELT_MPI_AFTER", 1), std::pair("SMELT_MPI_RACE", 0)}) {
    const auto value = setting_value(name);
    if (parse_count(value).value_or(-1) >= least) continue;
    problems.push_back(fmt::format("{}={}: not a whole number from {} to {}", name, value, least, INT_MAX));
  }
  for (const char* name : {"SMELT_MPI", "SMELT_OPENMP", "SMELT_PTHREAD", "SMELT_REVALIDATE", "SMELT_VERBOSE"}) {
    const auto value = setting_value(name);
    if (!is_choice(value, "0|1")) problems.push_back(fmt::format("{}={}: must be 0 or 1", name, value));
  }
  return problems;
}

}  // namespace smelt
