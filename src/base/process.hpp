// Identity of processes, which distinguishes them from later ones with the same pid, and their liveness.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "smelt/error.hpp"

namespace smelt {

/// A process. Not equal to a later one with the same pid.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  ///< since boot, field 22 of /proc/<pid>/task/<pid>/stat

  /// The calling process. Reads /proc once per process.
  static Result<ProcessId> self();

  /// Number of bits of packed(): the start time above the pid. 0 is no process.
  static constexpr int packed_bits = 62;
  std::uint64_t packed() const noexcept;
  static ProcessId unpacked(std::uint64_t word) noexcept;

  bool operator==(const ProcessId&) const = default;
};

/// Identifies the namespaces that give pids and start times their meaning; 0 if unknown.
std::uint64_t current_namespaces() noexcept;

enum class Liveness { alive, dead, unknown };

/// Whether a process still runs; a zombie does not. Two or three system calls.
Liveness liveness_of(const ProcessId& process) noexcept;

/// Whether a signal or a debugger has stopped it. False if it is dead or cannot be inspected.
bool is_stopped(const ProcessId& process) noexcept;

}  // namespace smelt
