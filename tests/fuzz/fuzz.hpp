// What the fuzzing targets share: requirements, and inputs that stand for several files.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "smelt/machine.hpp"

namespace smelt::fuzz {

inline void require(bool holds, const char* what, const std::string& detail = {}) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", what, detail.c_str());
  std::abort();
}

/// One printable line, not endless.
inline void check_message(const std::string& message) {
  require(!message.empty() && message.size() < 1000, "the message is empty or endless", message);
  for (const char c : message) require(static_cast<unsigned char>(c) >= ' ', "the message has several lines", message);
}

/// A machine that was accepted must survive being written and read again; an error names the file.
inline void check_machine_or_error(const Result<Machine>& machine, std::string_view origin = "fuzz") {
  if (!machine) {
    check_message(machine.error().message);
    require(machine.error().message.starts_with(origin), "the message names no file", machine.error().message);
    return;
  }
  require(machine->has_costs() || machine->send_ns.empty(), "half a machine");
  const auto again = parse_machine(format_machine(*machine), "again");
  require(static_cast<bool>(again), "not readable again", again ? "" : again.error().message);
  require(*again == *machine, "changed by being written and read");
}

/// What figures of memory can belong to.
inline Machine two_nodes() {
  Machine machine;
  for (int node = 0; node < 2; ++node) {
    machine.numa_nodes.push_back({node, 1u << 30});
    machine.pus.push_back({.os_index = node, .core = node, .numa_node = node});
  }
  return machine;
}

/// The files of an input: each starts with a line "== NAME".
inline std::map<std::string, std::string> files_of(std::string_view input) {
  constexpr std::string_view mark = "== ";
  std::map<std::string, std::string> files;
  std::string* file = nullptr;
  while (!input.empty()) {
    const auto end = input.find('\n');
    const auto line = input.substr(0, end == std::string_view::npos ? end : end + 1);
    input.remove_prefix(line.size());
    if (line.starts_with(mark)) {
      file = &files[std::string(line.substr(mark.size(), line.find('\n') - mark.size()))];
    } else if (file != nullptr) {
      *file += line;
    }
  }
  return files;
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace smelt::fuzz
