/* Overheads of OpenMP's constructs, in the manner of the EPCC suite: a construct around a short delay, many times in
 * a row, minus the time of the delay alone; repeated, mean and standard error and median over the repetitions.
 *
 *   overheads THREADS [REPETITIONS] [INNER]      prints one JSON document
 *
 * Built for libgomp and for libomp; run with and without the preload library by python/bars.py --set openmp.
 * Expected: parallel and copyprivate cost about two barriers, the others about one. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static int threads = 2, inner = 500;

static void delay(void) {
  double sum = 0;
  for (int i = 0; i < 50; ++i) {
    sum += i;
    __asm__ volatile("" : "+x"(sum));
  }
}

static void reference(void) {
  for (int i = 0; i < inner; ++i) delay();
}

static void parallel(void) {
  for (int i = 0; i < inner; ++i) {
#pragma omp parallel num_threads(threads)
    delay();
  }
}

static void loop(void) {
#pragma omp parallel num_threads(threads)
  for (int i = 0; i < inner; ++i) {
#pragma omp for
    for (int j = 0; j < threads; ++j) delay();
  }
}

static void barrier(void) {
#pragma omp parallel num_threads(threads)
  for (int i = 0; i < inner; ++i) {
    delay();
#pragma omp barrier
  }
}

static void single(void) {
#pragma omp parallel num_threads(threads)
  for (int i = 0; i < inner; ++i) {
#pragma omp single
    delay();
  }
}

static void copyprivate(void) {
#pragma omp parallel num_threads(threads)
  for (int i = 0; i < inner; ++i) {
    int value = -1;
#pragma omp single copyprivate(value)
    {
      delay();
      value = i;
    }
    if (value != i) abort();
  }
}

static void reduction(void) {
  for (int i = 0; i < inner; ++i) {
    int sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
      delay();
      sum += 1;
    }
    if (sum != threads) abort();
  }
}

static int ascending(const void* a, const void* b) {
  const double difference = *(const double*)a - *(const double*)b;
  return (difference > 0) - (difference < 0);
}

static double once(void (*run)(void)) {
  const double start = omp_get_wtime();
  run();
  return (omp_get_wtime() - start) / inner * 1e9;
}

int main(int argc, char** argv) {
  threads = argc > 1 ? atoi(argv[1]) : 2;
  const int repetitions = argc > 2 ? atoi(argv[2]) : 20;
  if (argc > 3) inner = atoi(argv[3]);
  if (threads < 1 || repetitions < 2 || inner < 1) {
    fprintf(stderr, "usage: overheads THREADS [REPETITIONS] [INNER]\n");
    return 2;
  }
  const struct {
    const char* name;
    void (*run)(void);
  } constructs[] = {{"reference", reference}, {"parallel", parallel}, {"for", loop},
                    {"barrier", barrier},     {"single", single},     {"copyprivate", copyprivate},
                    {"reduction", reduction}};
  double* samples = malloc(sizeof(double) * (size_t)repetitions);
  if (samples == NULL) return 1;
  double delay_ns = 0;
  printf("{\"threads\": %d, \"repetitions\": %d, \"inner\": %d, \"overheads\": {", threads, repetitions, inner);
  for (size_t c = 0; c < sizeof constructs / sizeof *constructs; ++c) {
    once(constructs[c].run);
    double mean = 0, squares = 0;
    for (int r = 0; r < repetitions; ++r) {
      samples[r] = once(constructs[c].run) - delay_ns;
      mean += samples[r] / repetitions;
    }
    for (int r = 0; r < repetitions; ++r) squares += (samples[r] - mean) * (samples[r] - mean);
    qsort(samples, (size_t)repetitions, sizeof *samples, ascending);
    const double median = (samples[(repetitions - 1) / 2] + samples[repetitions / 2]) / 2;
    if (c == 0) delay_ns = median;
    printf("%s\"%s\": {\"mean_ns\": %.1f, \"standard_error_ns\": %.1f, \"median_ns\": %.1f}", c == 0 ? "" : ", ",
           constructs[c].name, mean, sqrt(squares / (repetitions - 1) / repetitions), median);
  }
  printf("}}\n");
  free(samples);
  return 0;
}
