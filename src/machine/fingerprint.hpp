// A short stable name of a machine's hardware.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "smelt/machine.hpp"

namespace smelt {

/// Fowler, Noll and Vo's hash 1a, of 64 bits.
std::uint64_t fnv1a(std::string_view text) noexcept;

/// 16 hex digits over the CPU model and every PU's place in the topology. Memory sizes do not count, since firmware and
/// kernel versions change them by a few pages.
std::string fingerprint_of(std::string_view cpu_model, const Machine& machine);

/// "2 packages x 14 cores x 2 PUs", "1 package, 16 cores, 24 PUs" where the cores differ.
std::string shape_of(const Machine& machine);

}  // namespace smelt
