// smelt run: starts a program with smelt's barriers and collectives in place of its runtime's.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/interrupt.hpp"
#include "cli/parser.hpp"
#include "cli/run/program.hpp"
#include "cli/terminal.hpp"
#include "smelt/machine.hpp"
#include "smelt/settings.hpp"

namespace smelt::cli {
namespace {

constexpr std::array all_runtimes = {Runtime::pthread, Runtime::openmp, Runtime::mpi, Runtime::memory};

struct RunFlags {
  std::vector<std::string> words;
  std::string only, without;
  std::string memory;  ///< mode of the library that places memory; empty: not asked for
  bool explain = false;
  bool json = false;
};

/// What is done with one preload library.
struct Choice {
  Runtime runtime;
  bool preload = false;
  std::string because;
  std::string library;  ///< its file; empty if it is not installed or not needed
};

std::string library_name(Runtime runtime) { return fmt::format("libsmelt_{}.so", runtime_name(runtime)); }

/// Beside this command, installed or built; otherwise the directory for which it was configured.
std::string find_library(Runtime runtime) {
  using Text = std::unique_ptr<char, void (*)(void*)>;
  const Text self(realpath("/proc/self/exe", nullptr), std::free);
  const std::string file = self != nullptr ? self.get() : "", here = file.substr(0, file.rfind('/') + 1);
  for (const std::string& directory :
       {here + "../" SMELT_LIBRARY_DIRECTORY, here + "../lib", std::string(SMELT_FULL_LIBRARY_DIRECTORY)}) {
    const Text library(realpath((directory + "/" + library_name(runtime)).c_str(), nullptr), std::free);
    if (library != nullptr) return library.get();
  }
  return {};
}

/// "pthread,mpi" as runtimes. One library serves all MPIs, whose names are accepted, too.
std::vector<Runtime> parse_runtimes(const std::string& option, const std::string& text) {
  const std::vector<std::string> names = {"pthread", "openmp", "mpi", "openmpi", "mpich"};
  std::vector<Runtime> runtimes;
  for (const auto& name : split_names(text)) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      fail_usage("{} {}: no such runtime{} (one of {})", option, name, suggestion(name, names), fmt::join(names, ", "));
    }
    for (const auto runtime : all_runtimes) {
      const bool one_mpi = runtime == Runtime::mpi && (name == "openmpi" || name == "mpich");
      if (one_mpi || name == runtime_name(runtime)) runtimes.push_back(runtime);
    }
  }
  return runtimes;
}

bool has(const std::vector<Runtime>& runtimes, Runtime runtime) {
  return std::find(runtimes.begin(), runtimes.end(), runtime) != runtimes.end();
}

bool is_named(const RunFlags& arguments, Runtime runtime) {
  return !arguments.only.empty() && has(parse_runtimes("--only", arguments.only), runtime);
}

bool wants_memory(const RunFlags& arguments) { return !arguments.memory.empty() && arguments.memory != "off"; }

constexpr const char* memory_setting = "SMELT_MEMORY";  ///< the value of `--memory` alone

/// `--memory` alone asks for the mode of the setting.
void find_memory_mode(RunFlags& arguments) {
  const std::vector<std::string> modes = {"auto", "interleave", "local", "huge", "off"};
  std::string& mode = arguments.memory;
  const char* const source = mode == memory_setting ? memory_setting : "--memory";
  if (mode == memory_setting) mode = setting_value(memory_setting);
  if (mode.empty() || std::find(modes.begin(), modes.end(), mode) != modes.end()) return;
  fail_usage("{}={}: no such mode{} (one of {})", source, mode, suggestion(mode, modes), fmt::join(modes, ", "));
}

/// It serves no runtime, so the program's files do not show whether it is useful. The user asks for it.
Choice choose_memory(const Program& program, const RunFlags& arguments) {
  Choice choice{Runtime::memory, false, arguments.memory == "off" ? "--memory=off" : "not asked for by --memory", ""};
  if (wants_memory(arguments) || arguments.json) choice.library = find_library(Runtime::memory);
  if (!wants_memory(arguments)) return choice;
  if (!program.obstacle.empty()) return {Runtime::memory, false, program.obstacle, choice.library};
  if (choice.library.empty()) {
    fail("--memory: needs {}, which is not installed beside this command", library_name(Runtime::memory));
  }
  choice.preload = true;
  choice.because = "--memory=" + arguments.memory;
  return choice;
}

