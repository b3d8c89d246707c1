// Memory orders that carry a guarantee, by name. Each name is one half of a release/acquire pair
// (docs/explanation/memory-ordering.md); tests/ordering weakens each to relaxed, and shows that ThreadSanitizer would
// notice its loss.
#pragma once

#include <atomic>

#ifdef SMELT_CHOSEN_ORDER  // tests choose the orders as the program starts
#define SMELT_ORDER SMELT_CHOSEN_ORDER
#else
#define SMELT_ORDER(name, order) inline constexpr auto name = std::memory_order_##order
#endif

namespace smelt::channel::ordering {

SMELT_ORDER(ump_publish, release);
SMELT_ORDER(ump_receive, acquire);
SMELT_ORDER(ump_acknowledge, release);
SMELT_ORDER(ump_reuse, acquire);
SMELT_ORDER(ff_publish, release);
SMELT_ORDER(ff_receive, acquire);
SMELT_ORDER(ff_empty, release);
SMELT_ORDER(ff_reuse, acquire);

}  // namespace smelt::channel::ordering

#undef SMELT_ORDER
