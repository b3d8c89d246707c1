/* Random uses of barriers, the same for a number. Prints what holds whatever the order of the threads: results, numbers
   of threads that were the serial one, and sums that threads see behind a barrier.

   random_calls NUMBER [STEPS] */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

enum { most_threads = 9 };

typedef struct {
  pthread_barrier_t* barrier;
  atomic_int serial, wrong, signals;
  long parts[most_threads]; /* written by one thread each, read by all behind the barrier */
  int threads, rounds;
  atomic_int destroyed; /* the round's serial thread destroys and initializes it again, or gives it back */
} Team;

typedef struct {
  Team* team;
  int number;
  int cancelled, pause;
} Member;

static uint64_t state;
static int step_number;

static size_t below(size_t bound) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (size_t)(state >> 11) % bound;
}

static void say(const char* what, long result) { printf("%d %s %ld\n", step_number, what, result); }

static void sum_parts(Team* team, int round) {
  for (int i = 0; i < team->threads; ++i) {
    if (team->parts[i] != (long)round * 10 + i) atomic_fetch_add(&team->wrong, 1);
  }
}

/* Two waits a round: behind the first all parts are there, behind the second they may be written again. */
static void take_part(Member* member) {
  Team* const team = member->team;
  for (int round = 0; round < team->rounds; ++round) {
    if (member->pause != 0 && round % member->pause == 0) sched_yield();
    if (member->pause == 1 && round % 16 == 0) usleep(200);
    team->parts[member->number] = (long)round * 10 + member->number;
    for (int i = 0; i < 2; ++i) {
      errno = 77;
      const int result = pthread_barrier_wait(team->barrier);
      if (errno != 77) atomic_fetch_add(&team->wrong, 1);
      if (result == PTHREAD_BARRIER_SERIAL_THREAD) atomic_fetch_add(&team->serial, 1);
      if (result != 0 && result != PTHREAD_BARRIER_SERIAL_THREAD) atomic_fetch_add(&team->wrong, 1);
      if (i == 0) sum_parts(team, round);
    }
  }
}

static void* run(void* argument) {
  Member* const member = argument;
  if (member->cancelled != 0) pthread_cancel(pthread_self());
  take_part(member);
  if (member->cancelled != 0) pthread_testcancel();
  return argument;
}

static int run_c11(void* argument) { return run(argument) != argument; }

static void finish(const Team* team, const char* what) {
  say(what, team->threads);
  say("serial", team->serial);
  say("wrong", team->wrong);
}

/* ---- threads ------------------------------------------------------------------------------------- */

static void some_team(Team* team) {
  team->threads = 1 + (int)below(most_threads);
  team->rounds = 1 + (int)below(below(4) == 0 ? 200 : 30);
}

static pthread_barrier_t* make(unsigned threads, int shared) {
  pthread_barrier_t* const barrier = malloc(sizeof *barrier);
  pthread_barrierattr_t attributes;
  memset(barrier, (int)below(256), sizeof *barrier);
  if (below(3) == 0 && !shared) {
    say("init", pthread_barrier_init(barrier, NULL, threads));
    return barrier;
  }
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, shared ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE);
  say("init", pthread_barrier_init(barrier, &attributes, threads));
  pthread_barrierattr_destroy(&attributes);
  return barrier;
}

static void meet(void) {
  Team team = {0};
  Member members[most_threads];
  pthread_t threads[most_threads];
  some_team(&team);
  team.barrier = make((unsigned)team.threads, (int)below(2));
  const int cancelled = (int)below(4) == 0, pause = (int)below(3);
  int cancellations = 0;
  for (int i = 0; i < team.threads; ++i) {
    members[i] = (Member){&team, i, cancelled, i == 0 && !cancelled ? pause : 0};
    pthread_create(&threads[i], NULL, run, &members[i]);
  }
  for (int i = 0; i < team.threads; ++i) {
    void* result = NULL;
    pthread_join(threads[i], &result);
    cancellations += result == PTHREAD_CANCELED;
  }
  finish(&team, "meet");
  say("cancelled", cancellations);
  say("destroy", pthread_barrier_destroy(team.barrier));
  free(team.barrier);
}