Choice choose(Runtime runtime, const Program& program, const RunFlags& arguments) {
  if (runtime == Runtime::memory) return choose_memory(program, arguments);
  Choice choice{runtime, false, "not used", ""};
  bool needed = false;  // false: preloaded to be on the safe side
  for (const auto& use : program.uses) {
    if (use.runtime != runtime) continue;
    needed = choice.preload = true;
    choice.because = use.because;
  }
  if (!needed && program.loads_later) {
    choice.preload = true;
    choice.because = "what an interpreter loads is not known beforehand";
  }
  if (is_named(arguments, runtime)) {
    if (!choice.preload || !needed) choice.because = "--only names it";
    needed = choice.preload = true;
  }
  if (choice.preload || arguments.json) choice.library = find_library(runtime);
  if (!arguments.only.empty() && !has(parse_runtimes("--only", arguments.only), runtime)) {
    return {runtime, false, "--only leaves it out", choice.library};
  }
  if (has(parse_runtimes("--without", arguments.without), runtime)) {
    return {runtime, false, "--without leaves it out", choice.library};
  }
  if (choice.preload && !program.obstacle.empty()) return {runtime, false, program.obstacle, choice.library};
  if (choice.preload && choice.library.empty()) {
    if (needed) {
      fail("{}: {}, which is not installed beside this command; build it, or leave it out by --without {}",
           program.file, library_name(runtime), runtime_name(runtime));
    }
    return {runtime, false, "not installed", ""};
  }
  return choice;
}

/// Libraries that are preloaded already come first, so that tools that watch calls stay above smelt.
std::string preload_list(const std::vector<Choice>& choices) {
  const char* before = std::getenv("LD_PRELOAD");
  std::string list = before != nullptr ? before : "";
  for (const auto& choice : choices) {
    if (!choice.preload || list.find(library_name(choice.runtime)) != std::string::npos) continue;
    if (choice.library.find_first_of(" :") != std::string::npos) {
      fail("{}: the dynamic loader takes no blanks and colons in the names of preloaded libraries; move smelt",
           choice.library);
    }
    list += (list.empty() ? "" : ":") + choice.library;
  }
  return list;
}

void print_document(const RunFlags& arguments, const Program& program, const std::vector<Choice>& choices) {
  Json libraries = Json::array();
  for (const auto& choice : choices) {
    libraries.push_back({{"runtime", runtime_name(choice.runtime)},
                         {"preload", choice.preload},
                         {"because", choice.because},
                         {"library", choice.library.empty() ? Json(nullptr) : Json(choice.library)}});
  }
  print(format_json({{"command", arguments.words},
                     {"file", program.file},
                     {"programs", program.programs},
                     {"loads_later", program.loads_later},
                     {"libraries", libraries},
                     {"notes", program.notes},
                     {"LD_PRELOAD", preload_list(choices)}}));
}

void print_table(const Program& program, const std::vector<Choice>& choices) {
  Table table("lll", 0);
  table.header({"runtime", "", fmt::format("{}", fmt::join(program.programs, ", "))});
  for (const auto& choice : choices) {
    table.row({{runtime_name(choice.runtime), Style::strong},
               {choice.preload ? "smelt" : "-", choice.preload ? Style::good : Style::faint},
               choice.because});
  }
  print(table.text());
  for (const auto& note : program.notes) print(note + "\n");
}

/// The short form of --explain, on stderr, for SMELT_VERBOSE=1.
void tell(const Program& program, const std::vector<Choice>& choices) {
  for (const auto& choice : choices) {
    if (choice.preload) print_error(fmt::format("run: preloads {}: {}", choice.library, choice.because));
  }
  if (!program.obstacle.empty()) print_error("run: preloads nothing: " + program.obstacle);
  for (const auto& note : program.notes) print_error("run: " + note);
}

/// Each rank of an MPI program would look for hwloc's plugins, which is not needed to find PUs.
void announce_hardware() {
  constexpr const char* plugins = "HWLOC_PLUGINS_PATH";
  const char* const value = std::getenv(plugins);
  const std::string before = value != nullptr ? value : "";
  setenv(plugins, "", 1);
  const auto machine = discover_machine();
  if (value != nullptr) {
    setenv(plugins, before.c_str(), 1);
  } else {
    unsetenv(plugins);
  }
  const auto note = machine ? hardware_note(*machine) : "";
  if (note.empty()) return;
  setenv("SMELT_HARDWARE", note.c_str(), 1);
  save_hardware(*machine);
}

/// A launcher gives its ranks on other machines another environment, or none. Ranks that start `smelt run` themselves
/// all do so.
void announce_ranks() {
  constexpr const char* ranks = "SMELT_MPI_RANKS";
  const char* const told = std::getenv(ranks);
  const bool in_rank = std::getenv("PMI_RANK") != nullptr || std::getenv("PMIX_RANK") != nullptr ||
                       std::getenv("OMPI_COMM_WORLD_RANK") != nullptr;
  if (!in_rank) {
    setenv(ranks, "here", 0);
  } else if (told != nullptr && std::strcmp(told, "here") == 0) {
    unsetenv(ranks);
  }
}

