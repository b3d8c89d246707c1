// Memory orders of the replicated log that carry a guarantee, by name; as channel/ordering.hpp.
#pragma once

#include <atomic>

namespace smelt::state::log::ordering {

// Publishes a client's command and its earlier writes to every reader of its stamp.
#ifdef SMELT_BREAK_LOG_REQUEST
inline constexpr auto log_request = std::memory_order_relaxed;
#else
inline constexpr auto log_request = std::memory_order_release;
#endif
#ifdef SMELT_BREAK_LOG_PROPOSE
inline constexpr auto log_propose = std::memory_order_relaxed;
#else
inline constexpr auto log_propose = std::memory_order_acquire;
#endif

// A decided slot passes that on to every learner.
#ifdef SMELT_BREAK_LOG_DECIDE
inline constexpr auto log_decide = std::memory_order_relaxed;
#else
inline constexpr auto log_decide = std::memory_order_release;
#endif
#ifdef SMELT_BREAK_LOG_LEARN
inline constexpr auto log_learn = std::memory_order_relaxed;
#else
inline constexpr auto log_learn = std::memory_order_acquire;
#endif

// A replica has read the entries that it delivers: its progress tells the leader, the floor tells the clients.
#ifdef SMELT_BREAK_LOG_ADVANCE
inline constexpr auto log_advance = std::memory_order_relaxed;
#else
inline constexpr auto log_advance = std::memory_order_acq_rel;
#endif
#ifdef SMELT_BREAK_LOG_COLLECT
inline constexpr auto log_collect = std::memory_order_relaxed;
#else
inline constexpr auto log_collect = std::memory_order_acquire;
#endif
#ifdef SMELT_BREAK_LOG_FLOOR
inline constexpr auto log_floor = std::memory_order_relaxed;
#else
inline constexpr auto log_floor = std::memory_order_acq_rel;
#endif
#ifdef SMELT_BREAK_LOG_REUSE
inline constexpr auto log_reuse = std::memory_order_relaxed;
#else
inline constexpr auto log_reuse = std::memory_order_acquire;
#endif

}  // namespace smelt::state::log::ordering
