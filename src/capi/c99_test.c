/* What a caller in C99 writes: every name of the header, compiled with -std=c99 -pedantic-errors. */
#include <string.h>

#include "smelt/smelt.h"

#define CHECK(condition)               \
  do {                                 \
    if (!(condition)) return __LINE__; \
  } while (0)

static int says_yes(const void* proposal, void* context) {
  (void)context;
  return *(const char*)proposal == 'p';
}

/* 0, or the line that is wrong. */
static int blocks_of_equal_size(smelt_rank* rank) {
  const int me = smelt_rank_number(rank), size = smelt_rank_size(rank);
  int all[16], block = -1, turned[16];
  for (int i = 0; i < size; ++i) all[i] = 100 * me + i;
  CHECK(smelt_scatter(rank, all, &block, sizeof block, 1) == SMELT_OK && block == 100 + me);
  CHECK(smelt_gather(rank, &me, turned, sizeof me, 2) == SMELT_OK);
  for (int i = 0; me == 2 && i < size; ++i) CHECK(turned[i] == i);
  CHECK(smelt_allgather(rank, &me, turned, sizeof me) == SMELT_OK);
  for (int i = 0; i < size; ++i) CHECK(turned[i] == i);
  CHECK(smelt_alltoall(rank, all, turned, sizeof block) == SMELT_OK);
  for (int i = 0; i < size; ++i) CHECK(turned[i] == 100 * i + me);
  CHECK(smelt_reduce_scatter(rank, all, &block, 1, SMELT_INT32, SMELT_SUM) == SMELT_OK);
  CHECK(block == 100 * (size * (size - 1) / 2) + size * me);
  CHECK(smelt_scan(rank, &me, &block, 1, SMELT_INT32, SMELT_SUM) == SMELT_OK && block == me * (me + 1) / 2);
  block = -7;
  CHECK(smelt_exscan(rank, &me, &block, 1, SMELT_INT32, SMELT_SUM) == SMELT_OK);
  CHECK(block == (me == 0 ? -7 : me * (me - 1) / 2));
  return 0;
}

/* 4 ranks. */
static int exact_sums(smelt_rank* rank) {
  smelt_exact_sum mine = {{0}}, exact;
  const double size = smelt_rank_size(rank), wanted = size * size / 2;
  const double parts[] = {1e300, smelt_rank_number(rank) + 0.5, -1e300};
  double sum = 0;
  smelt_exact_add(&mine, parts, 3);
  CHECK(smelt_allreduce_user(rank, &mine, &exact, 1, sizeof mine, smelt_exact_combine, NULL, 1) == SMELT_OK);
  CHECK(smelt_exact_double(&exact) == wanted && smelt_exact_float(&exact) == (float)wanted);
  CHECK(smelt_sum_exactly(rank, parts, 3, &sum) == SMELT_OK && sum == wanted);
  CHECK(smelt_allreduce_exactly(rank, parts + 1, &sum, 1) == SMELT_OK && sum == wanted);
  CHECK(smelt_sum_exactly(NULL, parts, 3, &sum) == SMELT_INVALID_ARGUMENT);
  return 0;
}

/* Rank r has r + 1 bytes, one after the other. */
static int blocks_of_different_size(smelt_rank* rank) {
  const int me = smelt_rank_number(rank), size = smelt_rank_size(rank);
  const size_t own = (size_t)me + 1;
  size_t counts[16], offsets[16], same[16], even[16], total = 0;
  char mine[16], all[256], got[256];
  for (int i = 0; i < size; ++i) {
    counts[i] = (size_t)i + 1;
    offsets[i] = total;
    total += counts[i];
    same[i] = own;
    even[i] = (size_t)i * own;
  }
  memset(mine, 'a' + me, sizeof mine);
  memset(all, 0, sizeof all);
  CHECK(smelt_allgatherv(rank, mine, own, all, counts, offsets) == SMELT_OK);
  for (int i = 0; i < size; ++i) CHECK(all[offsets[i]] == 'a' + i && all[offsets[i] + counts[i] - 1] == 'a' + i);
  memset(got, 0, sizeof got);
  CHECK(smelt_scatterv(rank, me == 1 ? all : NULL, me == 1 ? counts : NULL, me == 1 ? offsets : NULL, got, own, 1) ==
        SMELT_OK);
  CHECK(memcmp(got, mine, own) == 0 && got[own] == 0);
  memset(got, 0, sizeof got);
  CHECK(smelt_gatherv(rank, mine, own, me == 0 ? got : NULL, me == 0 ? counts : NULL, me == 0 ? offsets : NULL, 0) ==
        SMELT_OK);
  CHECK(me != 0 || memcmp(got, all, total) == 0);
  /* Rank r sends i + 1 of its letters to each rank i, and gets r + 1 from each. */
  memset(all, 'a' + me, sizeof all);
  CHECK(smelt_alltoallv(rank, all, counts, offsets, got, same, even) == SMELT_OK);
  for (int i = 0; i < size; ++i) CHECK(got[even[i]] == 'a' + i && got[even[i] + own - 1] == 'a' + i);
  return 0;
}

