// Crash points: numbered places before and after each store to shared memory that others see. Tests compile the log
// with SMELT_LOG_POINTS and end the process at one of them. Otherwise the points are empty.
#pragma once

#ifdef SMELT_LOG_POINTS

namespace smelt::state::log {
/// Called with the number of each point passed.
extern void (*on_point)(int point);
}  // namespace smelt::state::log

#define SMELT_LOG_POINT(number)                                                          \
  do {                                                                                   \
    if (::smelt::state::log::on_point != nullptr) ::smelt::state::log::on_point(number); \
  } while (false)
#else
#define SMELT_LOG_POINT(number) static_cast<void>(0)
#endif
