#include "comm/group/default_model.hpp"

#include "machine/known_hardware.hpp"

namespace smelt::comm {
namespace {

/// Costs for a machine that has not been measured: those of a synthetic machine with the same levels. Only their order
/// matters for planning.
void assume_costs(Machine& machine) {
  const SynthSpec typical;
  const auto n = machine.size();
  machine.send_ns = Matrix(n);
  machine.recv_ns = Matrix(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const Pu& a = machine.pus[i];
      const Pu& b = machine.pus[j];
      const double latency = a.core == b.core             ? typical.smt_ns
                             : a.l3 == b.l3               ? typical.l3_ns
                             : a.numa_node == b.numa_node ? typical.numa_ns
                             : a.package == b.package     ? typical.package_ns
                                                          : typical.remote_ns;
      machine.send_ns(i, j) = typical.send_share * latency;
      machine.recv_ns(i, j) = (1.0 - typical.send_share) * latency;
    }
  }
  if (n > most_pus_in_full) machine = with_costs_by_class(std::move(machine), 0.0);
  machine.method = "assumed";
}

}  // namespace

Result<Machine> default_model() {
  auto machine = load_machine_or_hardware();
  if (machine && !machine->has_costs()) assume_costs(*machine);
  return machine;
}

}  // namespace smelt::comm
