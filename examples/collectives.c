/* The C interface: a configuration is broadcast, a range reduced with a user's operator, and a
 * decision taken by two-phase commit. */
#include <smelt/smelt.h>
#include <stdio.h>

typedef struct {
  long low, high; /* of what was seen so far */
} range;

static void widen(void* accumulator, const void* operand, size_t count, void* context) {
  range* to = accumulator;
  const range* from = operand;
  (void)context;
  for (size_t i = 0; i < count; ++i) {
    if (from[i].low < to[i].low) to[i].low = from[i].low;
    if (from[i].high > to[i].high) to[i].high = from[i].high;
  }
}

static int is_even(const void* proposal, void* context) {
  (void)context;
  return *(const long*)proposal % 2 == 0;
}

static void work(smelt_rank* rank, void* context) {
  int* wrong = context; /* one entry per rank */
  const int me = smelt_rank_number(rank), size = smelt_rank_size(rank);

  long factor = me == 0 ? 10 : 0;
  smelt_broadcast(rank, &factor, sizeof factor, 0);

  range mine = {factor * me, factor * me};
  range all = {0, 0};
  smelt_allreduce_user(rank, &mine, &all, 1, sizeof mine, widen, NULL, 1);

  int committed = 0;
  smelt_two_phase_commit(rank, &factor, sizeof factor, is_even, NULL, &committed, 0);

  if (smelt_barrier(rank) != SMELT_OK || all.low != 0 || all.high != 10 * (size - 1) || !committed) wrong[me] = 1;
  if (me == 0)
    printf("%d ranks: values from %ld to %ld, %s\n", size, all.low, all.high, committed ? "committed" : "aborted");
}

int main(void) {
  smelt_communicator* communicator = NULL;
  int wrong[3] = {0, 0, 0};
  int status = smelt_communicator_create(NULL, NULL, 3, NULL, &communicator);
  if (status == SMELT_OK) status = smelt_communicator_run(communicator, work, wrong);
  if (status != SMELT_OK) {
    fprintf(stderr, "%s: %s\n", smelt_status_string(status), smelt_last_error());
    return 1;
  }
  smelt_communicator_free(communicator);
  return wrong[0] + wrong[1] + wrong[2];
}
