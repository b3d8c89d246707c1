/* smelt, C interface (C99). Group communication tuned to the machine it runs on.
 *
 * Conventions
 * - Calls return SMELT_OK (0) or a negative status; smelt_status_string() names it. After a failed
 *   set-up call, and after SMELT_INVALID_ARGUMENT from any call, smelt_last_error() holds one line
 *   that says what was wrong, where, and what to do (per thread, valid until that thread's next
 *   smelt call). After a collective that failed, smelt_rank_failure() says who is missing.
 * - Handles are opaque; each kind has its _free. Freeing NULL does nothing.
 * - All ranks of a communicator call the same collectives in the same order, with the same count, operator, root,
 *   synchronization and at_rest, and all of them blocking or all of them started. Ordering: docs/reference/ordering.md.
 * - Collectives neither allocate nor lock once each operation and size has been run.
 * - A rank handle, and the requests made of it, are used by one thread at a time; everything else
 *   may be called from any thread.
 */
#ifndef SMELT_H
#define SMELT_H

#include <stddef.h>
#include <stdint.h>

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

/* The measured model of this machine: from the cache, or measured within budget_s seconds (<= 0: 30) and cached.
 * Measure on an otherwise idle machine. */
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
  SMELT_TWO_PHASE_COMMIT = 4,
  SMELT_SCATTER = 5,
  SMELT_GATHER = 6,
  SMELT_ALLGATHER = 7,
  SMELT_ALLTOALL = 8,
  SMELT_REDUCE_SCATTER = 9,
  SMELT_SCAN = 10,
  SMELT_EXSCAN = 11,
  SMELT_SCATTERV = 12, /* these: with blocks of different sizes */
  SMELT_GATHERV = 13,
  SMELT_ALLGATHERV = 14,
  SMELT_ALLTOALLV = 15,
  SMELT_REDUCE_SCATTERV = 16
} smelt_operation;

/* Plans a tree for one of the first five operations, on the PUs os_indices[0 .. ranks-1] (NULL: the whole
 * machine, ranks ignored).
 * topology: a name such as "best" or "binary"; NULL: "best". root: a rank, or -1 for free choice.
 * parents[r] (may be NULL, else `ranks` entries) receives each rank's parent, -1 for the root and
 * for plans without a tree. predicted_ns and chosen_root may be NULL. */
int smelt_plan(const smelt_machine* machine, const int* os_indices, int ranks, smelt_operation operation,
               const char* topology, int root, double search_ms, int* parents, int* chosen_root, double* predicted_ns);

/* ---- communicator ------------------------------------------------------------------------- */

typedef struct smelt_communicator smelt_communicator;
typedef struct smelt_rank smelt_rank;

/* Zero-initialize, then set the members that differ from the default. */
typedef struct smelt_options {
  const char* topology;  /* NULL: "best" */
  const char* barrier;   /* NULL: the model's choice; "tree", "dissemination", "flat" */
  const char* wait;      /* NULL: SMELT_WAIT; "spin", "yield", "sleep", "auto" */
  double timeout_s;      /* 0: SMELT_TIMEOUT; negative: never */
  double search_ms;      /* 0: 20 ms per operation; negative: construction alone */
  int keep_affinity;     /* not 0: do not pin the threads of the ranks */
  const char* algorithm; /* NULL: the best ones; else a recipe, such as "allreduce_slices+direct" */
  const char* profile;   /* NULL: the cached one of this machine, if it fits; a file; "none" */
  int revalidate;        /* threads: 1: check whether the profile still holds; -1: no; 0: SMELT_REVALIDATE */
  const double* late_ns; /* NULL: all ranks arrive at the same time; else the usual delay of each after the first */
  size_t late_count;     /* length of late_ns: the number of ranks */
  const int* pus;        /* processes: os_index of each rank's PU, where ranks are bound already; else NULL */
  size_t pu_count;       /* length of pus: the number of ranks */
  int any_thread;        /* processes: not 0: any thread of a process may use the rank, one at a time, and the end
                            of a thread does not count as a death */
  /* Called by a waiting rank on its thread, about every 20 us, and every 200 us while it sleeps. For libraries that
   * progress only when they are called. Must not call a collective of the same rank. */
  void (*idle)(void* context);
  void* idle_context; /* of idle and of poll */
  /* The same for what takes some 10 ns: called at every turn of a wait beyond the first polls, up to several times a
   * microsecond, and every 200 us while the rank sleeps. Returns 1 if there is more to do, else 0: with 1 the rank does
   * not sleep if it can help it, and else for 20 us at most. */
  int (*poll)(void* context);
} smelt_options;

/* A communicator of `ranks` ranks on the PUs os_indices (a PU may repeat). os_indices NULL: one
 * rank per core that may be used (ranks <= 0), or that many ranks. machine NULL: the cached model
 * of this machine, else its topology with assumed costs. options NULL: defaults. */
int smelt_communicator_create(const smelt_machine* machine, const int* os_indices, int ranks,
                              const smelt_options* options, smelt_communicator** communicator);

/* A communicator over processes of one user, which all call this with the same name and size. This process brings rank
 * `rank`; one of its threads then attaches to it by smelt_communicator_attach or _run. Returns when all ranks have
 * arrived; the name (1 to 200 bytes without '/') is free again then. Fork first, then create. All processes use the
 * machine and the plans of the first one.
 * Errors: invalid name, size or rank; SMELT_PERMISSION_DENIED (another user's segment); SMELT_TIMED_OUT (ranks have not
 * arrived within timeout_s, or 60 s); SMELT_BROKEN (one died). See docs/reference/processes.md. */
int smelt_communicator_create_shared(const char* name, int size, int rank, const smelt_options* options,
                                     smelt_communicator** communicator);

/* The same for a process that brings the `count` ranks ranks[0 .. count-1], one thread each. */
int smelt_communicator_create_shared_ranks(const char* name, int size, const int* ranks, int count,
                                           const smelt_options* options, smelt_communicator** communicator);

/* The same over a descriptor of shared memory, such as a memfd, that all processes have. It can be used for one
 * communicator only. The caller keeps the descriptor and may close it afterwards. */
int smelt_communicator_create_shared_fd(int fd, int size, const int* ranks, int count, const smelt_options* options,
                                        smelt_communicator** communicator);

