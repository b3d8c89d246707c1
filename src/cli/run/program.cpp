#include "cli/run/program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <string_view>

#include "cli/command.hpp"
#include "cli/run/elf.hpp"
#include "cli/run/libraries.hpp"

namespace smelt::cli {
namespace {

namespace fs = std::filesystem;

template <class... Args>
[[noreturn]] void cannot_run(fmt::format_string<Args...> text, Args&&... args) {
  throw Failure{exit_cannot_run, fmt::format(text, std::forward<Args>(args)...)};
}

/// The dynamic loader of the C library for which smelt's libraries are built.
constexpr const char* own_loader =
#if defined(__aarch64__)
    "ld-linux-aarch64.so.1";
#else
    "ld-linux-x86-64.so.2";
#endif

std::string base_name(const std::string& file) { return file.substr(file.rfind('/') + 1); }

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](auto start) { return name.substr(0, start.size()) == start; });
}

bool is_any(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Programs that load or start others which are not named in their own files.
bool is_interpreter(const std::string& name) {
  return starts_with_any(name, {"python", "pypy", "perl", "ruby", "lua", "php", "tclsh", "octave", "guile"}) ||
         is_any(name, {"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "node", "julia", "R", "Rscript", "java",
                       "make", "ninja", "xargs", "find", "parallel"});
}

/// Programs that run the program named by their arguments.
bool is_launcher(const std::string& name) {
  return starts_with_any(name, {"mpirun", "mpiexec"}) ||
         is_any(name, {"orterun", "prterun", "srun", "env", "nice", "ionice", "chrt", "taskset", "numactl", "time",
                       "timeout", "stdbuf", "setsid", "nohup", "perf", "strace", "ltrace", "hwloc-bind", "unshare"});
}

/// The library may have any name. The preload library determines which MPI it is.
bool is_of_mpi(std::string_view symbol) { return starts_with_any(symbol, {"MPI_", "PMPI_"}); }
constexpr std::string_view barrier_of_threads = "pthread_barrier_wait";

bool tells_runtime(std::string_view symbol) { return is_of_mpi(symbol) || symbol == barrier_of_threads; }

bool is_executable(const std::string& file) {
  struct stat status = {};
  return stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(file.c_str(), X_OK) == 0;
}

/// Searches as execvp does; empty if there is no such file.
std::string find_on_path(const std::string& word) {
  if (word.empty()) return {};
  if (word.find('/') != std::string::npos) return access(word.c_str(), F_OK) == 0 ? word : std::string();
  const char* path = std::getenv("PATH");
  for (const std::string& directory : split(path != nullptr ? path : "/bin:/usr/bin", ':')) {
    const std::string file = (directory.empty() ? "." : directory) + "/" + word;
    if (is_executable(file)) return file;
  }
  return {};
}

/// The interpreter of a script, and the argument in its first line; empty without such a line.
std::vector<std::string> shebang_of(const std::string& file) {
  const std::string start = read_text(file, 255);
  const std::string_view line = start;
  if (line.substr(0, 2) != "#!") return {};
  std::istringstream words{std::string(line.substr(2, line.find('\n') - 2))};
  std::vector<std::string> result;
  for (std::string word; words >> word;) result.push_back(word);
  return result;
}

/// The kernel preloads nothing into a program that gets more rights than its user has.
bool gains_rights(const std::string& file) {
  struct stat status = {};
  if (stat(file.c_str(), &status) != 0) return false;
  const bool as_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != getuid();
  const bool as_group = (status.st_mode & S_ISGID) != 0 && status.st_gid != getgid();
  const bool capable = getuid() != 0 && getxattr(file.c_str(), "security.capability", nullptr, 0) > 0;
  return as_user || as_group || capable;
}

class Inspection {
 public:
  explicit Inspection(bool notes) : notes_(notes) {}

  Program run(const std::vector<std::string>& words) {
    program_.file = find_on_path(words.front());
    if (program_.file.empty()) {
      throw Failure{exit_no_program,
                    fmt::format("{}: no such program{}", words.front(),
                                words.front().find('/') == std::string::npos
                                    ? " on the PATH; for one in this directory write ./" + words.front()
                                    : std::string())};
    }
    follow(program_.file, words, 0);
    return std::move(program_);
  }

 private:
  /// Inspects `file`, which words.front() names, and the programs that it runs.
  void follow(const std::string& file, const std::vector<std::string>& words, int depth) {
    constexpr int deepest = 16;
    if (depth > deepest) cannot_run("{}: scripts run each other without an end", file);
    struct stat status = {};
    if (stat(file.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) cannot_run("{}: is a directory", file);
    if (access(file.c_str(), X_OK) != 0) {
      cannot_run("{}: {}; `chmod +x` makes it executable", file, std::strerror(errno));
    }
    if (gains_rights(file)) {
      cannot_run(
          "{}: runs with more rights than yours (setuid, setgid or capabilities): nothing can be preloaded into "
          "it; run it without `smelt run`",
          file);
    }
    const auto elf = read_elf(file, tells_runtime);
    if (!elf) return follow_script(file, depth);
    if (is_launcher(base_name(file)) && follow_launched(words, depth)) return;
    inspect_program(file, *elf);
  }

  /// A launcher in the first line (`#!/usr/bin/env -S python3 -u`) starts a program of that line: behind it are the
  /// script itself and its arguments.
  void follow_script(const std::string& file, int depth) {
    std::vector<std::string> line = shebang_of(file);
    if (line.empty()) line = {"/bin/sh"};  // as shells and execvp do
    const std::string interpreter = find_on_path(line.front());
    if (interpreter.empty()) cannot_run("{}: its first line names {}, which is not there", file, line.front());
    program_.loads_later = true;
    follow(interpreter, line, depth + 1);
  }

  /// The programs that a launcher's arguments name; several for `mpirun ./a : ./b`. False if none was found.
  bool follow_launched(const std::vector<std::string>& words, int depth) {
    bool found = false;
    for (auto from = words.begin(); from != words.end();) {
      const auto to = std::find(from + 1, words.end(), ":");
      const std::size_t at = launched_word({from, to});
      if (at != 0) {
        found = true;
        follow(find_on_path(from[static_cast<std::ptrdiff_t>(at)]), {from + static_cast<std::ptrdiff_t>(at), to},
               depth + 1);
      }
      from = to;
    }
    return found;
  }

  /// Index of the first word after the launcher that can be executed; 0 if there is none. A word without a slash after
  /// an option may be the option's value. It counts only if there is no other.
  static std::size_t launched_word(const std::vector<std::string>& words) {
    std::size_t doubtful = 0;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const auto& word = words[i];
      if (word[0] == '-' || word.find('=') < word.find('/') || !is_executable(find_on_path(word))) continue;
      const bool sure = word.find('/') != std::string::npos || i == 1 || words[i - 1][0] != '-';
      if (sure) return i;
      if (doubtful == 0) doubtful = i;
    }
    return doubtful;
  }

  void inspect_program(const std::string& file, const Elf& elf) {
    if (!elf.loadable) {
      cannot_run("{}: is for {}, and smelt's libraries are for {}; run it without `smelt run`", file,
                 machine_name(elf.machine), machine_name(own_machine()));
    }
    if (!elf.program) cannot_run("{}: is a library, no program", file);
    if (elf.loader.empty()) {
      cannot_run(
          "{}: is statically linked, so that nothing can be preloaded into it; link it dynamically, or call "
          "smelt from it",
          file);
    }
    program_.programs.push_back(file);
    if (base_name(elf.loader) != own_loader) {
      program_.obstacle =
          fmt::format("{} is loaded by {}, which is another C library's than smelt's", file, elf.loader);
    }
    if (is_interpreter(base_name(file))) program_.loads_later = true;
    LibrarySearch search(file, elf, tells_runtime);
    visit(file, elf, search);
    if (notes_ && starts_with_any(base_name(file), {"python", "pypy"})) note_private_runtimes(python_sites(file));
  }

  void visit(const std::string& file, const Elf& elf, LibrarySearch& search) {
    if (elf.intercepts) program_.obstacle = fmt::format("{} is or has a sanitizer, which has to be loaded first", file);
    for (const auto& symbol : elf.wanted) {
      use(is_of_mpi(symbol) ? Runtime::mpi : Runtime::pthread, fmt::format("{} calls {}", file, symbol));
    }
    for (const auto& name : elf.needed) {
      if (!seen_.insert(name).second) continue;
      if (starts_with_any(name, {"libc.so.", "libpthread.so.", "ld-linux"})) continue;
      recognise(name, file);
      // Nothing: the loader reports it.
      if (const auto library = search.find(name, file, elf)) visit(library->file, library->elf, search);
    }
  }

  void recognise(const std::string& name, const std::string& by) {
    const auto because = fmt::format("{}, needed by {}", name, by);
    if (starts_with_any(name, {"libgomp.so", "libomp.so", "libomp5.so", "libiomp5.so"})) use(Runtime::openmp, because);
    if (starts_with_any(name, {"libgomp-"})) {  // as packed into wheels: name-hash
      use(Runtime::openmp, because);
      program_.notes.push_back(fmt::format("a private libgomp: {}, needed by {}", name, by));
    }
  }

  void use(Runtime runtime, const std::string& because) {
    const auto same = [&](const RuntimeUse& each) { return each.runtime == runtime; };
    if (std::none_of(program_.uses.begin(), program_.uses.end(), same)) program_.uses.push_back({runtime, because});
  }

  /// Directories of packages, in about the order in which `python` searches them. If the name of its file contains the
  /// version, only the directories of that version.
  static std::vector<fs::path> python_sites(const std::string& python) {
    std::error_code ignored;
    const auto version = fs::canonical(python, ignored).filename().string();
    const bool knows_version = version.find('.') != std::string::npos;
    const auto variable = [](const char* name) {
      const char* value = std::getenv(name);
      return std::string(value != nullptr ? value : "");
    };
    std::vector<fs::path> sites;
    for (const auto& directory : directories_of(variable("PYTHONPATH"), python)) sites.emplace_back(directory);
    const auto prefix = fs::absolute(python, ignored).parent_path().parent_path();
    for (const fs::path& root :
         {fs::path(variable("VIRTUAL_ENV")) / "lib", prefix / "lib", fs::path(variable("HOME")) / ".local/lib",
          prefix / "local/lib", fs::path("/usr/local/lib"), fs::path("/usr/lib")}) {
      for (const auto& entry : list(root)) {
        const auto name = entry.filename().string();
        if (!starts_with_any(name, {"python3"}) || (knows_version && name != "python3" && name != version)) continue;
        sites.push_back(entry / "site-packages");
        sites.push_back(entry / "dist-packages");
      }
    }
    return sites;
  }

  /// Wheels contain a libgomp of their own, with a hash in its name, in a directory NAME.libs beside the package.
  void note_private_runtimes(const std::vector<fs::path>& sites) {
    std::error_code ignored;
    std::set<fs::path> found;
    for (const auto& site : sites) {
      for (const auto& package : list(site)) {
        if (package.extension() != ".libs") continue;
        for (const auto& library : list(package)) {
          if (starts_with_any(library.filename().string(), {"libgomp-"})) found.insert(fs::canonical(library, ignored));
        }
      }
    }
    for (const auto& library : found) program_.notes.push_back("a private libgomp: " + library.string());
  }

  static std::vector<fs::path> list(const fs::path& directory) {
    std::vector<fs::path> entries;
    std::error_code failed;
    for (fs::directory_iterator each(directory, failed), end; !failed && each != end; each.increment(failed)) {
      entries.push_back(each->path());
    }
    return entries;
  }

  const bool notes_;
  Program program_;
  std::set<std::string> seen_;  ///< names of libraries
};

}  // namespace

const char* runtime_name(Runtime runtime) {
  switch (runtime) {
    case Runtime::memory: return "memory";
    case Runtime::pthread: return "pthread";
    case Runtime::openmp: return "openmp";
    case Runtime::mpi: return "mpi";
  }
  return "";
}

Program inspect(const std::vector<std::string>& words, bool notes) { return Inspection(notes).run(words); }

}  // namespace smelt::cli
