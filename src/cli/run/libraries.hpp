// Where the dynamic loader would find a library.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/elf.hpp"

namespace smelt::cli {

struct FoundLibrary {
  std::string file;
  Elf elf;
};

/// Follows the loader's rules: DT_RPATH of the file that needs the library and of the program, LD_LIBRARY_PATH,
/// DT_RUNPATH, /etc/ld.so.cache, the system's directories.
class LibrarySearch {
 public:
  /// For the program `file`. `asks_for`: for read_elf().
  LibrarySearch(const std::string& file, const Elf& program, AsksFor asks_for);

  /// The library `name` that the file `by` needs; nothing if there is none for this machine.
  std::optional<FoundLibrary> find(const std::string& name, const std::string& by, const Elf& needing);

 private:
  using Directories = std::vector<std::string>;
  using Found = std::optional<FoundLibrary>;
  Found load(const std::string& file) const;
  Found first_with(const Directories& directories, const std::string& name) const;
  Found find_in_cache(const std::string& name);

  AsksFor asks_for_;
  Directories rpath_of_program_;
  Directories environment_;
  std::string cache_;  ///< content of ldconfig's cache file
  bool cache_read_ = false;
};

/// The first file in ldconfig's cache for the library `name` that `accepts`; empty if there is none. The format is that
/// of glibc since 2.2, perhaps after the older one: a header of 48 bytes whose sixth word is the number of entries,
/// then entries of 24 bytes, {flags, name, file, ...}, where name and file count from the header.
std::string file_in_cache(const std::string& cache, const std::string& name,
                          const std::function<bool(const std::string& file)>& accepts);

/// The parts of a text between separators, including empty ones.
std::vector<std::string> split(const std::string& text, char separator);

/// The content of a file, at most `most` bytes; empty if it cannot be read.
std::string read_text(const std::string& file, std::size_t most = std::string::npos);

/// The parts of a list separated by colons, with $ORIGIN and ${ORIGIN} replaced by the directory of `file`.
std::vector<std::string> directories_of(const std::string& list, const std::string& file);

}  // namespace smelt::cli
