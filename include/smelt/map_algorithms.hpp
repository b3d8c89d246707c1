// The algorithms of concurrent maps: what each promises, who does its work, and what it survives.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace smelt {

/// What a map promises to its readers. A stronger promise has the larger value.
enum class Consistency {
  sequential,    ///< one order of all operations that agrees with every client's own order; reads may be stale
  linearizable,  ///< that order also agrees with time: an operation sees all that ended before it began
};

/// Faults that are survived: no acknowledged update is lost, none is executed twice, and the others go on.
enum class Faults : unsigned char {
  none,   ///< no fault is survived
  crash,  ///< ranks may die at any instruction
  stop,   ///< the same, and ranks may be stopped, or late, for any time
};

/// "sequential", "linearizable".
const char* to_string(Consistency consistency) noexcept;
/// "none", "crash", "stop".
const char* to_string(Faults faults) noexcept;

/// Facts about one algorithm.
struct MapAlgorithm {
  std::string name;
  std::string description;
  Consistency consistency = Consistency::linearizable;  ///< the strongest one that it provides
  bool needs_servers = false;  ///< some ranks own partitions or count updates, and issue nothing
  Faults survives = Faults::none;
  bool waits_for_everyone = false;  ///< an update returns only after other clients have called the map
};

/// All algorithms, in the order of the text that they come from; the two that are not in it last:
///
///   part_simple    keys are divided among servers; every operation is a message to one of them and an answer
///   part_caching   the same with copies at the clients, which an update invalidates
///   rep_remote     every client has a replica; updates and lookups take a number from a sequencer
///   rep_local      the same with two rounds per update, so that lookups are local
///   rep_2pc        the same with votes in place of a sequencer
///   rep_sc         every client has a replica; updates take a number, lookups are local and may be stale
///   shared         one table in shared memory; readers write nothing
///   kv             replicas fed by a replicated log; lookups are local and may be stale, or ask how long the log is
///
/// Cost: none, the list is made once. Source: [Shahmirzadi14] 3.4; kv: [Smelt16] 5.7.
const std::vector<MapAlgorithm>& map_algorithms();

/// The algorithm of that name, or null.
const MapAlgorithm* find_map_algorithm(std::string_view name);

}  // namespace smelt
