// Pictures of a machine made of text: its tree of packages, nodes and caches, its costs as a
// heat map, its costs by class of pairs, and what its copies reach.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "smelt/machine.hpp"

namespace smelt::cli {

/// Indices of the machine's PUs, in hardware order.
std::vector<int> hardware_order(const Machine& machine);

/// The cost of one lone message i -> j: send, propagation if known, receive.
double message_ns(const Machine& machine, int sender, int receiver);

/// The closest thing two PUs share.
enum class PairClass { core, l2, l3, numa_node, package, machine };
PairClass pair_class(const Machine& machine, int a, int b);

struct ClassCosts {
  PairClass kind;
  std::string name;
  std::size_t pairs = 0;                         ///< ordered
  double min_ns = 0, median_ns = 0, max_ns = 0;  ///< of message_ns
  double send_ns = 0, recv_ns = 0;               ///< medians
  double rtt_ns = 0;                             ///< median; 0 where unknown
  double spread = 0;                             ///< median; 0 where unknown
};

/// The classes that occur, closest first. For a machine of more than 512 PUs, costs come from 512 senders spread over
/// it. Requires costs.
std::vector<ClassCosts> cost_classes(const Machine& machine);

/// A picture that fits a screen: some 18 lines for a machine of more than 256 PUs, unless `all`.
std::string draw_hardware(const Machine& machine, bool all);
std::string draw_heat_map(const Machine& machine, int columns);
std::string draw_cost_classes(const Machine& machine);
std::string draw_burst(const std::vector<double>& burst);

/// Rates of copies by class of pairs and size, their slowdown when many PUs copy, and the extra cost of copying out of
/// another process. Empty if no copies were measured. O(n^2).
std::string draw_copies(const Machine& machine);

}  // namespace smelt::cli
