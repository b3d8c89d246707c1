// The repository's rules that a machine can check. Each rule takes text and returns complaints,
// one line each, so that a test can show that it finds what it should in a bad sample.
#pragma once

#include <string>
#include <vector>

namespace style {

struct File {
  std::string path;  ///< relative to the root of the repository, such as "src/plan/trees/tree.cpp"
  std::string text;
};

using Complaints = std::vector<std::string>;

/// Every file below `directory` of the repository at `root` whose name ends in one of `suffixes`.
std::vector<File> read_files(const std::string& root, const std::string& directory,
                             const std::vector<std::string>& suffixes);

/// Quoted includes of a file in src/ or include/ obey the table of what a room may include.
Complaints check_includes(const File& file);

/// A source file starts with a comment; a .cpp file may leave that to the header of its name, a
/// test to the file that it tests.
Complaints check_header_comments(const std::vector<File>& files);

/// A room's README has at most 15 lines.
Complaints check_readme(const File& file);

/// No notes of unfinished work.
Complaints check_unfinished(const File& file);

/// No `volatile` other than in `asm volatile`: it orders nothing between threads.
Complaints check_volatile(const File& file);

/// Every function that a public header declares without a body has a /// comment, alone or with
/// the declarations it stands among; not so constructors, operators and accessors.
Complaints check_docstrings(const File& file);

}  // namespace style
