// Memory orders of the flat barrier that carry a guarantee, by name; as channel/ordering.hpp.
#pragma once

#include <atomic>

namespace smelt::comm::ordering {

#ifdef SMELT_BREAK_FLAT_ARRIVE
inline constexpr auto flat_arrive = std::memory_order_relaxed;
#else
inline constexpr auto flat_arrive = std::memory_order_acq_rel;
#endif
#ifdef SMELT_BREAK_FLAT_OPEN
inline constexpr auto flat_open = std::memory_order_relaxed;
#else
inline constexpr auto flat_open = std::memory_order_release;
#endif
#ifdef SMELT_BREAK_FLAT_PASS
inline constexpr auto flat_pass = std::memory_order_relaxed;
#else
inline constexpr auto flat_pass = std::memory_order_acquire;
#endif

}  // namespace smelt::comm::ordering
