/* Four processes work together, one is killed, the others go on without it. Each counts, by an allreduce,
 * how many have come through a round. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <smelt/smelt.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { size = 4, rounds = 1000, victim = 2, last_round_of_victim = 500 };

/* A communicator of those that live, in place of `*member`; all agree on the round to go on with. */
static int go_on_without_the_dead(smelt_rank** member, int* round) {
  char who[200];
  smelt_rank* survivor = NULL;
  smelt_rank_failure(*member, who, sizeof who);
  const int status = smelt_rank_shrink(*member, &survivor);
  if (status != SMELT_OK) return status;
  smelt_rank_free(*member);
  *member = survivor;
  if (smelt_rank_number(survivor) == 0) printf("%s; %d go on\n", who, smelt_rank_size(survivor));
  /* A round may be over for some and have failed for others. */
  return smelt_allreduce(survivor, round, round, 1, SMELT_INT32, SMELT_MIN);
}

static int work(const char* name, int rank) {
  smelt_communicator* communicator = NULL;
  smelt_rank* member = NULL;
  int status = smelt_communicator_create_shared(name, size, rank, NULL, &communicator);
  if (status == SMELT_OK) status = smelt_communicator_attach(communicator, rank, &member);
  int present = 0;
  for (int round = 0; status == SMELT_OK && round < rounds;) {
    if (rank == victim && round == last_round_of_victim) raise(SIGKILL);
    const int one = 1;
    status = smelt_allreduce(member, &one, &present, 1, SMELT_INT32, SMELT_SUM);
    if (status == SMELT_OK) {
      ++round;
    } else if (status == SMELT_BROKEN) {
      status = go_on_without_the_dead(&member, &round);
    }
  }
  if (status != SMELT_OK) fprintf(stderr, "rank %d: %s %s\n", rank, smelt_status_string(status), smelt_last_error());
  smelt_rank_free(member);
  smelt_communicator_free(communicator);
  return status == SMELT_OK && present == size - 1 ? 0 : 1;
}

int main(void) {
  char name[32];
  pid_t children[size];
  int good = 0;
  snprintf(name, sizeof name, "example-%ld", (long)getpid());
  for (int rank = 0; rank < size; ++rank) {
    children[rank] = fork(); /* first fork, then create the communicator */
    if (children[rank] == 0) return work(name, rank);
  }
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    good += rank == victim ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  printf("%d of %d processes ended as they should\n", good, (int)size);
  return good == size ? 0 : 1;
}
