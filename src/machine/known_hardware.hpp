// The machine's fingerprint without discovering the machine again.
//
// Discovery takes hwloc 2 ms, and 30 in an MPI program with hwloc's plugins, which load graphics libraries. The result
// holds while the kernel that was started, the PUs and NUMA nodes that are online, and hwloc's settings are the same.
// A hash of these is kept beside the fingerprint, and one of the PUs: in this process, and in SMELT_HARDWARE for those
// that it starts (hardware_note() in smelt/machine.hpp). For a machine that has not been measured, save_hardware()
// keeps its PUs in the cache, so that it need not be discovered either.
#pragma once

#include <string>

#include "smelt/machine.hpp"

namespace smelt {

/// Notes for this process that this is its machine. Threads may call this at any time.
void remember_hardware(const Machine& discovered) noexcept;

/// The fingerprint of the machine that was noted in this process, or else by who started it. Empty if there is none,
/// or if something has changed since.
std::string known_fingerprint();

/// Whether the model describes the machine of known_fingerprint(), with all its PUs.
bool is_known_hardware(const Machine& model);

/// load_cached_machine(); or this machine without costs, if there is no model that fits.
Result<Machine> load_machine_or_hardware();

}  // namespace smelt
