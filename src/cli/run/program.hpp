// Inspects a command line: the program that it would run, and the runtimes that smelt can replace in it, according to
// the files of the program and of its libraries, recursively.
#pragma once

#include <string>
#include <vector>

namespace smelt::cli {

constexpr int exit_cannot_run = 126;
constexpr int exit_no_program = 127;

enum class Runtime { pthread, openmp, mpi, memory };

/// "pthread", "openmp", "mpi", "memory".
const char* runtime_name(Runtime runtime);

struct RuntimeUse {
  Runtime runtime;
  std::string because;  ///< "libgomp.so.1, needed by /usr/bin/app"
};

struct Program {
  std::string file;                   ///< path of the file that is executed first
  std::vector<std::string> programs;  ///< the programs that finally run: interpreters of scripts, targets of launchers
  std::vector<RuntimeUse> uses;       ///< at most one per runtime
  std::vector<std::string> notes;     ///< further information for the user, a line each
  std::string obstacle;               ///< not empty: why nothing may be preloaded, although it is possible
  bool loads_later = false;           ///< an interpreter, which may load further libraries
};

/// Throws a Failure with the exit codes above if the command cannot be run, or nothing can be preloaded into its
/// program.
/// `words` must not be empty. Cost: reads every file that the dynamic loader would read; with `notes`, for Python, also
/// its package directories.
Program inspect(const std::vector<std::string>& words, bool notes);

}  // namespace smelt::cli
