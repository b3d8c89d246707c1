/* Threads that end themselves, or are cancelled, inside of a region: in C, where nothing forbids that. Prints "done".
   "one": regions of one thread, with LLVM's runtime; GNU's frees what is not its own then, by itself. "two": a region
   of two, which then has a member that waits for ever. */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile int inside = 0;
static int cancelled, threads;

static void* work(void* argument) {
#pragma omp parallel num_threads(threads)
  if (omp_get_thread_num() == 0) {
    inside = 1;
    if (!cancelled) pthread_exit(argument);
    for (;;) usleep(1000);
  }
  return NULL;
}

static pthread_t start(void) {
  pthread_t thread;
  inside = 0;
  if (pthread_create(&thread, NULL, work, &threads) != 0) return pthread_self();
  while (!inside) usleep(1000);
  if (cancelled) pthread_cancel(thread);
  return thread;
}

/* The number of threads that did not end as they should, and of wrong sums of the main thread's regions. */
static int wrong_of_one(void) {
  int wrong = 0;
  threads = 1;
  for (int round = 0; round < 6; ++round) {
    void* end = NULL;
    cancelled = round % 2;
    pthread_join(start(), &end);
    wrong += end != (cancelled ? PTHREAD_CANCELED : (void*)&threads);
    int sum = 0;
#pragma omp parallel num_threads(3) reduction(+ : sum)
    sum += omp_get_thread_num() + 1;
    wrong += sum != 6;
  }
  return wrong;
}

int main(int count, char** words) {
  int wrong = 0;
  if (count > 1 && strcmp(words[1], "one") == 0) {
    wrong = wrong_of_one();
  } else {
    threads = 2;
    cancelled = 1;
    pthread_detach(start());
    usleep(200000);
  }
  printf("%d wrong, done\n", wrong);
  fflush(stdout);
  _exit(wrong != 0);
}