/* Ranks that are attached keep working; all others have left. */
void smelt_communicator_free(smelt_communicator* communicator);

int smelt_communicator_size(const smelt_communicator* communicator);

/* Runs f(rank, context) in one pinned thread per rank and waits for all. The caller is rank 0, or the first of the
 * ranks that this process brings. Errors: SMELT_INVALID_ARGUMENT, without an effect, if a thread is attached to one of
 * the ranks, as within smelt_communicator_run itself. */
int smelt_communicator_run(smelt_communicator* communicator, void (*f)(smelt_rank* rank, void* context), void* context);

/* Attaches the calling thread to rank `rank`, until smelt_rank_free. That waits for the collectives that were started;
 * then the rank has left, and ranks that wait for it or need it get SMELT_BROKEN. Collectives that it has taken part in
 * before finish normally. A thread may attach to the rank again; see docs/reference/processes.md. */
int smelt_communicator_attach(smelt_communicator* communicator, int rank, smelt_rank** attached);
void smelt_rank_free(smelt_rank* rank);

int smelt_rank_number(const smelt_rank* rank);
int smelt_rank_size(const smelt_rank* rank);

/* A communicator of `members`: ranks of this one, in the new order, including the caller. Called by exactly the
 * members. Free the handle with smelt_rank_free. */
int smelt_rank_subgroup(smelt_rank* rank, const int* members, int count, smelt_rank** subgroup);

/* After a rank has died or left (SMELT_BROKEN): a communicator of the survivors, in the same order, with new plans.
 * Called by every survivor; all get the same group. A death during the call breaks the new communicator, which must
 * then be shrunk again. The old handle cannot be used any more; free both with smelt_rank_free.
 * Errors: SMELT_TIMED_OUT if the others have continued without this rank. */
int smelt_rank_shrink(smelt_rank* rank, smelt_rank** survivor);

/* After SMELT_TIMED_OUT or SMELT_BROKEN: a text that names the missing rank and the call. Writes at most `bytes` bytes
 * including the terminating zero; returns the length without it. */
size_t smelt_rank_failure(const smelt_rank* rank, char* text, size_t bytes);

/* ---- collectives -------------------------------------------------------------------------- */

typedef enum smelt_type {
  SMELT_INT8,
  SMELT_INT16,
  SMELT_INT32,
  SMELT_INT64,
  SMELT_UINT8,
  SMELT_UINT16,
  SMELT_UINT32,
  SMELT_UINT64,
  SMELT_FLOAT,
  SMELT_DOUBLE
} smelt_type;

typedef enum smelt_op {
  SMELT_SUM,
  SMELT_PRODUCT,
  SMELT_MIN,
  SMELT_MAX,
  SMELT_BIT_AND,
  SMELT_BIT_OR,
  SMELT_BIT_XOR /* integers only */
} smelt_op;

/* A user operator: accumulator[i] = accumulator[i] (op) operand[i], i < count; associative. */
typedef void (*smelt_combine)(void* accumulator, const void* operand, size_t count, void* context);

/* No rank leaves before all have entered. */
int smelt_barrier(smelt_rank* rank);

/* Sends `bytes` bytes at `data` from rank `root` to all. All ranks see broadcasts in the same order. */
int smelt_broadcast(smelt_rank* rank, void* data, size_t bytes, int root);

/* result[i] on `root` = in[i] combined over all ranks. `result` may equal `in`; NULL elsewhere. */
int smelt_reduce(smelt_rank* rank, const void* in, void* result, size_t count, smelt_type type, smelt_op op, int root);

/* The same, with the bitwise same result on every rank. */
int smelt_allreduce(smelt_rank* rank, const void* in, void* result, size_t count, smelt_type type, smelt_op op);

/* With a user operator on elements of element_bytes; commutative 0: combined in rank order. */
int smelt_reduce_user(smelt_rank* rank, const void* in, void* result, size_t count, size_t element_bytes,
                      smelt_combine combine, void* context, int commutative, int root);
int smelt_allreduce_user(smelt_rank* rank, const void* in, void* result, size_t count, size_t element_bytes,
                         smelt_combine combine, void* context, int commutative);

/* Broadcasts the proposal of `root`; each rank votes (not 0: yes); *committed = whether all voted yes. */
int smelt_two_phase_commit(smelt_rank* rank, void* proposal, size_t bytes,
                           int (*vote)(const void* proposal, void* context), void* context, int* committed, int root);

/* Blocks of block_bytes. scatter: block r of `in`, on the root, becomes `out` of rank r. gather: `in` of
 * rank r becomes block r of `out`, on the root; allgather: on every rank. alltoall: block i of `in` goes
 * to rank i, block i of `out` comes from rank i. In place: the smaller buffer is the rank's own block of the larger
 * one; for alltoall out == in. Buffers that only the root uses may be NULL on other ranks. */
int smelt_scatter(smelt_rank* rank, const void* in, void* out, size_t block_bytes, int root);
int smelt_gather(smelt_rank* rank, const void* in, void* out, size_t block_bytes, int root);
int smelt_allgather(smelt_rank* rank, const void* in, void* out, size_t block_bytes);
int smelt_alltoall(smelt_rank* rank, const void* in, void* out, size_t block_bytes);

/* Blocks of different sizes: block i has counts[i] bytes and begins offsets[i] bytes into its buffer.
 * `bytes`: size of this rank's own block. scatterv and gatherv use counts and offsets on the root only. alltoallv:
 * out_counts[i] must equal the entry for this rank in the in_counts of rank i. */
int smelt_scatterv(smelt_rank* rank, const void* in, const size_t* counts, const size_t* offsets, void* out,
                   size_t bytes, int root);
int smelt_gatherv(smelt_rank* rank, const void* in, size_t bytes, void* out, const size_t* counts,
                  const size_t* offsets, int root);
int smelt_allgatherv(smelt_rank* rank, const void* in, size_t bytes, void* out, const size_t* counts,
                     const size_t* offsets);
int smelt_alltoallv(smelt_rank* rank, const void* in, const size_t* in_counts, const size_t* in_offsets, void* out,
                    const size_t* out_counts, const size_t* out_offsets);

/* `in` holds one block of `count` elements per rank; out = block r of all ranks, combined. In place: out == in, with
 * the result at the beginning. */
