// What counts as a sane machine, for everything that reads or makes one.
#pragma once

namespace smelt {

inline constexpr int max_pus = 16384;
inline constexpr int max_full_pus = 4096;         ///< of a matrix that holds all cells
inline constexpr int max_id = 65535;              ///< of a PU, core, cache, NUMA node or package
inline constexpr double max_cost_ns = 1e12;       ///< a message that takes longer is a mistake
inline constexpr double max_spread = 1e6;         ///< relative spread of samples
inline constexpr double max_copied_bytes = 1e15;  ///< size of the data of a measured copy
inline constexpr double max_slowdown = 1e6;
inline constexpr double max_gbs = 1e9;
inline constexpr double max_ghz = 1000.0;

}  // namespace smelt