[[noreturn]] void become(const Program& program, const std::vector<std::string>& words) {
  restore_signals();
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(program.file.c_str(), argv.data());
  if (errno == ENOEXEC) {  // a script without a first line
    argv.insert(argv.begin(), const_cast<char*>("sh"));
    argv[1] = const_cast<char*>(program.file.c_str());
    execv("/bin/sh", argv.data());
  }
  throw Failure{exit_cannot_run, fmt::format("{}: {}", program.file, std::strerror(errno))};
}

void run(RunFlags arguments) {
  if (arguments.words.empty()) fail_usage("run what? name a program and its arguments, as in `smelt run ./app 8`");
  parse_runtimes("--only", arguments.only);
  parse_runtimes("--without", arguments.without);
  find_memory_mode(arguments);
  const bool verbose = setting_value("SMELT_VERBOSE") == "1";
  const Program program = inspect(arguments.words, verbose || arguments.json || arguments.explain);
  std::vector<Choice> choices;
  for (const auto runtime : all_runtimes) choices.push_back(choose(runtime, program, arguments));
  if (arguments.json) return print_document(arguments, program, choices);
  if (arguments.explain) return print_table(program, choices);
  const std::string list = preload_list(choices);
  if (verbose) tell(program, choices);
  if (!list.empty()) setenv("LD_PRELOAD", list.c_str(), 1);
  if (wants_memory(arguments)) setenv(memory_setting, arguments.memory.c_str(), 1);
  const auto serves_mpi = [](const Choice& choice) { return choice.preload && choice.runtime == Runtime::mpi; };
  if (std::any_of(choices.begin(), choices.end(), serves_mpi)) {
    announce_hardware();
    announce_ranks();
  }
  become(program, arguments.words);
}

/// Handles `smelt run PROGRAM ARGUMENT...` before the constructors of the rest of this command and its parser run,
/// which take longer than this. Returns for everything else and on failure; then main() does it and reports errors.
[[gnu::constructor(101)]] void run_early(int count, char** words) {
  if (count < 3 || std::strcmp(words[1], "run") != 0 || words[2][0] == '-') return;
  const char* verbose = std::getenv("SMELT_VERBOSE");
  if (verbose != nullptr && *verbose != '\0') return;
  const char* preloads = std::getenv("LD_PRELOAD");
  const std::string before = preloads != nullptr ? preloads : "";
  try {
    RunFlags arguments;
    arguments.words.assign(words + 2, words + count);
    run(arguments);
  } catch (...) {
    if (preloads == nullptr) {
      unsetenv("LD_PRELOAD");
    } else {
      setenv("LD_PRELOAD", before.c_str(), 1);
    }
  }
}

}  // namespace

void add_run(Parser& parser) {
  auto arguments = std::make_shared<RunFlags>();
  Command command = parser.add("run", "Start a program with smelt in place of its runtime's barriers and collectives");
  command.text("--only", arguments->only, "NAMES", "only these runtimes: pthread, openmp, mpi");
  command.text("--without", arguments->without, "NAMES", "do not replace these runtimes");
  command.optional_text("--memory", arguments->memory, memory_setting,
                        "page size and placement of large allocations: --memory[=auto|interleave|local|huge|off]");
  command.flag("--explain", arguments->explain, "print what would be preloaded and why; do not start the program");
  command.flag("--json", arguments->json, "the same as JSON");
  command.rest(arguments->words, "PROGRAM ARGUMENT...");
  command.footer(
      "Nothing is recompiled: the dynamic loader puts smelt's libraries (libsmelt_*.so) before the program's. What "
      "they\n"
      "do not handle goes to the original. With SMELT_VERBOSE=1 they say at exit what they took over, how often, how\n"
      "much time it saved, and what they passed on and why. Programs must be dynamically linked.\n"
      "Exit code: the program's; 126 if it cannot be run, 127 if it is not there.\n\n"
      "Examples:\n"
      "  smelt run ./app 8\n"
      "  SMELT_VERBOSE=1 smelt run -- ./app --threads 8\n"
      "  smelt run --explain ./app\n"
      "  smelt run --memory ./app           huge pages, and all NUMA nodes, where they gain\n"
      "  smelt run mpirun -n 2 ./app        or: mpirun -n 2 smelt run ./app\n");
  command.action([arguments] { run(*arguments); });
}

}  // namespace smelt::cli
