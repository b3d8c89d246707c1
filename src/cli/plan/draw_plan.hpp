// Pictures of a plan made of text: its trees with times, the timeline of its steps, Graphviz.
#pragma once

#include <string>
#include <vector>

#include "smelt/machine.hpp"
#include "smelt/plan.hpp"

namespace smelt::cli {

/// The trees of a plan (or the rounds of a dissemination), one rank per line, with the cost of each edge and the time
/// at which its message is there. The messages that determine the total time are marked.
std::string draw_plan(const Machine& machine, const Plan& plan, const Simulation& simulation);

/// One line per rank, time from left to right. Without `all_ranks`, only the first 32 of the ranks that determine the
/// total.
std::string draw_timeline(const Machine& machine, const Plan& plan, const Simulation& simulation, int columns,
                          bool all_ranks);

/// A digraph in Graphviz' language.
std::string graphviz(const Machine& machine, const Plan& plan);

/// The events of the timeline that determine the total time. Each of them waits for the event before it on its rank, or
/// for its message.
std::vector<bool> critical_events(const Machine& machine, const Plan& plan, const Simulation& simulation);

/// "PU 3", with package, NUMA node or L3 if there are several.
std::string place_name(const Machine& machine, int pu);

}  // namespace smelt::cli
