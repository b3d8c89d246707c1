// A library of a program that has no OpenMP itself. own_number() jumps to the runtime's function, so that the shim sees
// the program as its caller.
#include <omp.h>

extern "C" int own_number() { return omp_get_thread_num(); }

extern "C" void set_threads(int threads) { omp_set_num_threads(threads); }
extern "C" int most_threads() { return omp_get_max_threads(); }

// Alternates regions of one thread and of several, whose threads compare their own numbers with those that another
// library reports. Returns the number of errors.
extern "C" int numbers(int threads, int (*own)(), int (*other)()) {
  int wrong = 0;
  for (int round = 0; round < 50; ++round) {
    const int size = round % 2 == 0 ? threads : 1;
    int total = 0;
#pragma omp parallel num_threads(size) reduction(+ : wrong)
    {
      wrong += own() != omp_get_thread_num() || other() != 0 || omp_get_num_threads() != size;
      wrong += omp_get_level() != 1 || omp_in_parallel() != (size > 1) || omp_get_active_level() != (size > 1);
#pragma omp barrier
      int sum = 0;
#pragma omp for schedule(dynamic, 3) nowait
      for (int i = 0; i < 30; ++i) sum += i;
#pragma omp atomic
      total += sum;
    }
    wrong += total != 435;
    // In a region of one another one may be opened, which has all threads.
    if (round % 10 == 1) {
      int inner = 0;
#pragma omp parallel num_threads(1)
#pragma omp parallel num_threads(threads) reduction(+ : inner)
      inner += omp_get_level() == 2 && omp_get_active_level() == 1 && omp_get_num_threads() == threads;
      wrong += inner != threads;
    }
    wrong += own() != 0 || omp_in_parallel() != 0 || omp_get_level() != 0;
  }
  return wrong;
}
