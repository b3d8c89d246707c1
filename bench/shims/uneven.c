/* How long is a round when threads come late to a barrier, beside programs that compute?
 *
 *     uneven CONSTRUCT THREADS WORK_US turns|same PROGRAMS SECONDS
 *     prints {"construct":..., ..., "rounds":..., "mean_ns":..., "median_ns":..., "samples":...}
 *
 * Method: in each round one thread computes for WORK_US microseconds (measured on a PU of its own, as so much work,
 * so that who is displaced takes longer), by turns or always the last; then all meet. CONSTRUCT: `barrier`, or with
 * OpenMP also `parallel`, where each round is a region. PROGRAMS processes compute all the while. Thread 0 times blocks
 * of rounds, so that each block holds every thread's turn; median_ns is that over blocks of a block's time by its
 * rounds, mean_ns the whole time by all rounds: what a program would notice. Rounds of the first tenth of the time do
 * not count.
 *
 * An ordinary program: python/bars.py --set uneven runs it with and without the preload libraries, by turns. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

enum { most_blocks = 1 << 20, most_programs = 64 };

static int threads, rounds_of_block, late_by_turns;
static long work; /* turns of compute() */
static double seconds;
static double* blocks;
static long block_count;
static atomic_int over;

static double now_s(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void compute(long turns) {
  double value = 1.0;
  for (long i = 0; i < turns; ++i) {
    value = value * 0.999 + 0.5;
    __asm__ volatile("" : "+m"(value));
  }
}

/* Turns of compute() in a microsecond. */
static double measure_turns(void) {
  double best = 1.0;
  for (int i = 0; i < 20; ++i) {
    const double start = now_s(CLOCK_THREAD_CPUTIME_ID);
    compute(100000);
    const double spent = now_s(CLOCK_THREAD_CPUTIME_ID) - start;
    if (spent < best) best = spent;
  }
  return 100000.0 / (best * 1e6);
}

static void work_if_late(int thread, long round) {
  if (work != 0 && thread == (late_by_turns ? (int)(round % threads) : threads - 1)) compute(work);
}

/* Thread 0, after each block. */
static void note_block(void) {
  static double start, before;
  const double now = now_s(CLOCK_MONOTONIC);
  if (start == 0.0) {
    start = now;
  } else if (now - start > seconds * 0.1) {
    blocks[block_count++] = (now - before) / rounds_of_block;
    if (now - start > seconds || block_count == most_blocks) atomic_store_explicit(&over, 1, memory_order_relaxed);
  }
  before = now;
}

/* What one thread does: blocks of rounds until thread 0 has seen enough of them. */
static void take_part(int thread, void (*meet)(void)) {
  for (long round = 0; !atomic_load_explicit(&over, memory_order_relaxed);) {
    for (int i = 0; i < rounds_of_block; ++i, ++round) {
      work_if_late(thread, round);
      meet();
    }
    if (thread == 0) note_block();
    /* All look at `over` after thread 0 has decided. */
    meet();
  }
}

#ifdef _OPENMP

static void meet_all(void) {
#pragma omp barrier
}

static void measure(const char* construct) {
  if (strcmp(construct, "barrier") == 0) {
#pragma omp parallel num_threads(threads)
    take_part(omp_get_thread_num(), meet_all);
    return;
  }
  for (long round = 0; !atomic_load_explicit(&over, memory_order_relaxed); note_block()) {
    for (int i = 0; i < rounds_of_block; ++i, ++round) {
#pragma omp parallel num_threads(threads)
      work_if_late(omp_get_thread_num(), round);
    }
  }
}

#else

static pthread_barrier_t barrier;

static void meet_all(void) { pthread_barrier_wait(&barrier); }

static void* run_thread(void* number) {
  take_part((int)(long)number, meet_all);
  return NULL;
}

static void measure(const char* construct) {
  pthread_t* const thread = calloc((size_t)threads, sizeof *thread);
  if (strcmp(construct, "barrier") != 0 || thread == NULL ||
      pthread_barrier_init(&barrier, NULL, (unsigned)threads) != 0)
    exit(1);
  for (int i = 0; i < threads; ++i) {
    if (pthread_create(&thread[i], NULL, run_thread, (void*)(long)i) != 0) exit(1);
  }
  for (int i = 0; i < threads; ++i) pthread_join(thread[i], NULL);
  pthread_barrier_destroy(&barrier);
  free(thread);
}

#endif

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  if (argc != 7) {
    fputs("usage: uneven barrier|parallel THREADS WORK_US turns|same PROGRAMS SECONDS\n", stderr);
    return 2;
  }
  threads = atoi(argv[2]);
  const double work_us = atof(argv[3]);
  late_by_turns = strcmp(argv[4], "turns") == 0;
  const int programs = atoi(argv[5]);
  seconds = atof(argv[6]);
  blocks = malloc(most_blocks * sizeof *blocks);
  if (threads < 2 || threads > 1024 || programs < 0 || programs > most_programs || blocks == NULL) return 2;
  work = (long)(work_us * measure_turns());
  rounds_of_block = work != 0 ? threads : 200;

  pid_t others[most_programs];
  for (int i = 0; i < programs; ++i) {
    others[i] = fork();
    if (others[i] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) compute(1000000);
    }
  }
  measure(argv[1]);
  for (int i = 0; i < programs; ++i) {
    kill(others[i], SIGKILL);
    waitpid(others[i], NULL, 0);
  }

  double sum = 0.0;
  for (long i = 0; i < block_count; ++i) sum += blocks[i];
  qsort(blocks, (size_t)block_count, sizeof *blocks, by_value);
  printf(
      "{\"construct\": \"%s\", \"threads\": %d, \"work_us\": %g, \"late\": \"%s\", \"programs\": %d, \"mean_ns\": "
      "%.1f, "
      "\"median_ns\": %.1f, \"samples\": %ld}\n",
      argv[1], threads, work_us, late_by_turns ? "turns" : "same", programs, sum / (double)block_count * 1e9,
      blocks[block_count / 2] * 1e9, block_count);
  free(blocks);
  return 0;
}
