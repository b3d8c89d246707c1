// The part of an ELF file that the dynamic loader reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::cli {

struct Elf {
  bool loadable = false;      ///< for this machine's architecture and word size; if not, only `machine` is known
  std::uint16_t machine = 0;  ///< EM_X86_64, ...
  std::string loader;         ///< PT_INTERP; empty in libraries and in statically linked programs
  bool program = false;       ///< can be executed; otherwise a library
  std::string soname;
  std::vector<std::string> needed;
  std::string rpath;  ///< directories separated by colons, as in the file
  std::string runpath;
  std::vector<std::string> wanted;  ///< symbols that another file must define, of those asked for
  bool intercepts = false;          ///< stands between a program and the C library, as the runtimes of sanitizers do
};

/// Whether a symbol is asked for: most files want thousands.
using AsksFor = bool (*)(std::string_view symbol);

/// Empty if `bytes` is no ELF file, or one that is truncated or inconsistent. Never reads out of bounds.
std::optional<Elf> parse_elf(std::string_view bytes, AsksFor asks_for);

/// The same for a file. Also empty if it cannot be read.
std::optional<Elf> read_elf(const std::string& file, AsksFor asks_for);

/// "x86-64", "AArch64", ... or the number.
std::string machine_name(std::uint16_t machine);

/// The architecture for which this command was built.
std::uint16_t own_machine();

}  // namespace smelt::cli
