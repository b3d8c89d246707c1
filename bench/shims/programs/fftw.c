#include <fftw3.h>
#include <stdio.h>
#include <stdlib.h>
int main() {
  const char* threads = getenv("OMP_NUM_THREADS");
  fftw_init_threads();
  fftw_plan_with_nthreads(threads ? atoi(threads) : 2);
  const int n = 1 << 16;
  fftw_complex* data = fftw_alloc_complex(n);
  fftw_plan to = fftw_plan_dft_1d(n, data, data, FFTW_FORWARD, FFTW_ESTIMATE);
  fftw_plan from = fftw_plan_dft_1d(n, data, data, FFTW_BACKWARD, FFTW_ESTIMATE);
  for (int i = 0; i < n; ++i) data[i][0] = (double)(i * 7919L % 1013), data[i][1] = 0.0;
  for (int round = 0; round < 500; ++round) {
    fftw_execute(to);
    fftw_execute(from);
    for (int i = 0; i < n; ++i) data[i][0] /= n, data[i][1] /= n;
  }
  double sum = 0.0;
  for (int i = 0; i < n; ++i) sum += data[i][0] * (i % 17);
  printf("%.17g\n", sum);
}
