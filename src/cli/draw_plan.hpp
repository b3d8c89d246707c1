// Pictures of a plan made of text: its trees with times, the timeline of its steps, Graphviz.
#pragma once

#include <string>
#include <vector>

#include "smelt/machine.hpp"
#include "smelt/plan.hpp"

namespace smelt::cli {

/// The trees of a plan (or the rounds of a dissemination), one rank per line, with what each edge
/// costs and when its message is there. The messages that decide the total time are marked.
std::string draw_plan(const Machine& machine, const Plan& plan, const Simulation& simulation);

/// One line per rank, time from left to right. Without `all_ranks` only the first 32 of those that decide the total.
std::string draw_timeline(const Machine& machine, const Plan& plan, const Simulation& simulation, int columns,
                          bool all_ranks);

/// A digraph in Graphviz' language.
std::string graphviz(const Machine& machine, const Plan& plan);

/// Which events of the timeline decide the total time: each either waits for the one before it on
/// its rank or for its message.
std::vector<bool> critical_events(const Machine& machine, const Plan& plan, const Simulation& simulation);

/// "PU 3", and package, NUMA node or L3 where there are several.
std::string place_name(const Machine& machine, int pu);

}  // namespace smelt::cli
