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

/* Zero-initialize, then set what differs from the default. */
typedef struct smelt_options {
  const char* topology;  /* NULL: "best" */
  const char* barrier;   /* NULL: the model's choice; "tree", "dissemination", "flat" */
  const char* wait;      /* NULL: SMELT_WAIT; "spin", "yield", "sleep", "auto" */
  double timeout_s;      /* 0: SMELT_TIMEOUT; negative: never */
  double search_ms;      /* 0: 20 ms per operation; negative: construction alone */
  int keep_affinity;     /* not 0: do not pin the threads of the ranks */
  const char* algorithm; /* NULL: the best ones; else a recipe, such as "allreduce_slices+direct" */
  const char* profile;   /* NULL: the cached one of this machine, if it fits; a file; "none" */
  int revalidate;        /* threads: 1: look whether the profile still holds; -1: no; 0: SMELT_REVALIDATE */
  const double* late_ns; /* NULL: all ranks come at once; else how much later than the first each one comes */
  size_t late_count;     /* length of late_ns: the number of ranks */
  const int* pus;        /* processes: os_index of each rank's PU, where ranks are bound already; else NULL */
  size_t pu_count;       /* length of pus: the number of ranks */
  int any_thread;        /* processes: not 0: the threads of a process take turns as the rank, and the end of
                            a thread is no death */
  /* Called by a rank that waits, on its thread: about every 20 us, and every 200 us while it sleeps. For a
   * library that makes progress only when it is called. May call no collective of the same rank. */
  void (*idle)(void* context);
  void* idle_context;
} smelt_options;

/* A communicator of `ranks` ranks on the PUs os_indices (a PU may repeat). os_indices NULL: one
 * rank per core that may be used (ranks <= 0), or that many ranks. machine NULL: the cached model
 * of this machine, else its topology with assumed costs. options NULL: defaults. */
int smelt_communicator_create(const smelt_machine* machine, const int* os_indices, int ranks,
                              const smelt_options* options, smelt_communicator** communicator);

/* A communicator over processes of one user: the others call the same with the same name and size.
 * This process brings rank `rank`, which one of its threads then takes by smelt_communicator_attach
 * or _run. Returns when all ranks are there, and the name (1 to 200 bytes without '/') is free again.
 * Fork first, then create. Machine and plans are those of the process that came first.
 * Errors: name, size, rank; SMELT_PERMISSION_DENIED (somebody else's segment); SMELT_TIMED_OUT (ranks
 * have not come within timeout_s, or 60 s); SMELT_BROKEN (one died). See docs/reference/processes.md. */
int smelt_communicator_create_shared(const char* name, int size, int rank, const smelt_options* options,
                                     smelt_communicator** communicator);

/* The same for a process that brings the `count` ranks ranks[0 .. count-1], one thread each. */
int smelt_communicator_create_shared_ranks(const char* name, int size, const int* ranks, int count,
                                           const smelt_options* options, smelt_communicator** communicator);

/* The same over a descriptor of shared memory, such as a memfd, that all processes have. Good for one
 * communicator; it stays the caller's, who may close it afterwards. */
int smelt_communicator_create_shared_fd(int fd, int size, const int* ranks, int count, const smelt_options* options,
                                        smelt_communicator** communicator);

/* Ranks that are still attached keep working; those that are not have left. */
void smelt_communicator_free(smelt_communicator* communicator);

int smelt_communicator_size(const smelt_communicator* communicator);

/* Runs f(rank, context) in one pinned thread per rank and waits for all; the caller is rank 0, or the
 * first of the ranks that this process brings. */
int smelt_communicator_run(smelt_communicator* communicator, void (*f)(smelt_rank* rank, void* context),
                           void* context);

/* Makes the calling thread rank `rank`, until smelt_rank_free: then the rank has left, once what was started on it is
 * over, and whoever waits for it, or calls what needs it, gets SMELT_BROKEN. What it has taken part in before is finished by
 * the others as ever. A rank may be attached again; see docs/reference/processes.md. */
int smelt_communicator_attach(smelt_communicator* communicator, int rank, smelt_rank** attached);
void smelt_rank_free(smelt_rank* rank);

int smelt_rank_number(const smelt_rank* rank);
int smelt_rank_size(const smelt_rank* rank);

/* A communicator of `members` (ranks of this one, in the new order, the caller among them); called
 * by exactly the members. Free the handle with smelt_rank_free. */