int smelt_reduce_scatter(smelt_rank* rank, const void* in, void* out, size_t count, smelt_type type, smelt_op op);

/* out = `in` of ranks 0 .. r combined; exscan: of ranks 0 .. r-1, and `out` of rank 0 is not changed. */
int smelt_scan(smelt_rank* rank, const void* in, void* out, size_t count, smelt_type type, smelt_op op);
int smelt_exscan(smelt_rank* rank, const void* in, void* out, size_t count, smelt_type type, smelt_op op);

/* inout[i] = in[i] (op) inout[i], by the calling thread alone: no rank, no communicator. `in` and `inout` do not
 * overlap. SMELT_INVALID_ARGUMENT for an operator that the type does not have. */
int smelt_reduce_local(const void* in, void* inout, size_t count, smelt_type type, smelt_op op);

/* ---- exact sums ---------------------------------------------------------------------------- */

/* An exact, unrounded sum of floating-point numbers. The same numbers give the same bytes for any order, grouping and
 * number of ranks (docs/how-to/get-the-same-bits.md). A plain value of 280 bytes that can be copied, sent and reduced.
 * Zero-initialize it for the empty sum. Only the functions below interpret it. */
typedef struct smelt_exact_sum {
  uint64_t words[35];
} smelt_exact_sum;

/* Adds values[0 .. count-1]. */
void smelt_exact_add(smelt_exact_sum* sum, const double* values, size_t count);
void smelt_exact_add_float(smelt_exact_sum* sum, const float* values, size_t count);

/* A commutative operator for smelt_allreduce_user, smelt_call and the like, on elements of
 * sizeof(smelt_exact_sum) bytes; context is ignored. */
void smelt_exact_combine(void* accumulator, const void* operand, size_t count, void* context);

/* The sum, rounded once, to nearest, ties to even. */
double smelt_exact_double(const smelt_exact_sum* sum);
float smelt_exact_float(const smelt_exact_sum* sum);

/* *total = the sum of values[0 .. count-1] of all ranks, rounded once, on every rank. The result is bitwise the same
 * for any distribution of the values over any number of ranks. `count` may differ per rank. */
int smelt_sum_exactly(smelt_rank* rank, const double* values, size_t count, double* total);

/* out[i] = the sum of in[i] over all ranks, rounded once, on every rank. `out` may equal `in`. */
int smelt_allreduce_exactly(smelt_rank* rank, const double* in, double* out, size_t count);

/* ---- any collective, as a value ------------------------------------------------------------ */

/* When data may move. */
typedef enum smelt_sync {
  SMELT_LOOSE = 0, /* from when the first rank has entered until the last has left, as in MPI */
  SMELT_STRICT = 1 /* as if there were a barrier before and after */
} smelt_sync;

/* Zero-initialize, then set the members that differ from the default. `in` and `out` are as in the functions above;
 * `out` is the data of a broadcast and the proposal of a two-phase commit. */
typedef struct smelt_call {
  smelt_operation operation;
  smelt_sync sync;
  const void* in;
  void* out;
  size_t count; /* elements of the vector, or of this rank's block */
  int root;
  smelt_type type;       /* of an element; 0: bytes */
  smelt_op op;           /* 0: the sum */
  size_t element_bytes;  /* not 0: size of an element, instead of `type` */
  smelt_combine combine; /* not NULL: the operator, instead of `op` */
  void* context;         /* for combine */
  int commutative;       /* of combine; 0: operands are combined in rank order */
  int reproducible;      /* not 0: bitwise the same result with every algorithm; see docs/how-to/get-the-same-bits.md */
  /* Blocks of different sizes, in elements. in: of scatterv (on the root), alltoallv and reduce_scatterv.
   * out: of gatherv (on the root), allgatherv and alltoallv. No other operation takes any. */
  const size_t* in_counts;
  const size_t* in_offsets;
  const size_t* out_counts;
  const size_t* out_offsets;
  int (*vote)(const void* proposal, void* context); /* for two-phase commit; not 0: yes */
  void* vote_context;
  int* committed;
  /* A hint, not 0: the input has not been written recently and results are not read soon, so that copies between the
   * buffers of two ranks cost little. Results are the same as without it, except for the order in which operands are
   * combined. */
  int at_rest;
} smelt_call;

/* Runs a collective and waits for its end. */
int smelt_run(smelt_rank* rank, const smelt_call* call);

/* A collective that was started, or prepared to be started. Everything that the call points to must stay valid until
 * smelt_request_free. The buffers belong to smelt from a start until test or wait reports the end. Collectives of one
 * rank run in the order of their starts; a blocking one waits for those before it. Progress is made in smelt's calls on
 * the rank or any of its requests. */
typedef struct smelt_request smelt_request;

/* Starts a collective. Errors, without a request: SMELT_INVALID_ARGUMENT; SMELT_NOT_SUPPORTED (operators that demand an
 * order, on elements too large for the stages). The status of the collective is returned by test and wait. */
int smelt_start(smelt_rank* rank, const smelt_call* call, smelt_request** request);

/* Prepares a collective that can be started any number of times. */
int smelt_prepare(smelt_rank* rank, const smelt_call* call, smelt_request** request);

/* Starts it (again). Errors: SMELT_INVALID_ARGUMENT while it is in progress. Does not allocate. */
int smelt_request_start(smelt_request* request);

/* Runs it on these buffers, which it keeps, and waits for its end. As smelt_run of the same call, but without the work
 * that does not depend on the buffers. A buffer must be NULL if and only if the prepared one was. Errors: as
 * smelt_request_start. */
int smelt_request_run(smelt_request* request, const void* in, void* out);

/* Progresses it without waiting. *done = 1: it has finished, and its status is returned; else 0. */
int smelt_request_test(smelt_request* request, int* done);

/* Waits for its end and returns its status; immediately if it is not in progress. */
int smelt_request_wait(smelt_request* request);

/* Waits if it is in progress. */
void smelt_request_free(smelt_request* request);

/* ---- counted barriers ----------------------------------------------------------------------- */

/* A barrier that is complete when a given number of threads has arrived, whichever they are. It needs no communicator.
 * It is in the caller's memory, which processes may share and map at any address. If more threads arrive than a round
 * needs, they count for the next one. What any thread of a round did before it arrived is visible to all after they
 * passed. None of these calls is a cancellation point. */
