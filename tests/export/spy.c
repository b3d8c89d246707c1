/* Writes the names of the algorithms that an MPI library calls, each once per process, to stderr: "spy NAME".
 *
 * Open MPI: preloaded; the decision component looks these functions up by name, and finds ours first.
 * MPICH:    linked into a program together with the static library, with --wrap for each function.
 *
 * All arguments are integers and pointers, so passing on as many words as the longest list has is enough.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

typedef long word;
typedef word (*function)(word, word, word, word, word, word, word, word, word, word, word, word);

#define PARAMETERS word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k, word l
#define ARGUMENTS a, b, c, d, e, f, g, h, i, j, k, l

static void note(const char* name, int* known) {
  if (*known) return;
  *known = 1;
  fprintf(stderr, "spy %s\n", name);
}

#ifdef SPY_WRAP
#define SPY(name)                    \
  word __real_##name(PARAMETERS);    \
  word __wrap_##name(PARAMETERS) {   \
    static int known;                \
    note(#name, &known);             \
    return __real_##name(ARGUMENTS); \
  }
SPY(MPIR_Bcast_intra_binomial)
SPY(MPIR_Bcast_intra_scatter_ring_allgather)
SPY(MPIR_Bcast_intra_scatter_recursive_doubling_allgather)
SPY(MPIR_Allreduce_intra_recursive_doubling)
SPY(MPIR_Allreduce_intra_reduce_scatter_allgather)
SPY(MPIR_Reduce_intra_binomial)
SPY(MPIR_Reduce_intra_reduce_scatter_gather)
SPY(MPIR_Allgather_intra_brucks)
SPY(MPIR_Allgather_intra_ring)
SPY(MPIR_Allgather_intra_recursive_doubling)
SPY(MPIR_Alltoall_intra_brucks)
SPY(MPIR_Alltoall_intra_pairwise)
SPY(MPIR_Alltoall_intra_scattered)
#else
#define SPY(name)                                                          \
  word ompi_coll_base_##name(PARAMETERS) {                                 \
    static int known;                                                      \
    static function real;                                                  \
    if (!real) real = (function)dlsym(RTLD_NEXT, "ompi_coll_base_" #name); \
    note(#name, &known);                                                   \
    return real(ARGUMENTS);                                                \
  }
SPY(bcast_intra_basic_linear)
SPY(bcast_intra_chain)
SPY(bcast_intra_pipeline)
SPY(bcast_intra_bintree)
SPY(bcast_intra_binomial)
SPY(bcast_intra_knomial)
SPY(bcast_intra_scatter_allgather)
SPY(bcast_intra_scatter_allgather_ring)
SPY(allreduce_intra_recursivedoubling)
SPY(allreduce_intra_ring)
SPY(allreduce_intra_ring_segmented)
SPY(allreduce_intra_redscat_allgather)
SPY(reduce_intra_basic_linear)
SPY(reduce_intra_chain)
SPY(reduce_intra_pipeline)
SPY(reduce_intra_binary)
SPY(reduce_intra_binomial)
SPY(reduce_intra_redscat_gather)
SPY(allgather_intra_bruck)
SPY(allgather_intra_ring)
SPY(allgather_intra_recursivedoubling)
SPY(allgather_intra_two_procs)
SPY(alltoall_intra_basic_linear)
SPY(alltoall_intra_pairwise)
SPY(alltoall_intra_bruck)
SPY(alltoall_intra_linear_sync)
SPY(alltoall_intra_two_procs)
#endif
