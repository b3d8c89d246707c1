/* Processes count in a map that they share. One is killed while it counts; the others go on, and nothing is lost. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <smelt/smelt.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { processes = 4, rounds = 100000 };

static int count(const char* name, int kill_me) {
  smelt_map* counters;
  const uint64_t key = 1;
  if (smelt_map_create_shared(name, sizeof key, sizeof(int64_t), 10, 0, &counters) != SMELT_OK) return 1;
  for (int i = 0; i < rounds; ++i) {
    if (smelt_map_fetch_add(counters, &key, 1, NULL) != SMELT_OK) return 1;
    if (kill_me && i == rounds / 2) raise(SIGKILL);
  }
  smelt_map_free(counters);
  return 0;
}

int main(void) {
  char name[40];
  smelt_map* counters;
  int64_t total = 0;
  const uint64_t key = 1;
  snprintf(name, sizeof name, "counter-%d", (int)getpid());
  if (smelt_map_create_shared(name, sizeof key, sizeof total, 10, 0, &counters) != SMELT_OK) {
    puts(smelt_last_error());
    return 1;
  }
  for (int i = 0; i < processes; ++i) {
    if (fork() == 0) _exit(count(name, i == 0));
  }
  int status, good = 0;
  while (wait(&status) > 0) good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
  smelt_map_get(counters, &key, &total);
  smelt_map_free(counters);
  printf("%d processes were killed, the counter is %lld\n", processes - good, (long long)total);
  return good == processes - 1 && total == (processes - 1) * rounds + rounds / 2 + 1 ? 0 : 1;
}