typedef struct smelt_counted_barrier {
  unsigned long long opaque[2];
} smelt_counted_barrier;

/* What a thread keeps between arriving and passing. Rounds are numbered from 0, modulo 2^31; `last` is 1 for exactly
 * one thread of each. */
typedef struct smelt_counted_barrier_ticket {
  unsigned round;
  unsigned last;
} smelt_counted_barrier_ticket;

enum { SMELT_COUNTED_BARRIER_LAST = 1 };

/* `count` threads make a round, 1 to 2^30. Before any other call on it. Errors: SMELT_INVALID_ARGUMENT. */
int smelt_counted_barrier_init(smelt_counted_barrier* barrier, unsigned count);

/* The same for threads of the calling process only, which are woken faster. */
int smelt_counted_barrier_init_private(smelt_counted_barrier* barrier, unsigned count);

/* Waits until the round is complete. Returns SMELT_COUNTED_BARRIER_LAST to exactly one thread, SMELT_OK to the others,
 * and SMELT_BROKEN if it cannot become complete, as a thread has left (smelt_counted_barrier_leave). */
int smelt_counted_barrier_wait(smelt_counted_barrier* barrier);

/* The same in two steps: arrive counts the caller and does not wait; pass waits. Every ticket must be passed once, by
 * the thread that arrived: until the last one calls pass, no thread passes. */
smelt_counted_barrier_ticket smelt_counted_barrier_arrive(smelt_counted_barrier* barrier);
int smelt_counted_barrier_pass(smelt_counted_barrier* barrier, smelt_counted_barrier_ticket ticket);

/* A participant will not arrive any more; called by that thread or on its behalf. Complete rounds are passed by all.
 * Threads that wait in an incomplete round, and threads that arrive later, get SMELT_BROKEN, in every process that maps
 * the barrier. After this the barrier can only be destroyed. */
void smelt_counted_barrier_leave(smelt_counted_barrier* barrier);

/* May be called as soon as the caller has passed, while others still return from the same round. After it returns, no
 * thread accesses the barrier any more. Errors: SMELT_INVALID_ARGUMENT if a thread waits in an incomplete round. */
int smelt_counted_barrier_destroy(smelt_counted_barrier* barrier);

/* ---- teams ---------------------------------------------------------------------------------- */

/* Fork-join regions for existing threads, numbered 0 .. size-1. Member 0 opens and closes the regions. Unlike a
 * communicator, a team does not pin threads, makes no plans, and can give a barrier back: a runtime whose own barrier
 * does more (for example runs tasks) calls the phase off, and all members use the runtime's barrier. Each barrier and
 * each end of a region is a phase. All members go through the same phases in the same order. */
typedef struct smelt_team smelt_team;

/* The work of a region; a NULL function dismisses the team. */
typedef struct smelt_work {
  void (*function)(void* data);
  void* data;
} smelt_work;

/* `size` members (2 .. 4096), of which `parallelism` (>= 1) can run at the same time. A waiting member stays awake for
 * about `awake_s` seconds (0: depends on the load; negative: for ever) before it sleeps. Errors:
 * SMELT_INVALID_ARGUMENT, SMELT_OUT_OF_MEMORY. */
int smelt_team_create(int size, int parallelism, double awake_s, smelt_team** team);

/* Requirement: no member is in a call. */
void smelt_team_free(smelt_team* team);

/* Restores the initial state. Requirement: no member is in a call, and the caller synchronizes with all of them. */
void smelt_team_reset(smelt_team* team);

/* Not 0: every member has entered. 0: the phase was called off. */
int smelt_team_barrier(smelt_team* team, int member);

/* Calls off the phase that this member enters next, and all later ones until the team is reset: members that wait in
 * one or enter one get 0. */
void smelt_team_call_off(smelt_team* team, int member);

/* Not 0: a phase was called off. */
int smelt_team_called_off(const smelt_team* team);

/* The member will not take part any more. Calls its next phase off permanently, so that no member waits for it. Phases
 * that it has entered complete. */
void smelt_team_leave(smelt_team* team, int member);

/* The first member that has left since the team was reset, -1 if none has. Visible to members for which a phase was
 * called off. */
int smelt_team_left(const smelt_team* team);

/* Not 0 for the first of the members that call this for the n-th time. All members call it equally often. What the
 * winner does is visible to the others after the next barrier. */
int smelt_team_claim(smelt_team* team, int member);

/* A word for exchanging data between members, from one barrier to the next. Cheaper than a word elsewhere. */
void** smelt_team_handed(smelt_team* team);

/* Member 0 opens a region. The others receive `work`. */
void smelt_team_fork(smelt_team* team, smelt_work work);

/* The same; work.data points to `words` (1 .. SMELT_TEAM_WORDS) words of the size of a pointer. The others receive a
 * copy that is valid until the region ends. The copy arrives with the announcement of the region, without further cache
 * misses.
 */
#define SMELT_TEAM_WORDS 5
void smelt_team_fork_copied(smelt_team* team, smelt_work work, int words);

/* Member 0 closes the region: waits until the others have finished. 0: the phase was called off. */
int smelt_team_join(smelt_team* team);

/* The other members: finishes the previous region, if any, and waits for the next one. A NULL function: the team was
 * dismissed, or the end of the previous region was called off. */
smelt_work smelt_team_receive(smelt_team* team, int member);

/* ---- graphs --------------------------------------------------------------------------------- */

/* A directed multigraph that does not change; may be used by any number of threads. docs/how-to/analyse-a-graph.md */
typedef struct smelt_graph smelt_graph;

#define SMELT_GRAPH_UNDIRECTED 1u /* add the reverse of every edge */
#define SMELT_GRAPH_SIMPLE 2u     /* leave out loops, and of repeated edges all but one */
#define SMELT_GRAPH_RENUMBER 4u   /* number the nodes that occur 0, 1, ... */

/* A graph from a file in any format that `smelt graph` reads; `flags` of SMELT_GRAPH_*. */
int smelt_graph_load(const char* file, unsigned flags, smelt_graph** graph);

/* A graph from edges in memory: edge i leads from[i] -> to[i], with weight[i] unless `weight` is NULL. */
int smelt_graph_create(uint64_t num_nodes, uint64_t num_edges, const uint64_t* from, const uint64_t* to,
                       const double* weight, unsigned flags, smelt_graph** graph);

