// Checks the promises of maps on histories: short ones exactly, long ones by parts and by an external program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "state/history.hpp"

namespace smelt::state {

enum class Verdict { holds, violated, unknown };
std::ostream& operator<<(std::ostream& out, Verdict verdict);

/// Whether the event is possible on a key with that value, and the key's value afterwards.
bool follows(const Event& event, std::optional<std::uint64_t>& value);

/// Whether there is an order of all events in which every answer is right, and which agrees with every client's order
/// and, for linearizability, with time. Exact; `unknown` after `most_states` states. Events without answers are
/// optional. Cost: exponential in the number of clients; some 24 events of four clients take milliseconds.
Verdict check_sequential(const std::vector<Event>& history, std::size_t most_states = 2'000'000);
/// Checks each key separately, which suffices for linearizability, but not for sequential consistency.
Verdict check_linearizable(const std::vector<Event>& history, std::size_t most_states = 2'000'000);

/// An update's place in a log, or the place in the log at which a lookup read a replica: before entry `index`.
struct WitnessedEvent {
  Event event;
  std::uint64_t index = 0;
};

/// Checks sequential consistency of histories of any length by their witness, the log: each update is at its index,
/// each client's indices never decrease, a client sees its own updates, and each lookup returns the last update before
/// its index. Returns the error, or "". The events of each client are in its order. Cost: O(n log n).
std::string check_witness(const std::vector<WitnessedEvent>& history);

/// One line for each event, as the program in linearizable/ reads it.
std::string format_history(const std::vector<Event>& history);

}  // namespace smelt::state
