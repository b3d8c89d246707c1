/* smelt, C interface (C99). Group communication tuned to the machine it runs on.
 *
 * Conventions
 * - Calls return SMELT_OK (0) or a negative status; smelt_status_string() names it, and after a
 *   failed set-up call smelt_last_error() holds one line that says what was wrong, where, and
 *   what to do (per thread, valid until that thread's next smelt call).
 * - Handles are opaque; each kind has its _free. Freeing NULL does nothing.
 * - Collectives (smelt_barrier ... smelt_two_phase_commit) neither allocate nor lock. All ranks of
 *   a communicator call the same collectives in the same order. Ordering: see docs/ordering.md.
 * - A rank handle is used by one thread at a time; everything else may be called from any thread.
 */
#ifndef SMELT_H
#define SMELT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SMELT_VERSION_MAJOR 0
#define SMELT_VERSION_MINOR 1
#define SMELT_VERSION_PATCH 0

typedef enum smelt_status {
  SMELT_OK = 0,
  SMELT_INVALID_ARGUMENT = -1,
  SMELT_NOT_FOUND = -2,
  SMELT_IO_ERROR = -3,
  SMELT_BAD_FORMAT = -4,
  SMELT_OUT_OF_MEMORY = -5,
  SMELT_NOT_SUPPORTED = -6,
  SMELT_PERMISSION_DENIED = -7,
  SMELT_TIMED_OUT = -8, /* a rank did not arrive in time; the communicator is broken */
  SMELT_BROKEN = -9     /* the communicator failed in an earlier call */
} smelt_status;

/* Short English name of a status; never NULL. */
const char* smelt_status_string(int status);

/* The calling thread's last set-up error, one line; "" if there was none. */
const char* smelt_last_error(void);

/* "0.1.0" */
const char* smelt_version(void);

/* ---- machine ------------------------------------------------------------------------------ */

typedef struct smelt_machine smelt_machine;

/* The hardware under this process, without costs. */
int smelt_machine_discover(smelt_machine** machine);

/* The measured model of this machine: from the cache, else measured within budget_s seconds
 * (<= 0: 30) and cached. Measure on an otherwise idle machine. */
int smelt_machine_measured(double budget_s, smelt_machine** machine);

/* A machine file, schema "smelt-machine/1". */
int smelt_machine_load(const char* file, smelt_machine** machine);

/* Atomic: readers see the old file or the new one. */
int smelt_machine_save(const smelt_machine* machine, const char* file);

void smelt_machine_free(smelt_machine* machine);

/* Number of PUs; 0 for NULL. */
int smelt_machine_size(const smelt_machine* machine);

/* Costs in nanoseconds between two PUs by index (0 .. size-1). Either pointer may be NULL.
 * SMELT_NOT_FOUND while the machine has no costs. */
int smelt_machine_costs(const smelt_machine* machine, int sender, int receiver, double* send_ns, double* recv_ns);

/* ---- plan --------------------------------------------------------------------------------- */

typedef enum smelt_operation {
  SMELT_BROADCAST = 0,
  SMELT_REDUCE = 1,
  SMELT_BARRIER = 2,
  SMELT_ALLREDUCE = 3,
  SMELT_TWO_PHASE_COMMIT = 4
} smelt_operation;

/* Plans a tree for the PUs os_indices[0 .. ranks-1] (NULL: the whole machine, ranks ignored).
 * topology: a name such as "best" or "binary"; NULL: "best". root: a rank, or -1 for free choice.
 * parents[r] (may be NULL, else `ranks` entries) receives each rank's parent, -1 for the root and
 * for plans without a tree. predicted_ns and chosen_root may be NULL. */
int smelt_plan(const smelt_machine* machine, const int* os_indices, int ranks, smelt_operation operation,
               const char* topology, int root, double search_ms, int* parents, int* chosen_root, double* predicted_ns);

/* ---- communicator ------------------------------------------------------------------------- */

typedef struct smelt_communicator smelt_communicator;
typedef struct smelt_rank smelt_rank;

