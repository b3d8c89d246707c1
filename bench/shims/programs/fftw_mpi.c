#include <fftw3-mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  fftw_mpi_init();
  ptrdiff_t rows, first, n = 64;
  ptrdiff_t size = fftw_mpi_local_size_3d(n, n, n, MPI_COMM_WORLD, &rows, &first);
  fftw_complex* data = fftw_alloc_complex(size);
  fftw_plan to = fftw_mpi_plan_dft_3d(n, n, n, data, data, MPI_COMM_WORLD, FFTW_FORWARD, FFTW_ESTIMATE);
  fftw_plan from = fftw_mpi_plan_dft_3d(n, n, n, data, data, MPI_COMM_WORLD, FFTW_BACKWARD, FFTW_ESTIMATE);
  for (ptrdiff_t i = 0; i < rows * n * n; ++i) {
    data[i][0] = (double)((i + first * n * n) * 7919 % 1013);
    data[i][1] = 0.0;
  }
  for (int round = 0; round < 60; ++round) {
    fftw_execute(to);
    fftw_execute(from);
    for (ptrdiff_t i = 0; i < rows * n * n; ++i) data[i][0] /= (double)(n * n * n), data[i][1] /= (double)(n * n * n);
  }
  double sum = 0.0, all = 0.0;
  for (ptrdiff_t i = 0; i < rows * n * n; ++i) sum += data[i][0] * (double)(i % 17);
  MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("%.17g\n", all);
  MPI_Finalize();
}