static void meet_c11(void) {
  Team team = {0};
  Member members[most_threads];
  thrd_t threads[most_threads];
  pthread_barrier_t on_stack;
  some_team(&team);
  team.barrier = &on_stack;
  say("init", pthread_barrier_init(&on_stack, NULL, (unsigned)team.threads));
  for (int i = 0; i < team.threads; ++i) {
    members[i] = (Member){&team, i, 0, i};
    thrd_create(&threads[i], run_c11, &members[i]);
  }
  int result = 0, all = 0;
  for (int i = 0; i < team.threads; ++i) thrd_join(threads[i], &result), all += result;
  finish(&team, "meet of C11 threads");
  say("results", all);
  say("destroy", pthread_barrier_destroy(&on_stack));
}

/* One of them destroys the barrier at once when it returns, while others are on their way out, and fills its memory. */
static void* leave(void* argument) {
  Team* const team = argument;
  pthread_barrier_t* const barrier = team->barrier;
  const int result = pthread_barrier_wait(barrier);
  if (result != PTHREAD_BARRIER_SERIAL_THREAD) return NULL;
  atomic_fetch_add(&team->serial, 1);
  if (pthread_barrier_destroy(barrier) != 0) atomic_fetch_add(&team->wrong, 1);
  memset(barrier, 0x5a, sizeof *barrier);
  if (team->rounds % 2 == 0)
    free(barrier);
  else if (pthread_barrier_init(barrier, NULL, 1) != 0 ||
           pthread_barrier_wait(barrier) != PTHREAD_BARRIER_SERIAL_THREAD || pthread_barrier_destroy(barrier) != 0)
    atomic_fetch_add(&team->wrong, 1);
  return NULL;
}

static void destroy_at_once(void) {
  for (int round = 0; round < 6; ++round) {
    Team team = {0};
    pthread_t threads[most_threads];
    team.threads = 1 + (int)below(most_threads), team.rounds = round;
    team.barrier = make((unsigned)team.threads, (int)below(2));
    pthread_barrier_t* const barrier = team.barrier;
    for (int i = 0; i < team.threads; ++i) pthread_create(&threads[i], NULL, leave, &team);
    for (int i = 0; i < team.threads; ++i) pthread_join(threads[i], NULL);
    finish(&team, "destroy at once");
    if (round % 2 != 0) free(barrier);
  }
}

/* ---- signals, processes, arguments ------------------------------------------------------------------ */

static atomic_int handled;

static void on_signal(int number) {
  (void)number;
  atomic_fetch_add(&handled, 1);
}

static void interrupt(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = below(2) == 0 ? SA_RESTART : 0};
  Team team = {.threads = 3, .rounds = 20};
  Member members[3];
  pthread_t threads[3];
  const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGALRM, &action, NULL);
  team.barrier = make(4, 0);
  if (below(2) == 0) setitimer(ITIMER_REAL, &often, NULL);
  team.threads = 4;
  for (int i = 0; i < 3; ++i)
    members[i] = (Member){&team, i + 1, 0, 0}, pthread_create(&threads[i], NULL, run, &members[i]);
  atomic_store(&handled, 0);
  for (int i = 0; i < 30; ++i) pthread_kill(threads[i % 3], SIGUSR1), sched_yield();
  Member own = {&team, 0, 0, 1};
  take_part(&own);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  setitimer(ITIMER_REAL, &never, NULL);
  finish(&team, "interrupted");
  say("handled", handled > 0);
  say("destroy", pthread_barrier_destroy(team.barrier));
  free(team.barrier);
}

/* Between processes; at the end each has waited as often. */
static void meet_processes(void) {
  struct Shared {
    pthread_barrier_t barrier;
    Team team;
  }* const shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_barrierattr_t attributes;
  const int processes = 2 + (int)below(3);
  pid_t children[4];
  shared->team = (Team){.barrier = &shared->barrier, .threads = processes, .rounds = 10};
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  say("init", pthread_barrier_init(&shared->barrier, &attributes, (unsigned)processes));
  fflush(stdout);
  for (int i = 1; i < processes; ++i) {
    children[i - 1] = fork();
    if (children[i - 1] != 0) continue;
    Member member = {&shared->team, i, 0, i};
    take_part(&member);
    _exit(0);
  }
  Member own = {&shared->team, 0, 0, 0};
  take_part(&own);
  for (int i = 1; i < processes; ++i) {
    int status = 1;
    waitpid(children[i - 1], &status, 0);
    say("child", status);
  }
  finish(&shared->team, "processes");
  say("destroy", pthread_barrier_destroy(&shared->barrier));
  munmap(shared, sizeof *shared);
}

