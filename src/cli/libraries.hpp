// Where the dynamic loader would find a library.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cli/elf.hpp"

namespace smelt::cli {

/// The loader's rules: DT_RPATH of the file that needs it and of the program, LD_LIBRARY_PATH, DT_RUNPATH,
/// /etc/ld.so.cache, the system's directories.
class LibrarySearch {
 public:
  /// For the program `file`.
  LibrarySearch(const std::string& file, const Elf& program);

  /// The file of the library `name` that the file `by` needs; empty if there is none for this machine.
  std::string find(const std::string& name, const std::string& by, const Elf& needing);

 private:
  using Directories = std::vector<std::string>;
  std::string find_in_cache(const std::string& name);

  Directories rpath_of_program_;
  Directories environment_;
  std::string cache_;  ///< what ldconfig found, as it stands in its file
  bool cache_read_ = false;
};

/// The first file that ldconfig's cache gives for the library `name` and that `accepts`; empty if there is none. The
/// format of glibc since 2.2, perhaps behind the older one: a header of 48 bytes whose sixth word is the number of
/// entries; entries of 24 bytes, {flags, name, file, ...}, where name and file count from the header.
std::string file_in_cache(const std::string& cache, const std::string& name,
                          const std::function<bool(const std::string& file)>& accepts);

/// The parts of a text with `separator` between them, empty ones included.
std::vector<std::string> split(const std::string& text, char separator);

/// What a file contains, at most `most` bytes; empty if it cannot be read.
std::string read_text(const std::string& file, std::size_t most = std::string::npos);

/// The parts of a list with colons between, $ORIGIN and ${ORIGIN} replaced by the directory of `file`.
std::vector<std::string> directories_of(const std::string& list, const std::string& file);

}  // namespace smelt::cli