int smelt_rank_subgroup(smelt_rank* rank, const int* members, int count, smelt_rank** subgroup);

/* After a rank has died or left (SMELT_BROKEN): a communicator of the survivors, in the same order, planned
 * anew. Called by every survivor; all get the same group. Who dies meanwhile breaks the new one: shrink
 * that again. The old handle is of no more use; free both with smelt_rank_free.
 * Errors: SMELT_TIMED_OUT if this rank came after the others had gone on without it. */
int smelt_rank_shrink(smelt_rank* rank, smelt_rank** survivor);

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

/* Blocks of block_bytes. scatter: block r of `in`, on the root, becomes `out` of rank r. gather: `in` of
 * rank r becomes block r of `out`, on the root; allgather: on every rank. alltoall: block i of `in` goes
 * to rank i, block i of `out` comes from rank i. In place: the rank's own block of the larger buffer is
 * the smaller one; for alltoall out == in. What only the root looks at may be NULL elsewhere. */
int smelt_scatter(smelt_rank* rank, const void* in, void* out, size_t block_bytes, int root);
int smelt_gather(smelt_rank* rank, const void* in, void* out, size_t block_bytes, int root);
int smelt_allgather(smelt_rank* rank, const void* in, void* out, size_t block_bytes);
int smelt_alltoall(smelt_rank* rank, const void* in, void* out, size_t block_bytes);

/* Blocks of different sizes: block i has counts[i] bytes and begins offsets[i] bytes into its buffer.
 * `bytes`: of this rank's own block. scatterv and gatherv look at counts and offsets on the root alone.
 * alltoallv: out_counts[i] is what rank i has for this one in its in_counts. */
int smelt_scatterv(smelt_rank* rank, const void* in, const size_t* counts, const size_t* offsets, void* out,
                   size_t bytes, int root);
int smelt_gatherv(smelt_rank* rank, const void* in, size_t bytes, void* out, const size_t* counts,
                  const size_t* offsets, int root);
int smelt_allgatherv(smelt_rank* rank, const void* in, size_t bytes, void* out, const size_t* counts,
                     const size_t* offsets);
int smelt_alltoallv(smelt_rank* rank, const void* in, const size_t* in_counts, const size_t* in_offsets, void* out,
                    const size_t* out_counts, const size_t* out_offsets);

/* `in` is one block of `count` elements per rank; out = block r of all ranks, combined. In place:
 * out == in, the result stands at the front. */
int smelt_reduce_scatter(smelt_rank* rank, const void* in, void* out, size_t count, smelt_type type, smelt_op op);

/* out = in of ranks 0 .. r combined; exscan: of ranks 0 .. r-1, and rank 0's `out` is left alone. */
int smelt_scan(smelt_rank* rank, const void* in, void* out, size_t count, smelt_type type, smelt_op op);
int smelt_exscan(smelt_rank* rank, const void* in, void* out, size_t count, smelt_type type, smelt_op op);

/* ---- exact sums ---------------------------------------------------------------------------- */

/* A sum of floating-point numbers that has not been rounded yet: the same numbers give the same bytes, in any
 * order, grouping and number of ranks (docs/how-to/get-the-same-bits.md). A plain value to be copied, sent and reduced
 * as 280 bytes; zero-initialize it: the empty sum. Looked at by the functions below alone. */
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

/* *total = the sum of values[0 .. count-1] of all ranks, rounded once, on every rank: the same bits however
 * the values are spread over however many ranks. `count` may differ per rank. */
int smelt_sum_exactly(smelt_rank* rank, const double* values, size_t count, double* total);

/* out[i] = the sum of in[i] over all ranks, rounded once, on every rank. `out` may equal `in`. */
int smelt_allreduce_exactly(smelt_rank* rank, const double* in, double* out, size_t count);

/* ---- any collective, as a value ------------------------------------------------------------ */

/* When data may move. */
typedef enum smelt_sync {
  SMELT_LOOSE = 0, /* as soon as any rank is in, until the last is out: as in MPI */
  SMELT_STRICT = 1 /* as if a barrier stood before and after */
} smelt_sync;

/* Zero-initialize, then set what differs from the default. What `in` and `out` hold: as in the functions
 * above; `out` is the data of a broadcast and the proposal of a two-phase commit. */
