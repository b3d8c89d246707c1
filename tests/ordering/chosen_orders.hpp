// The named memory orders of all headers, chosen as the program starts instead of when it is compiled: the one that
// SMELT_BREAK_ORDER names is relaxed. (g++ hands an order that is no constant to ThreadSanitizer as it is.)
#pragma once

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace smelt::stress {

inline const char* broken_order() { return std::getenv("SMELT_BREAK_ORDER"); }

inline std::memory_order chosen(std::string_view name, std::memory_order order) {
  const char* broken = broken_order();
  return broken != nullptr && name == broken ? std::memory_order_relaxed : order;
}

}  // namespace smelt::stress

#define SMELT_CHOSEN_ORDER(name, order) \
  inline const std::memory_order name = smelt::stress::chosen(#name, std::memory_order_##order)
