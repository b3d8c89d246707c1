// Former names of C functions, exported for programs that were linked against them.
#include "smelt/former_names.h"

int smelt_gate_init(smelt_gate* gate, unsigned count) { return smelt_counted_barrier_init(gate, count); }
int smelt_gate_init_private(smelt_gate* gate, unsigned count) {
  return smelt_counted_barrier_init_private(gate, count);
}
int smelt_gate_wait(smelt_gate* gate) { return smelt_counted_barrier_wait(gate); }
smelt_gate_ticket smelt_gate_arrive(smelt_gate* gate) { return smelt_counted_barrier_arrive(gate); }
int smelt_gate_pass(smelt_gate* gate, smelt_gate_ticket ticket) { return smelt_counted_barrier_pass(gate, ticket); }
void smelt_gate_leave(smelt_gate* gate) { smelt_counted_barrier_leave(gate); }
int smelt_gate_destroy(smelt_gate* gate) { return smelt_counted_barrier_destroy(gate); }
