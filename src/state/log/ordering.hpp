// Memory orders of the replicated log that carry a guarantee, by name; as channel/ordering.hpp.
#pragma once

#include <atomic>

#ifdef SMELT_CHOSEN_ORDER  // tests choose the orders as the program starts
#define SMELT_ORDER SMELT_CHOSEN_ORDER
#else
#define SMELT_ORDER(name, order) inline constexpr auto name = std::memory_order_##order
#endif

namespace smelt::state::log::ordering {

// Publishes a client's command and its earlier writes to every reader of its stamp.
SMELT_ORDER(log_request, release);
SMELT_ORDER(log_propose, acquire);

// A decided slot passes that on to every learner.
SMELT_ORDER(log_decide, release);
SMELT_ORDER(log_learn, acquire);

// A replica has read the entries that it delivers: its progress tells the leader, the floor tells the clients.
SMELT_ORDER(log_advance, acq_rel);
SMELT_ORDER(log_collect, acquire);
SMELT_ORDER(log_floor, acq_rel);
SMELT_ORDER(log_reuse, acquire);

}  // namespace smelt::state::log::ordering

#undef SMELT_ORDER
