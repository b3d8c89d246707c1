// Memory orders that carry a guarantee, by name. Each name is one half of a release/acquire pair
// (docs/explanation/memory-ordering.md); building with -DSMELT_BREAK_<NAME> weakens that half to relaxed, so
// that a test can show that ThreadSanitizer would notice its loss.
#pragma once

#include <atomic>

namespace smelt::channel::ordering {

#ifdef SMELT_BREAK_UMP_PUBLISH
inline constexpr auto ump_publish = std::memory_order_relaxed;
#else
inline constexpr auto ump_publish = std::memory_order_release;
#endif
#ifdef SMELT_BREAK_UMP_RECEIVE
inline constexpr auto ump_receive = std::memory_order_relaxed;
#else
inline constexpr auto ump_receive = std::memory_order_acquire;
#endif
#ifdef SMELT_BREAK_UMP_ACKNOWLEDGE
inline constexpr auto ump_acknowledge = std::memory_order_relaxed;
#else
inline constexpr auto ump_acknowledge = std::memory_order_release;
#endif
#ifdef SMELT_BREAK_UMP_REUSE
inline constexpr auto ump_reuse = std::memory_order_relaxed;
#else
inline constexpr auto ump_reuse = std::memory_order_acquire;
#endif
#ifdef SMELT_BREAK_FF_PUBLISH
inline constexpr auto ff_publish = std::memory_order_relaxed;
#else
inline constexpr auto ff_publish = std::memory_order_release;
#endif
#ifdef SMELT_BREAK_FF_RECEIVE
inline constexpr auto ff_receive = std::memory_order_relaxed;
#else
inline constexpr auto ff_receive = std::memory_order_acquire;
#endif
#ifdef SMELT_BREAK_FF_EMPTY
inline constexpr auto ff_empty = std::memory_order_relaxed;
#else
inline constexpr auto ff_empty = std::memory_order_release;
#endif
#ifdef SMELT_BREAK_FF_REUSE
inline constexpr auto ff_reuse = std::memory_order_relaxed;
#else
inline constexpr auto ff_reuse = std::memory_order_acquire;
#endif

}  // namespace smelt::channel::ordering
