// Regions whose results tell whether every barrier held. Built for one runtime and another, into programs and into
// libraries that they need or load; SMELT_REGIONS is the name that the function gets.
#include <omp.h>

// `rounds` regions of `threads` (at most 8); one thread of each calls `inner` (may be null), too. Returns how much was
// wrong.
extern "C" int SMELT_REGIONS(int threads, int rounds, int (*inner)()) {
  int turn[8] = {};
  int wrong = 0;
  for (int round = 1; round <= rounds; ++round) {
    int sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum, wrong)
    {
      const int me = omp_get_thread_num();
      turn[me] = round;
#pragma omp barrier
      for (int t = 0; t < threads; ++t) wrong += turn[t] != round;
      int handed = -1;
#pragma omp single copyprivate(handed)
      {
        handed = round;
        if (inner != nullptr) wrong += inner();
      }
      wrong += handed != round;
#pragma omp for
      for (int i = 0; i < 100; ++i) sum += i;
      wrong += omp_get_thread_num() != me || omp_get_num_threads() != threads || omp_get_level() != 1;
    }
    wrong += sum != 4950 || omp_in_parallel() != 0;
  }
  return wrong;
}