/* A graph that is made up: "kron:20", "uniform:16:degree=8:seed=3", "grid:1000x500:weights=255". */
int smelt_graph_generate(const char* spec, smelt_graph** graph);

/* In the format that the file's name says; ".smg" is mapped when it is loaded, not parsed. */
int smelt_graph_save(const smelt_graph* graph, const char* file);

void smelt_graph_free(smelt_graph* graph);

/* 0 for NULL. */
uint64_t smelt_graph_num_nodes(const smelt_graph* graph);
uint64_t smelt_graph_num_edges(const smelt_graph* graph);

/* Algorithms: arrays have an element per node; `threads` of 0 is one per PU that the process may use.
 * SMELT_INVALID_ARGUMENT: a node that is not there, or a graph that does not fit; SMELT_OUT_OF_MEMORY. After an error
 * of the run the values in the array are undefined. */

/* Who leads to each node on a path with fewest edges from `root`; the root for itself, -1 where there is no path. */
int smelt_graph_bfs(const smelt_graph* graph, uint64_t root, int threads, int64_t* parent);

/* Edges on a path with fewest edges from `root`; INT32_MAX where there is none. */
int smelt_graph_hop_distance(const smelt_graph* graph, uint64_t root, int threads, int32_t* distance);

/* Until the ranks' changes sum up to at most `tolerance`; `iterations` may be NULL. */
int smelt_graph_pagerank(const smelt_graph* graph, double damping, double tolerance, int max_iterations, int threads,
                         float* rank, int* iterations);

/* The smallest number of a node of each node's weakly connected component. */
int smelt_graph_components(const smelt_graph* graph, int threads, int64_t* component);

/* By the shortest paths that start at sources[0 .. num_sources-1]. */
int smelt_graph_betweenness(const smelt_graph* graph, const uint64_t* sources, uint64_t num_sources, int threads,
                            float* centrality);

/* Along the graph's weights, whole numbers of at least 0; INT32_MAX where there is no path. */
int smelt_graph_sssp(const smelt_graph* graph, uint64_t root, int threads, int32_t* distance);

/* Of an undirected, simple graph. */
int smelt_graph_triangles(const smelt_graph* graph, int threads, uint64_t* triangles);

/* ---- maps ----------------------------------------------------------------------------------- */

/* A concurrent map, for the threads of a process or for processes, that survives the death of any process that uses it
 * at any instruction. Keys and values have fixed sizes of 1 to 4096 bytes; keys are equal if all their bytes are.
 * Every call may be made from any thread. Promises, progress and cost: docs/reference/map.md */
typedef struct smelt_map smelt_map;

#define SMELT_MAP_KEEP 1u /* the map outlives its last process, until smelt_map_remove() or `smelt state rm` */

/* For the threads of this process. `capacity`: keys that fit before the table grows for the first time. */
int smelt_map_create(size_t key_bytes, size_t value_bytes, uint64_t capacity, smelt_map** map);

/* For all processes of this user that use the name: whoever comes first creates it, the others attach. Without
 * SMELT_MAP_KEEP it is gone with the last of them, however that ends. */
int smelt_map_create_shared(const char* name, size_t key_bytes, size_t value_bytes, uint64_t capacity, unsigned flags,
                            smelt_map** map);

/* A map that some process has created; SMELT_NOT_FOUND. */
int smelt_map_attach(const char* name, size_t key_bytes, size_t value_bytes, smelt_map** map);

/* A map that was kept, in use or not; SMELT_NOT_FOUND. */
int smelt_map_open(const char* name, size_t key_bytes, size_t value_bytes, smelt_map** map);

void smelt_map_free(smelt_map* map);

/* Removes the name of a map that was kept; SMELT_NOT_FOUND. */
int smelt_map_remove(const char* name);

/* SMELT_NOT_FOUND: there is no such key. Writes nothing to shared memory and waits for nobody. */
int smelt_map_get(const smelt_map* map, const void* key, void* value);

/* Many lookups whose cache misses overlap: keys and values one after the other, found[i] 1 or 0. */
int smelt_map_get_many(const smelt_map* map, uint64_t count, const void* keys, void* values, unsigned char* found);

/* Updates; SMELT_OUT_OF_MEMORY: there is no room for the key, nothing was changed. Each result may be NULL. */
int smelt_map_put(smelt_map* map, const void* key, const void* value);
int smelt_map_insert(smelt_map* map, const void* key, const void* value, int* inserted);
int smelt_map_erase(smelt_map* map, const void* key, int* erased);

/* Sets the value of a key that has the value `expected`; else `expected` becomes what it has. SMELT_NOT_FOUND. */
int smelt_map_compare_exchange(smelt_map* map, const void* key, void* expected, const void* desired, int* exchanged);

/* Adds to a value of 8 bytes; a key that is not there counts as 0. */
int smelt_map_fetch_add(smelt_map* map, const void* key, int64_t term, int64_t* before);

/* Calls `visit` for each key. `at_one_moment`: as all of them are at one moment, for which updates wait; else keys that
 * come or go meanwhile are visited or not. `visit` makes no update of this map. */
int smelt_map_for_each(const smelt_map* map, int at_one_moment,
                       void (*visit)(void* context, const void* key, const void* value), void* context);

/* Counts the keys: reads the whole table. */
uint64_t smelt_map_size(const smelt_map* map);

/* ---- replicated log ------------------------------------------------------------------------- */

/* Ranks agree on one sequence of commands, and go on when any of them are killed. docs/reference/replicated-log.md */
typedef struct smelt_log smelt_log;
/* One rank's replica; used by one thread at a time. */
typedef struct smelt_replica smelt_replica;

/* What is survived: nothing; ranks that die at any instruction; these and ranks that are stopped or late. */
typedef enum smelt_faults {
  SMELT_FAULTS_DEFAULT = 0, /* crash over processes, none over threads */
  SMELT_FAULTS_NONE = 1,
  SMELT_FAULTS_CRASH = 2,
  SMELT_FAULTS_STOP = 3
} smelt_faults;

