/* A program in C that uses an installed smelt: ranks sum their numbers. */
#include <smelt/smelt.h>
#include <stdio.h>
#include <string.h>

static void work(smelt_rank* rank, void* context) {
  int* failures = context;
  const double mine = smelt_rank_number(rank) + 1;
  double total = 0;
  if (smelt_allreduce(rank, &mine, &total, 1, SMELT_DOUBLE, SMELT_SUM) != SMELT_OK || total != 3)
    ++failures[smelt_rank_number(rank)];
  if (smelt_barrier(rank) != SMELT_OK) ++failures[smelt_rank_number(rank)];
}

int main(void) {
  smelt_communicator* communicator = NULL;
  int failures[2] = {0, 0};
  int status = smelt_communicator_create(NULL, NULL, 2, NULL, &communicator);
  if (status == SMELT_OK) status = smelt_communicator_run(communicator, work, failures);
  if (status != SMELT_OK) {
    fprintf(stderr, "%s: %s\n", smelt_status_string(status), smelt_last_error());
    return 1;
  }
  smelt_communicator_free(communicator);
  if (strcmp(smelt_version(), "0.1.0") != 0) return 1;
  printf("smelt %s: two ranks agree\n", smelt_version());
  return failures[0] + failures[1];
}