/* Zero-initialize, then set what differs from the default. */
typedef struct smelt_options {
  const char* topology; /* NULL: "best" */
  const char* barrier;  /* NULL: the model's choice; "tree", "dissemination", "flat" */
  const char* wait;     /* NULL: SMELT_WAIT; "spin", "yield", "sleep", "auto" */
  double timeout_s;     /* 0: SMELT_TIMEOUT; negative: never */
  double search_ms;     /* 0: 20 ms per operation; negative: construction alone */
  int keep_affinity;    /* not 0: do not pin the threads of the ranks */
} smelt_options;

/* A communicator of `ranks` ranks on the PUs os_indices (a PU may repeat). os_indices NULL: one
 * rank per core that may be used (ranks <= 0), or that many ranks. machine NULL: the cached model
 * of this machine, else its topology with assumed costs. options NULL: defaults. */
int smelt_communicator_create(const smelt_machine* machine, const int* os_indices, int ranks,
                              const smelt_options* options, smelt_communicator** communicator);

/* Ranks that are still attached keep working. */
void smelt_communicator_free(smelt_communicator* communicator);

int smelt_communicator_size(const smelt_communicator* communicator);

/* Runs f(rank, context) in one pinned thread per rank and waits for all; the caller is rank 0. */
int smelt_communicator_run(smelt_communicator* communicator, void (*f)(smelt_rank* rank, void* context),
                           void* context);

/* Makes the calling thread rank `rank`, until smelt_rank_free. */
int smelt_communicator_attach(smelt_communicator* communicator, int rank, smelt_rank** attached);
void smelt_rank_free(smelt_rank* rank);

int smelt_rank_number(const smelt_rank* rank);
int smelt_rank_size(const smelt_rank* rank);

/* A communicator of `members` (ranks of this one, in the new order, the caller among them); called
 * by exactly the members. Free the handle with smelt_rank_free. */
int smelt_rank_subgroup(smelt_rank* rank, const int* members, int count, smelt_rank** subgroup);

/* After SMELT_TIMED_OUT or SMELT_BROKEN: who is missing and where. Writes at most `bytes` bytes
 * with a terminating zero; returns the length without it. */
size_t smelt_rank_failure(const smelt_rank* rank, char* text, size_t bytes);

/* ---- collectives -------------------------------------------------------------------------- */

typedef enum smelt_type {
  SMELT_INT8, SMELT_INT16, SMELT_INT32, SMELT_INT64,
  SMELT_UINT8, SMELT_UINT16, SMELT_UINT32, SMELT_UINT64,
  SMELT_FLOAT, SMELT_DOUBLE
} smelt_type;

typedef enum smelt_op {
  SMELT_SUM, SMELT_PRODUCT, SMELT_MIN, SMELT_MAX,
  SMELT_BIT_AND, SMELT_BIT_OR, SMELT_BIT_XOR /* integers only */
} smelt_op;

/* A user operator: accumulator[i] = accumulator[i] (op) operand[i], i < count; associative. */
typedef void (*smelt_combine)(void* accumulator, const void* operand, size_t count, void* context);

/* No rank leaves before all have entered. */
int smelt_barrier(smelt_rank* rank);

/* `bytes` bytes at `data` go from rank `root` to all, in the same order for all ranks. */
int smelt_broadcast(smelt_rank* rank, void* data, size_t bytes, int root);

/* result[i] on `root` = in[i] combined over all ranks. `result` may equal `in`; NULL elsewhere. */
int smelt_reduce(smelt_rank* rank, const void* in, void* result, size_t count, smelt_type type, smelt_op op, int root);

/* The same with the result, to the bit, on every rank. */
int smelt_allreduce(smelt_rank* rank, const void* in, void* result, size_t count, smelt_type type, smelt_op op);

/* With a user operator on elements of element_bytes; commutative 0: combined in rank order. */
int smelt_reduce_user(smelt_rank* rank, const void* in, void* result, size_t count, size_t element_bytes,
                      smelt_combine combine, void* context, int commutative, int root);
int smelt_allreduce_user(smelt_rank* rank, const void* in, void* result, size_t count, size_t element_bytes,
                         smelt_combine combine, void* context, int commutative);

/* The proposal of `root` is broadcast, each rank votes (not 0: yes), *committed = all said yes. */
int smelt_two_phase_commit(smelt_rank* rank, void* proposal, size_t bytes,
                           int (*vote)(const void* proposal, void* context), void* context, int* committed, int root);

#ifdef __cplusplus
}
#endif

#endif
