// What a command line would run, and which of the runtimes that smelt can stand in for it uses, as far as its files
// say: the program's own and those of the libraries that it needs, and theirs.
#pragma once

#include <string>
#include <vector>

namespace smelt::cli {

constexpr int exit_cannot_run = 126;
constexpr int exit_no_program = 127;

enum class Runtime { pthread, openmp, mpi };

/// "pthread", "openmp", "mpi".
const char* runtime_name(Runtime runtime);

struct RuntimeUse {
  Runtime runtime;
  std::string because;  ///< "libgomp.so.1, needed by /usr/bin/app"
};

struct Program {
  std::string file;                   ///< what is executed first, with its directory
  std::vector<std::string> programs;  ///< what that runs in the end: the interpreters of scripts, what launchers start
  std::vector<RuntimeUse> uses;       ///< at most one per runtime
  std::vector<std::string> notes;     ///< what else a user should know, a line each
  std::string obstacle;               ///< not empty: why nothing may be preloaded, although it could be
  bool loads_later = false;           ///< an interpreter: what its files say is not all
};

/// Throws a Failure with the exit codes above where the words cannot be run, or nothing can be preloaded into what
/// they run. `words` is not empty. Cost: reads every file that the dynamic loader would; with `notes`, for Python, also
/// where its packages are.
Program inspect(const std::vector<std::string>& words, bool notes);

}  // namespace smelt::cli