/* Zero-initialize, then set what differs from the default. */
typedef struct smelt_log_options {
  const char* algorithm; /* NULL: "1paxos"; or "broadcast", a fixed sequencer */
  const int* replicas;   /* ranks that hold a replica, and append; NULL: all */
  size_t replica_count;  /* length of replicas */
  int set_leader;        /* not 0: `leader` leads first; 0: the model's choice */
  int leader;
  smelt_faults faults;
  double suspect_after_s; /* 0: 0.02. SMELT_FAULTS_STOP: a leader that lets others wait so long is replaced */
  double evict_after_s;   /* 0: 0.1. A replica that the log waits for so long may be evicted */
  uint32_t entries;       /* 0: 16384. That the log keeps; a power of 2 */
  uint32_t requests;      /* 0: 1024. Of one rank that may be under way or unread by others; a power of 2 */
  uint32_t command_bytes; /* 0: 56. Of the largest command */
  const char* wait;       /* NULL: SMELT_WAIT; "spin", "yield", "sleep", "auto" */
  double timeout_s;       /* smelt_log_create_shared: for all to come; 0: 60 s */
  int keep;               /* not 0, smelt_log_create_shared: the log outlives its processes, until smelt_log_remove */
  /* Who may replace a leader. NULL: "cas", any replica alone; or "paxos", a majority of 3 or more replicas together. */
  const char* configuration;
} smelt_log_options;

typedef struct smelt_log_entry {
  uint64_t index;   /* its place in the log, from 0 */
  int client;       /* rank that appended it */
  uint64_t request; /* its number among that rank's, from 1 */
  const void* data; /* 8-byte aligned, until the replica's next call */
  size_t bytes;
} smelt_log_entry;

/* What a replica does with commands. With `apply`, they are delivered inside of its calls; else by smelt_log_next. With
 * `save` (which hands the whole state to `write`, in any number of parts) and `load`, a replica that was evicted comes
 * back. No exception may leave them. Any may be NULL. */
typedef struct smelt_log_machine {
  void* context;
  void (*apply)(void* context, const smelt_log_entry* entry);
  void (*save)(void* context, void (*write)(void* sink, const void* data, size_t bytes), void* sink);
  void (*load)(void* context, const void* state, size_t bytes);
} smelt_log_machine;

#define SMELT_UNKNOWN_INDEX UINT64_MAX

/* Over the ranks of a communicator: each process of it calls this once for each log, in the same order, with the same
 * options. options NULL: defaults. */
int smelt_log_create(const smelt_communicator* communicator, const smelt_log_options* options, smelt_log** log);

/* Over processes of one user, as smelt_communicator_create_shared_ranks. */
int smelt_log_create_shared(const char* name, int size, const int* ranks, int count, const smelt_log_options* options,
                            smelt_log** log);

/* Frees a log that was kept and that no process uses, as `smelt state rm`. A log with `keep` is continued by
 * smelt_log_create_shared with the same name, size, entries, requests, command_bytes and replicas; its machines have
 * apply, save and load. Errors: SMELT_NOT_FOUND, SMELT_BROKEN (it is in use). */
int smelt_log_remove(const char* name);

/* Replicas keep working. */
void smelt_log_free(smelt_log* log);

/* Makes the calling thread the replica of `rank`; once for each rank. machine NULL: commands come by smelt_log_next. */
int smelt_log_attach(smelt_log* log, int rank, const smelt_log_machine* machine, smelt_replica** replica);
/* Gives the rank up. NULL: nothing. */
void smelt_replica_free(smelt_replica* replica);

/* Appends, and returns when the command is part of the log and known here; `index` may be NULL.
 * Errors: SMELT_BROKEN, SMELT_INVALID_ARGUMENT; smelt_log_failure tells why. */
int smelt_log_append(smelt_replica* replica, const void* command, size_t bytes, uint64_t* index);

/* The same in parts, any number under way; `command` may be reused at once. `index`: as above. */
int smelt_log_start(smelt_replica* replica, const void* command, size_t bytes, uint64_t* ticket);
int smelt_log_test(smelt_replica* replica, uint64_t ticket, int* done, uint64_t* index);
int smelt_log_wait(smelt_replica* replica, uint64_t ticket, uint64_t* index);

/* The next command: with `there`, whether there is one; with NULL, waits for it. */
int smelt_log_next(smelt_replica* replica, smelt_log_entry* entry, int* there);

/* Every command whose append returned before this call, on any rank, has an index below *index. */
int smelt_log_read_point(smelt_replica* replica, uint64_t* index);
/* Waits until all below `index` have been applied here. */
int smelt_log_catch_up(smelt_replica* replica, uint64_t index);
/* Index of the next entry to be delivered here. */
uint64_t smelt_log_delivered(const smelt_replica* replica);

/* Commands that this rank has started; of a log that was kept, those of its former processes, too. */
uint64_t smelt_log_started(const smelt_replica* replica);

/* Does what the roles of this rank have to do now, without waiting. */
int smelt_log_progress(smelt_replica* replica);
/* The same until stop(context) is not 0, which is looked at at least every millisecond. */
int smelt_log_serve(smelt_replica* replica, int (*stop)(void* context), void* context);

/* The epoch, the leader (-1: none), and which ranks are up to date: their number in *count, the first `capacity` of
 * them in replicas. Any pointer may be NULL. */
int smelt_log_configuration(const smelt_replica* replica, uint64_t* epoch, int* leader, int* replicas, int capacity,
                            int* count);

/* Why the replica's last call failed; returns the length of the text, as smelt_rank_failure. */
size_t smelt_log_failure(const smelt_replica* replica, char* text, size_t bytes);

/* ---- maps over ranks ------------------------------------------------------------------------ */

/* A map over the ranks of a communicator, by any of the algorithms of `smelt explain map`. Keys and values have fixed
 * sizes, of 4096 bytes together at most, or are byte strings; keys are equal if all their bytes are. What each
 * algorithm promises, what it survives and who has to make progress: docs/reference/map.md */
typedef struct smelt_map_group smelt_map_group;
/* One rank's part; used by one thread at a time. Operations of others may wait while it is in no call of it. */
typedef struct smelt_map_rank smelt_map_rank;

