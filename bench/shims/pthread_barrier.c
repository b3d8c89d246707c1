/* How long is a round of a pthread barrier?
 *
 *     pthread_barrier THREADS SECONDS     prints {"threads":..., "rounds":..., "round_ns":..., "samples":...}
 *
 * Method: threads that are pinned nowhere do nothing but wait at one barrier, in blocks of equally many rounds;
 * thread 0 times each block. round_ns is the median over blocks of a block's time by its rounds. The first
 * blocks, before all threads run, do not count. Every round is checked: exactly one thread is the serial one.
 *
 * An ordinary program: bench/shims/pthread.py runs it with and without the preload library, by turns. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { most_blocks = 20000, warm_up_blocks = 5 };

static pthread_barrier_t barrier;
static atomic_int over;
static atomic_long serials;
static double seconds;
static int rounds_of_block;
static double blocks[most_blocks];
static int block_count;

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void* take_part(void* first) {
  const double start = now_s();
  long serial = 0;
  double before = start;
  while (!atomic_load_explicit(&over, memory_order_relaxed)) {
    for (int i = 0; i < rounds_of_block; ++i) serial += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
    if (first != NULL) {
      const double now = now_s();
      if (block_count < most_blocks) blocks[block_count++] = (now - before) / rounds_of_block;
      if (now - start > seconds || block_count == most_blocks) atomic_store(&over, 1);
      before = now;
    }
    /* All look at `over` after thread 0 has decided. */
    serial += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
  }
  atomic_fetch_add(&serials, serial);
  return NULL;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 2;
  seconds = argc > 2 ? atof(argv[2]) : 1.0;
  if (threads < 1 || threads > 4096 || !(seconds > 0.0) || seconds > 3600.0) {
    fputs("usage: pthread_barrier THREADS SECONDS\n", stderr);
    return 2;
  }
  rounds_of_block = threads <= 2 ? 1000 : threads <= 16 ? 200 : 50;
  pthread_t* const thread = calloc((size_t)threads, sizeof *thread);
  if (thread == NULL || pthread_barrier_init(&barrier, NULL, (unsigned)threads) != 0) return 1;
  for (int i = 0; i < threads; ++i) {
    if (pthread_create(&thread[i], NULL, take_part, i == 0 ? &barrier : NULL) != 0) {
      fputs("pthread_barrier: cannot start that many threads\n", stderr);
      return 1;
    }
  }
  for (int i = 0; i < threads; ++i) pthread_join(thread[i], NULL);
  pthread_barrier_destroy(&barrier);
  free(thread);

  const long rounds = (long)block_count * (rounds_of_block + 1);
  if (atomic_load(&serials) != rounds) {
    fprintf(stderr, "pthread_barrier: %ld serial threads in %ld rounds\n", atomic_load(&serials), rounds);
    return 1;
  }
  const int skipped = block_count > 2 * warm_up_blocks ? warm_up_blocks : 0;
  const int count = block_count - skipped;
  qsort(blocks + skipped, (size_t)count, sizeof blocks[0], by_value);
  printf("{\"threads\": %d, \"rounds\": %ld, \"round_ns\": %.1f, \"samples\": %d}\n", threads, rounds,
         blocks[skipped + count / 2] * 1e9, count);
  return 0;
}