/* A child, while threads of its parent wait, has barriers of its own. */
static void fork_while_waiting(void) {
  Team team = {.threads = 3, .rounds = 1};
  Member members[2];
  pthread_t threads[2];
  team.barrier = make(3, 0);
  for (int i = 0; i < 2; ++i)
    members[i] = (Member){&team, i + 1, 0, 0}, pthread_create(&threads[i], NULL, run, &members[i]);
  usleep(500);
  fflush(stdout);
  const pid_t child = below(2) == 0 ? fork() : _Fork();
  if (child == 0) {
    pthread_barrier_t own;
    int wrong = pthread_barrier_init(&own, NULL, 1) != 0 || pthread_barrier_wait(&own) != PTHREAD_BARRIER_SERIAL_THREAD;
    wrong += pthread_barrier_destroy(&own) != 0;
    wrong += pthread_barrier_init(team.barrier, NULL, 1) != 0;
    wrong += pthread_barrier_wait(team.barrier) != PTHREAD_BARRIER_SERIAL_THREAD;
    _exit(wrong);
  }
  int status = 1;
  waitpid(child, &status, 0);
  say("child", status);
  Member own = {&team, 0, 0, 0};
  take_part(&own);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  finish(&team, "forked");
  say("destroy", pthread_barrier_destroy(team.barrier));
  free(team.barrier);
}

static void call_wrongly(void) {
  pthread_barrier_t barrier;
  pthread_barrierattr_t attributes;
  int shared = 77;
  errno = 5;
  say("init for nobody", pthread_barrier_init(&barrier, NULL, 0));
  say("init for too many", pthread_barrier_init(&barrier, NULL, UINT32_MAX));
  say("init for 2^31", pthread_barrier_init(&barrier, NULL, 1u << 31));
  say("init for 2^31 - 1", pthread_barrier_init(&barrier, NULL, (1u << 31) - 1));
  say("init for 2^30", pthread_barrier_init(&barrier, NULL, 1u << 30));
  say("attributes", pthread_barrierattr_init(&attributes));
  say("set", pthread_barrierattr_setpshared(&attributes, 7));
  say("get", pthread_barrierattr_getpshared(&attributes, &shared) * 10 + shared);
  say("errno", errno);
}

/* By names that are looked up, as by languages other than C. */
static void look_up(void) {
  void* const where = below(2) == 0 ? RTLD_DEFAULT : RTLD_NEXT;
  int (*init)(pthread_barrier_t*, const pthread_barrierattr_t*, unsigned) = NULL;
  int (*wait)(pthread_barrier_t*) = NULL;
  int (*destroy)(pthread_barrier_t*) = NULL;
  const char* const version = below(2) == 0 ? "GLIBC_2.34" : NULL;
  pthread_barrier_t barrier;
  *(void**)&init = version ? dlvsym(where, "pthread_barrier_init", version) : dlsym(where, "pthread_barrier_init");
  *(void**)&wait = version ? dlvsym(where, "pthread_barrier_wait", version) : dlsym(where, "pthread_barrier_wait");
  *(void**)&destroy =
      version ? dlvsym(where, "pthread_barrier_destroy", version) : dlsym(where, "pthread_barrier_destroy");
  if (init == NULL || wait == NULL || destroy == NULL) return say("not found", 0);
  say("init", init(&barrier, NULL, 1));
  for (int i = 0; i < 3; ++i) say("wait", wait(&barrier));
  say("destroy", destroy(&barrier));
  if (version != NULL) return;
  /* Mixed with calls by name. */
  say("init", pthread_barrier_init(&barrier, NULL, 1));
  say("wait", wait(&barrier));
  say("destroy", destroy(&barrier));
}

int main(int count, char** words) {
  static void (*const steps[])(void) = {meet,
                                        meet,
                                        meet,
                                        meet_c11,
                                        destroy_at_once,
                                        destroy_at_once,
                                        interrupt,
                                        meet_processes,
                                        fork_while_waiting,
                                        call_wrongly,
                                        look_up};
  const int all = count > 2 ? atoi(words[2]) : 25;
  state = (count > 1 ? strtoull(words[1], NULL, 10) + 1 : 1) * 0x9e3779b97f4a7c15u;
  for (step_number = 0; step_number < all; ++step_number) steps[below(sizeof steps / sizeof steps[0])]();
  return 0;
}
