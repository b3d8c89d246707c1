// Memory orders of barriers, ticks and lent buffers that carry a guarantee, by name; as channel/ordering.hpp.
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

#ifdef SMELT_BREAK_COUNTED_ARRIVE
inline constexpr auto counted_arrive = std::memory_order_relaxed;
#else
inline constexpr auto counted_arrive = std::memory_order_acq_rel;
#endif
#ifdef SMELT_BREAK_COUNTED_COMPLETE
inline constexpr auto counted_complete = std::memory_order_relaxed;
#else
inline constexpr auto counted_complete = std::memory_order_acq_rel;
#endif
#ifdef SMELT_BREAK_COUNTED_OPEN
inline constexpr auto counted_open = std::memory_order_relaxed;
#else
inline constexpr auto counted_open = std::memory_order_release;
#endif
#ifdef SMELT_BREAK_COUNTED_PASS
inline constexpr auto counted_pass = std::memory_order_relaxed;
#else
inline constexpr auto counted_pass = std::memory_order_acquire;
#endif
#ifdef SMELT_BREAK_COUNTED_LEAVE
inline constexpr auto counted_leave = std::memory_order_relaxed;
#else
inline constexpr auto counted_leave = std::memory_order_release;
#endif
#ifdef SMELT_BREAK_COUNTED_DRAIN
inline constexpr auto counted_drain = std::memory_order_relaxed;
#else
inline constexpr auto counted_drain = std::memory_order_acquire;
#endif

#ifdef SMELT_BREAK_TEAM_MEET
inline constexpr auto team_meet = std::memory_order_relaxed;
#else
inline constexpr auto team_meet = std::memory_order_acq_rel;
#endif
#ifdef SMELT_BREAK_TEAM_MET
inline constexpr auto team_met = std::memory_order_relaxed;
#else
inline constexpr auto team_met = std::memory_order_acquire;
#endif

#ifdef SMELT_BREAK_TEAM_SIGNAL
inline constexpr auto team_signal = std::memory_order_relaxed;
#else
inline constexpr auto team_signal = std::memory_order_release;
#endif
#ifdef SMELT_BREAK_TEAM_AWAIT
inline constexpr auto team_await = std::memory_order_relaxed;
#else
inline constexpr auto team_await = std::memory_order_acquire;
#endif
#ifdef SMELT_BREAK_TEAM_OPEN
inline constexpr auto team_open = std::memory_order_relaxed;
#else
inline constexpr auto team_open = std::memory_order_release;
#endif
#ifdef SMELT_BREAK_TEAM_ENTER
inline constexpr auto team_enter = std::memory_order_relaxed;
#else
inline constexpr auto team_enter = std::memory_order_acquire;
#endif
#ifdef SMELT_BREAK_TEAM_LEAVE
inline constexpr auto team_leave = std::memory_order_relaxed;
#else
inline constexpr auto team_leave = std::memory_order_acq_rel;
#endif
#ifdef SMELT_BREAK_TEAM_REPORT
inline constexpr auto team_report = std::memory_order_relaxed;
#else
inline constexpr auto team_report = std::memory_order_release;
#endif
#ifdef SMELT_BREAK_TEAM_GATHER
inline constexpr auto team_gather = std::memory_order_relaxed;
#else
inline constexpr auto team_gather = std::memory_order_acquire;
#endif
#ifdef SMELT_BREAK_TEAM_OFF
inline constexpr auto team_off = std::memory_order_relaxed;
#else
inline constexpr auto team_off = std::memory_order_release;
#endif
#ifdef SMELT_BREAK_TEAM_OFF_SEEN
inline constexpr auto team_off_seen = std::memory_order_relaxed;
#else
inline constexpr auto team_off_seen = std::memory_order_acquire;
#endif

#ifdef SMELT_BREAK_TICK_POST
inline constexpr auto tick_post = std::memory_order_relaxed;
#else
inline constexpr auto tick_post = std::memory_order_release;
#endif
#ifdef SMELT_BREAK_TICK_AWAIT
inline constexpr auto tick_await = std::memory_order_relaxed;
#else
inline constexpr auto tick_await = std::memory_order_acquire;
#endif
#ifdef SMELT_BREAK_BUFFER_RETURN
inline constexpr auto buffer_return = std::memory_order_relaxed;
#else
inline constexpr auto buffer_return = std::memory_order_release;
#endif
#ifdef SMELT_BREAK_BUFFER_REUSE
inline constexpr auto buffer_reuse = std::memory_order_relaxed;
#else
inline constexpr auto buffer_reuse = std::memory_order_acquire;
#endif

}  // namespace smelt::comm::ordering