typedef struct smelt_call {
  smelt_operation operation;
  smelt_sync sync;
  const void* in;
  void* out;
  size_t count;          /* elements: of the vector, or of this rank's block */
  int root;
  smelt_type type;       /* of an element; 0: bytes */
  smelt_op op;           /* 0: the sum */
  size_t element_bytes;  /* not 0: of an element, in place of `type` */
  smelt_combine combine; /* not NULL: the operator, in place of `op` */
  void* context;         /* for combine */
  int commutative;       /* of combine; 0: operands are combined in rank order */
  int reproducible;      /* not 0: the same bits whatever the algorithm; see docs/how-to/get-the-same-bits.md */
  /* Blocks of different sizes, in elements. in: of scatterv (on the root), alltoallv and reduce_scatterv.
   * out: of gatherv (on the root), allgatherv and alltoallv. No other operation takes any. */
  const size_t* in_counts;
  const size_t* in_offsets;
  const size_t* out_counts;
  const size_t* out_offsets;
  int (*vote)(const void* proposal, void* context); /* of two-phase commit; not 0: yes */
  void* vote_context;
  int* committed;
  /* A hint, not 0: what is given has not been written lately, and results are not read soon, so that a copy between the
   * buffers of two ranks costs little. Results are the same as without it, but for the order in which operands are
   * combined. */
  int at_rest;
} smelt_call;

/* Runs it to its end. */
int smelt_run(smelt_rank* rank, const smelt_call* call);

/* A collective that has been started, or prepared to be started. What the call points to stays valid
 * until smelt_request_free; the buffers are smelt's from a start until test or wait says that it is over.
 * Collectives of one rank run in the order of their starts; a blocking one waits for those before it.
 * Progress is made inside of smelt's calls on the rank or any of its requests. */
typedef struct smelt_request smelt_request;

/* Starts it. Errors, without a request: SMELT_INVALID_ARGUMENT; SMELT_NOT_SUPPORTED (operators that demand an order, on
 * elements too large for the stages). How the collective ends, test and wait tell. */
int smelt_start(smelt_rank* rank, const smelt_call* call, smelt_request** request);

/* Only prepares it, to be started any number of times. */
int smelt_prepare(smelt_rank* rank, const smelt_call* call, smelt_request** request);

/* Starts it (again). Errors: SMELT_INVALID_ARGUMENT while it is under way. Does not allocate. */
int smelt_request_start(smelt_request* request);

/* Runs it to its end on these buffers, which it keeps: smelt_run of the same call, less what does not depend on the
 * buffers. NULL where the prepared buffer was NULL, and nowhere else. Errors: as smelt_request_start. */
int smelt_request_run(smelt_request* request, const void* in, void* out);

/* Does what can be done without waiting. *done = 1: it is over, and its status is returned; else 0. */
int smelt_request_test(smelt_request* request, int* done);

/* Waits until it is over and returns its status; at once if it is not under way. */
int smelt_request_wait(smelt_request* request);

/* Waits if it is under way. */
void smelt_request_free(smelt_request* request);

/* ---- counted barriers --------------------------------------------------------------------------------- */

/* A barrier of any threads: it knows how many make a round, not which ones, and needs no communicator. It lives in
 * the caller's memory, which processes may share and map anywhere. More threads than a round needs may come; they
 * count for the next one. What any thread of a round did before it arrived is visible to all after they passed.
 * None of these calls is a cancellation point. */
typedef struct smelt_counted_barrier {
  unsigned long long opaque[2];
} smelt_counted_barrier;

/* What a thread holds between arriving and passing. Rounds are numbered from 0, modulo 2^31; `last` is 1 for
 * exactly one thread of each. */
typedef struct smelt_counted_barrier_ticket {
  unsigned round;
  unsigned last;
} smelt_counted_barrier_ticket;

enum { SMELT_COUNTED_BARRIER_LAST = 1 };

/* `count` threads make a round, 1 to 2^30. Before any other call on it. Errors: SMELT_INVALID_ARGUMENT. */
int smelt_counted_barrier_init(smelt_counted_barrier* barrier, unsigned count);

/* The same for threads of the calling process alone, which are woken sooner. */
int smelt_counted_barrier_init_private(smelt_counted_barrier* barrier, unsigned count);

/* Waits for the round to be complete. Returns SMELT_COUNTED_BARRIER_LAST to exactly one thread, SMELT_OK to the others;
 * SMELT_BROKEN if it will not be, as a thread has left (smelt_counted_barrier_leave). */
int smelt_counted_barrier_wait(smelt_counted_barrier* barrier);