/* Zero-initialize, then set what differs from the default. */
typedef struct smelt_map_group_options {
  const char* algorithm; /* NULL: "best", the fastest by the model that keeps what is asked for; or its name */
  int sequential;        /* not 0: sequential consistency will do; 0: linearizable */
  smelt_faults faults;   /* at least. Default: none over threads, else as the named algorithm; "best": crash */
  uint64_t capacity;     /* 0: 1000. Keys that fit before a table grows for the first time */
  int servers;           /* of part_simple, part_caching; replicas of kv. 0: chosen by algorithm and machine */
  int dedicated_servers; /* not 0: servers issue nothing, they only serve */
  double lookups;        /* 0: 0.9. Expected share of lookups, by which "best" goes */
  double keys;           /* expected number of keys, likewise; 0: capacity */
  double skew;           /* of the keys, likewise: the k-th most popular is asked for in proportion to k^-skew */
  const char* wait;      /* NULL: SMELT_WAIT; "spin", "yield", "sleep", "auto" */
  int keep; /* not 0: the contents outlive all processes; of smelt_map_group_create_shared with shared or kv */
} smelt_map_group_options;

#define SMELT_MAP_STRINGS ((size_t)0) /* as key_bytes and value_bytes: byte strings of 0 to 65536 bytes */

/* Each process of the communicator calls this once for each map, in the same order, with the same arguments. options
 * NULL: defaults. SMELT_NOT_SUPPORTED: the algorithm does not promise what is asked for. */
int smelt_map_group_create(const smelt_communicator* communicator, size_t key_bytes, size_t value_bytes,
                           const smelt_map_group_options* options, smelt_map_group** group);

/* The same for processes of one user without a communicator: all call this with the same name, size and arguments, each
 * with its own ranks, `count` of them. Waits until all ranks have arrived. `smelt state list` shows the map while it is
 * in use. With the algorithm "shared", smelt_map_attach(name, ...) gives it to processes without a rank. With keep, the
 * contents outlive all processes, and as many call this again. SMELT_NOT_SUPPORTED: also keep with another algorithm.
 */
int smelt_map_group_create_shared(const char* name, int size, const int* ranks, int count, size_t key_bytes,
                                  size_t value_bytes, const smelt_map_group_options* options, smelt_map_group** group);

/* Attached ranks keep working. */
void smelt_map_group_free(smelt_map_group* group);

/* The algorithm that was chosen; valid as long as the group. */
const char* smelt_map_group_algorithm(const smelt_map_group* group);
/* 1: the rank owns a part of the keys, counts updates, or has a replica. */
int smelt_map_group_serves(const smelt_map_group* group, int rank);

/* Makes the calling thread that rank, which is of this process; once for each rank. */
int smelt_map_group_attach(smelt_map_group* group, int rank, smelt_map_rank** attached);
/* Leaves the map; others whose calls need this rank then get SMELT_BROKEN. Call smelt_map_rank_finish before. */
void smelt_map_rank_free(smelt_map_rank* rank);

/* As those of smelt_map; also SMELT_BROKEN: a rank died or left that the algorithm needs; smelt_last_error() says more.
 * An update that is told so may have been done, or not. */
int smelt_map_rank_get(smelt_map_rank* rank, const void* key, void* value);
int smelt_map_rank_put(smelt_map_rank* rank, const void* key, const void* value);
int smelt_map_rank_insert(smelt_map_rank* rank, const void* key, const void* value, int* inserted);
int smelt_map_rank_erase(smelt_map_rank* rank, const void* key, int* erased);
int smelt_map_rank_compare_exchange(smelt_map_rank* rank, const void* key, void* expected, const void* desired,
                                    int* exchanged);
int smelt_map_rank_fetch_add(smelt_map_rank* rank, const void* key, int64_t term, int64_t* before);

/* The same for maps of strings (SMELT_MAP_STRINGS); SMELT_INVALID_ARGUMENT also for strings that are too long. get
 * copies the first `capacity` bytes of the value; *value_bytes, if not NULL, is its length. */
int smelt_map_rank_get_string(smelt_map_rank* rank, const void* key, size_t key_bytes, void* value, size_t capacity,
                              size_t* value_bytes);
int smelt_map_rank_put_string(smelt_map_rank* rank, const void* key, size_t key_bytes, const void* value,
                              size_t value_bytes);
int smelt_map_rank_insert_string(smelt_map_rank* rank, const void* key, size_t key_bytes, const void* value,
                                 size_t value_bytes, int* inserted);
int smelt_map_rank_erase_string(smelt_map_rank* rank, const void* key, size_t key_bytes, int* erased);
int smelt_map_rank_compare_exchange_string(smelt_map_rank* rank, const void* key, size_t key_bytes,
                                           const void* expected, size_t expected_bytes, const void* desired,
                                           size_t desired_bytes, int* exchanged);

/* Calls `visit` for all keys of the map at one moment, with the promise of a lookup. Servers of part_simple and
 * part_caching and the replica of a client of kv must make progress meanwhile. `visit` must not use the map. */
int smelt_map_rank_for_each(smelt_map_rank* rank,
                            void (*visit)(void* context, const void* key, size_t key_bytes, const void* value,
                                          size_t value_bytes),
                            void* context);

/* Calls `visit` for what this rank has: replicas all keys, servers their part, others none; "shared" all keys. */
int smelt_map_rank_for_each_here(const smelt_map_rank* rank,
                                 void (*visit)(void* context, const void* key, const void* value), void* context);

/* Does what there is to do for others now; until stop(context) is not 0; until all ranks have called finish. */
int smelt_map_rank_progress(smelt_map_rank* rank);
int smelt_map_rank_serve(smelt_map_rank* rank, int (*stop)(void* context), void* context);
int smelt_map_rank_finish(smelt_map_rank* rank);

/* ---- arrays --------------------------------------------------------------------------------- */

/* Memory whose NUMA nodes, page size and copies are chosen (smelt/array.hpp describes all of it). Elements are bytes of
 * any kind, zero at first. NUMA nodes are named by their os_index. */
typedef struct smelt_array smelt_array;

enum {
  SMELT_PLACEMENT_BEST,
  SMELT_PLACEMENT_FIRST_TOUCH,
  SMELT_PLACEMENT_SINGLE_NODE,
  SMELT_PLACEMENT_INTERLEAVED,
  SMELT_PLACEMENT_PARTITIONED,
  SMELT_PLACEMENT_REPLICATED,
  SMELT_PLACEMENT_WRITABLE_REPLICAS
};
enum { SMELT_PAGES_BEST, SMELT_PAGES_BASE, SMELT_PAGES_HUGE, SMELT_PAGES_RESERVED_2MIB, SMELT_PAGES_RESERVED_1GIB };
enum { SMELT_REPLICA_PER_NUMA_NODE, SMELT_REPLICA_PER_CACHE };
enum { SMELT_ACCESS_UNKNOWN, SMELT_ACCESS_SEQUENTIAL, SMELT_ACCESS_STRIDED, SMELT_ACCESS_RANDOM };