static int calls_as_values(smelt_rank* rank) {
  const int me = smelt_rank_number(rank), size = smelt_rank_size(rank);
  int committed = -1, done = 0, status;
  char proposal[2] = {0, 0};
  double half = 0.5 * me, sum = 0;
  smelt_call commit = {0}, add = {0};
  smelt_request* request = NULL;
  if (me == 2) proposal[0] = 'p';
  commit.operation = SMELT_TWO_PHASE_COMMIT;
  commit.out = proposal;
  commit.count = sizeof proposal;
  commit.root = 2;
  commit.vote = says_yes;
  commit.committed = &committed;
  CHECK(smelt_run(rank, &commit) == SMELT_OK && committed == 1 && proposal[0] == 'p');
  committed = -1;
  CHECK(smelt_start(rank, &commit, &request) == SMELT_OK);
  CHECK(smelt_request_wait(request) == SMELT_OK && committed == 1);
  smelt_request_free(request);
  add.operation = SMELT_ALLREDUCE;
  add.sync = SMELT_STRICT;
  add.in = &half;
  add.out = &sum;
  add.count = 1;
  add.type = SMELT_DOUBLE;
  add.reproducible = 1;
  CHECK(smelt_prepare(rank, &add, &request) == SMELT_OK);
  for (int turn = 1; turn <= 3; ++turn) {
    half = turn * 0.5 * me;
    CHECK(smelt_request_start(request) == SMELT_OK);
    do {
      status = smelt_request_test(request, &done);
    } while (!done);
    CHECK(status == SMELT_OK && sum == turn * 0.25 * size * (size - 1));
  }
  smelt_request_free(request);
  return 0;
}

int c99_collectives(smelt_rank* rank);
int c99_collectives(smelt_rank* rank) {
  int wrong = blocks_of_equal_size(rank);
  if (wrong == 0) wrong = blocks_of_different_size(rank);
  if (wrong == 0) wrong = exact_sums(rank);
  if (wrong == 0) wrong = calls_as_values(rank);
  return wrong;
}

/* Values that no enum has, which only C can hold without further ado. */
int c99_bad_enums(smelt_rank* rank);
int c99_bad_enums(smelt_rank* rank) {
  int in = 0, out = 0;
  smelt_request* request = NULL;
  for (int which = 0; which < 4; ++which) {
    smelt_call call = {0};
    call.operation = which == 0 ? (smelt_operation)99 : SMELT_ALLREDUCE;
    call.sync = which == 1 ? (smelt_sync)99 : SMELT_LOOSE;
    call.type = which == 2 ? (smelt_type)99 : SMELT_INT32;
    call.op = which == 3 ? (smelt_op)99 : SMELT_SUM;
    call.in = &in;
    call.out = &out;
    call.count = 1;
    CHECK(smelt_run(rank, &call) == SMELT_INVALID_ARGUMENT);
    CHECK(strncmp(smelt_last_error(), "smelt_run: no", 13) == 0);
    CHECK(smelt_start(rank, &call, &request) == SMELT_INVALID_ARGUMENT && request == NULL);
    CHECK(strncmp(smelt_last_error(), "smelt_start: no", 15) == 0);
    CHECK(smelt_prepare(rank, &call, &request) == SMELT_INVALID_ARGUMENT && request == NULL);
  }
  CHECK(smelt_allreduce(rank, &in, &out, 1, (smelt_type)99, SMELT_SUM) == SMELT_INVALID_ARGUMENT);
  CHECK(strstr(smelt_last_error(), "operator") != NULL);
  CHECK(smelt_scan(rank, &in, &out, 1, SMELT_INT32, (smelt_op)99) == SMELT_INVALID_ARGUMENT);
  return 0;
}
