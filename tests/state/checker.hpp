// What a map promises, checked on histories: exactly for short ones, in parts and by another program for long ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "state/history.hpp"

namespace smelt::state {

enum class Verdict { holds, violated, unknown };
std::ostream& operator<<(std::ostream& out, Verdict verdict);

/// Whether the event can follow on a key with that value, and what the key has then.
bool follows(const Event& event, std::optional<std::uint64_t>& value);

/// Is there one order of all events that agrees with every client's own order (and, linearizable, with time) in which
/// every answer is right? Exact; `unknown` after `most_states` states. Events without answers may take part or not.
/// Cost: exponential in the number of clients; some 24 events of four clients take milliseconds.
Verdict check_sequential(const std::vector<Event>& history, std::size_t most_states = 2'000'000);
/// Key by key, as linearizability is a matter of each key alone. Sequential consistency is not.
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
