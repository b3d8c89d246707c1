/* Names that parts of smelt.h had up to now. They mean the same, and go with the next release. */
#ifndef SMELT_FORMER_NAMES_H
#define SMELT_FORMER_NAMES_H

#include <smelt/smelt.h>

#ifdef __cplusplus
extern "C" {
#endif

/* smelt_counted_barrier. */
typedef smelt_counted_barrier smelt_gate;
typedef smelt_counted_barrier_ticket smelt_gate_ticket;
enum { SMELT_GATE_LAST = SMELT_COUNTED_BARRIER_LAST };
int smelt_gate_init(smelt_gate* gate, unsigned count);
int smelt_gate_init_private(smelt_gate* gate, unsigned count);
int smelt_gate_wait(smelt_gate* gate);
smelt_gate_ticket smelt_gate_arrive(smelt_gate* gate);
int smelt_gate_pass(smelt_gate* gate, smelt_gate_ticket ticket);
void smelt_gate_leave(smelt_gate* gate);
int smelt_gate_destroy(smelt_gate* gate);

#ifdef __cplusplus
}
#endif

#endif