/* Zero-initialize, then set what differs from the default. */
typedef struct smelt_array_options {
  int placement;            /* SMELT_PLACEMENT_* */
  int pages;                /* SMELT_PAGES_* */
  int strict;               /* not 0: what cannot be had is an error, not a line of smelt_array_explain() */
  int parts;                /* 0: one per rank, or per PU */
  const int* numa_nodes;    /* NULL: all with PUs and memory */
  size_t numa_node_count;   /* length of numa_nodes */
  int access;               /* SMELT_ACCESS_* */
  size_t stride_bytes;      /* of strided access */
  int loop_index;           /* not 0: only element i in iteration i of loops with a static schedule */
  int read_only;            /* not 0: once it was filled; may be replicated */
  double reads_per_element; /* in one phase, by all threads; 0: 1 */
  double writes_per_element;
  double phases;    /* in the life of the array; 0: 1 */
  const char* name; /* in messages; NULL: "array" */
  int replica_per;  /* SMELT_REPLICA_PER_*; arrays shared by processes: per NUMA node alone */
} smelt_array_options;

/* `count` elements of `element_bytes` bytes; options may be NULL. All pages are there afterwards, but those of first
 * touch. Errors: SMELT_INVALID_ARGUMENT, SMELT_OUT_OF_MEMORY; with strict, SMELT_PERMISSION_DENIED and SMELT_IO_ERROR,
 * too. */
int smelt_array_create(size_t count, size_t element_bytes, const smelt_array_options* options, smelt_array** array);

/* The same, with parts and replicas for the ranks of a communicator of threads. */
int smelt_array_create_on(const smelt_communicator* communicator, size_t count, size_t element_bytes,
                          const smelt_array_options* options, smelt_array** array);

/* Shared by processes, one rank each, at the same address in all where that can be had: a collective call. */
int smelt_array_create_shared(smelt_rank* rank, const char* name, size_t count, size_t element_bytes,
                              const smelt_array_options* options, smelt_array** array);

void smelt_array_free(smelt_array* array);

/* Elements; copies (1, or one per NUMA node or last-level cache); parts. 0 for NULL. */
size_t smelt_array_count(const smelt_array* array);
int smelt_array_copies(const smelt_array* array);
int smelt_array_parts(const smelt_array* array);

/* The elements, of replicas the first copy; those nearest to the calling thread, valid as long as the array; those of
 * one copy. NULL for NULL and for a copy that is not there. */
void* smelt_array_data(const smelt_array* array);
void* smelt_array_local(const smelt_array* array);
void* smelt_array_copy(const smelt_array* array, int copy);

/* Part `part`: elements *first to *last - 1, on *numa_node. The pointers may be NULL. */
int smelt_array_part(const smelt_array* array, int part, size_t* first, size_t* last, int* numa_node);

/* Sets all copies, by threads on their NUMA nodes: to one element, or to count elements. Return when it is done. */
int smelt_array_fill(smelt_array* array, const void* element);
int smelt_array_copy_from(smelt_array* array, const void* elements);

/* The same without waiting for the end: until then, `elements` must stay valid and the array must not be used. One
 * thread uses a transfer. test: *done is not 0 once all is written, which the caller then sees. free: waits for that,
 * too. */
typedef struct smelt_transfer smelt_transfer;
int smelt_array_start_fill(smelt_array* array, const void* element, smelt_transfer** transfer);
int smelt_array_start_copy_from(smelt_array* array, const void* elements, smelt_transfer** transfer);
int smelt_transfer_test(smelt_transfer* transfer, int* done);
int smelt_transfer_wait(smelt_transfer* transfer);
void smelt_transfer_free(smelt_transfer* transfer);

/* Element k of `to` = element indices[k] of the nearest copy, for k < count: random places in an array that is larger
 * than the caches. Places are requested ahead, so that more reads overlap than in a plain loop. Indices are unsigned
 * integers of `index_bytes` bytes, 4 or 8. No element is copied if an index is not below the array's count, which is
 * SMELT_INVALID_ARGUMENT. No system calls, no allocation. */
int smelt_array_take(const smelt_array* array, const void* indices, int index_bytes, size_t count, void* to);

/* A loop over an array in pieces of at most `grain` elements: every worker takes those of its own part first, then
 * those of other parts, near ones first. One object per loop and run, shared by all workers; the array may be freed
 * before it. next: 1, and elements *first to *last - 1 for the worker of `part`, each of them to exactly one caller; 0
 * if none is left, or there is no such part. Does not synchronize workers. */
typedef struct smelt_stealing_loop smelt_stealing_loop;
int smelt_stealing_loop_create(const smelt_array* array, size_t grain, smelt_stealing_loop** loop);
int smelt_stealing_loop_next(smelt_stealing_loop* loop, int part, size_t* first, size_t* last);
void smelt_stealing_loop_free(smelt_stealing_loop* loop);

/* Where the pages of a copy lie: *count nodes (at most `capacity` of them are written to nodes and bytes), bytes that
 * are not in memory, bytes in huge pages. The last two may be NULL. */
int smelt_array_where(const smelt_array* array, int copy, int capacity, int* nodes, uint64_t* bytes, int* count,
                      uint64_t* absent_bytes, uint64_t* huge_bytes);

/* Collectives of all ranks that use replicas. sync: every copy gets all copies combined, element by element (of
 * smelt_type `type`, by smelt_op `op`). publish: elements first to last - 1, as this rank wrote them to its near copy,
 * go to all copies. */
int smelt_array_sync(smelt_rank* rank, smelt_array* array, smelt_type type, smelt_op op);
int smelt_array_publish(smelt_rank* rank, smelt_array* array, size_t first, size_t last);

/* Placement, pages, and what could not be had, lines of text; cut to `capacity` bytes with the final zero. */
int smelt_array_explain(const smelt_array* array, char* text, size_t capacity);

#ifdef __cplusplus
}
#endif

#include <smelt/former_names.h>

#endif
