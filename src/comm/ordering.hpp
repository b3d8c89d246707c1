// Memory orders of barriers, ticks and lent buffers that carry a guarantee, by name; as channel/ordering.hpp.
#pragma once

#include <atomic>

#ifdef SMELT_CHOSEN_ORDER  // tests choose the orders as the program starts
#define SMELT_ORDER SMELT_CHOSEN_ORDER
#else
#define SMELT_ORDER(name, order) inline constexpr auto name = std::memory_order_##order
#endif

namespace smelt::comm::ordering {

SMELT_ORDER(flat_arrive, acq_rel);
SMELT_ORDER(flat_open, release);
SMELT_ORDER(flat_pass, acquire);

SMELT_ORDER(counted_arrive, acq_rel);
SMELT_ORDER(counted_complete, acq_rel);
SMELT_ORDER(counted_open, release);
SMELT_ORDER(counted_pass, acquire);
SMELT_ORDER(counted_leave, release);
SMELT_ORDER(counted_drain, acquire);

SMELT_ORDER(team_meet, acq_rel);
SMELT_ORDER(team_met, acquire);

SMELT_ORDER(team_signal, release);
SMELT_ORDER(team_await, acquire);
SMELT_ORDER(team_open, release);
SMELT_ORDER(team_enter, acquire);
SMELT_ORDER(team_leave, acq_rel);
SMELT_ORDER(team_report, release);
SMELT_ORDER(team_gather, acquire);
SMELT_ORDER(team_off, release);
SMELT_ORDER(team_off_seen, acquire);

SMELT_ORDER(tick_post, release);
SMELT_ORDER(tick_await, acquire);
SMELT_ORDER(buffer_return, release);
SMELT_ORDER(buffer_reuse, acquire);

}  // namespace smelt::comm::ordering

#undef SMELT_ORDER