/* The same in two steps: arrive counts the caller in and does not wait; pass waits. Every ticket is passed
 * once, by the thread that arrived: without the last one's pass nobody passes. */
smelt_counted_barrier_ticket smelt_counted_barrier_arrive(smelt_counted_barrier* barrier);
int smelt_counted_barrier_pass(smelt_counted_barrier* barrier, smelt_counted_barrier_ticket ticket);

/* One of the threads that rounds count on will not come any more; called by that thread, or by one that knows. Rounds
 * that are complete are passed by all. Who waits in one that is not, and who comes from now on, is told SMELT_BROKEN, in
 * any process that maps the barrier: it cannot be used any more, only destroyed. */
void smelt_counted_barrier_leave(smelt_counted_barrier* barrier);

/* May be called as soon as the caller has passed, while others still return from the same round; when it returns,
 * nobody touches the barrier any more. SMELT_INVALID_ARGUMENT, at once: somebody waits for a round that is not
 * complete. */
int smelt_counted_barrier_destroy(smelt_counted_barrier* barrier);

/* ---- teams ---------------------------------------------------------------------------------- */

/* Threads that somebody else has started, numbered 0 .. size-1, that work in regions which member 0 opens and
 * closes. Unlike a communicator a team pins nobody, plans nothing, and can hand a barrier back: a runtime whose own
 * barrier does more (runs tasks, say) calls the phase off, and all members meet in the runtime's. Each barrier and
 * each end of a region is a phase; all members go through the same ones in the same order. */
typedef struct smelt_team smelt_team;

/* What a region is about; a NULL function dismisses the team. */
typedef struct smelt_work {
  void (*function)(void* data);
  void* data;
} smelt_work;

/* `size` members (2 .. 4096) of which `parallelism` (>= 1) can run at a time. A member that waits stays awake for
 * about `awake_s` seconds (0: as the load suggests; negative: for ever) before it sleeps. Errors: SMELT_INVALID_ARGUMENT,
 * SMELT_OUT_OF_MEMORY. */
int smelt_team_create(int size, int parallelism, double awake_s, smelt_team** team);

/* No member may be inside of a call. */
void smelt_team_free(smelt_team* team);

/* As newly created. No member may be inside of a call, and all must learn of it by something that synchronizes. */
void smelt_team_reset(smelt_team* team);

/* Not 0: every member has entered. 0: the phase was called off. */
int smelt_team_barrier(smelt_team* team, int member);

/* The phase that this member enters next, and all later ones until the team is reset, are not held here: whoever
 * waits in one or comes to one returns 0. */
void smelt_team_call_off(smelt_team* team, int member);

/* Not 0: a phase was called off. */
int smelt_team_called_off(const smelt_team* team);

/* This member will not come any more, though others may wait for it: calls its next phase off, for good, so that nobody
 * waits for it. Phases that it has entered are passed by all. */
void smelt_team_leave(smelt_team* team, int member);

/* The member that has left first since the team was reset, -1 if none has. Says it to whoever was told that a phase was
 * called off. */
int smelt_team_left(const smelt_team* team);

/* Not 0 for exactly one member of those that call this for the n-th time, the first to come; all members call it
 * equally often. What that member does is seen by the others after the next barrier. */
int smelt_team_claim(smelt_team* team, int member);

/* A word by which members hand each other something between two barriers; cheaper than one elsewhere. */
void** smelt_team_handed(smelt_team* team);

/* Member 0 opens a region; `work` is what the others receive. */
void smelt_team_fork(smelt_team* team, smelt_work work);

/* The same; work.data points to `words` (1 .. SMELT_TEAM_WORDS) words of the size of a pointer. The others receive a
 * copy, good until the region ends, which comes to them with the region; memory of member 0's they would have to fetch.
 */
#define SMELT_TEAM_WORDS 5
void smelt_team_fork_copied(smelt_team* team, smelt_work work, int words);

/* Member 0 closes it: waits until the others have left. 0: the phase was called off. */
int smelt_team_join(smelt_team* team);

/* The other members: waits for the next region, after leaving the last one, if any. A NULL function: the team is
 * dismissed, or the end of the last region was called off. */
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

/* Algorithms: arrays have an element per node; `threads` of 0 is one per PU that the process may use. SMELT_INVALID_ARGUMENT:
 * a node that is not there, or a graph that does not fit; SMELT_OUT_OF_MEMORY. */

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

#ifdef __cplusplus
}
#endif

#endif
