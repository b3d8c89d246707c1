#include <mpi.h>
#include <stdio.h>
#include <string.h>
enum { n = 256, rounds = 6000 };
static double a[n + 2][n], b[n + 2][n];
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rows = n / size, up = rank > 0 ? rank - 1 : MPI_PROC_NULL,
            down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
  if (rank == 0)
    for (int j = 0; j < n; ++j) a[0][j] = b[0][j] = 1.0;
  double change = 0.0;
  for (int round = 0; round < rounds; ++round) {
    MPI_Sendrecv(a[1], n, MPI_DOUBLE, up, 0, a[rows + 1], n, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(a[rows], n, MPI_DOUBLE, down, 0, a[0], n, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double own = 0.0;
    for (int i = 1; i <= rows; ++i)
      for (int j = 1; j < n - 1; ++j) {
        b[i][j] = 0.25 * (a[i - 1][j] + a[i + 1][j] + a[i][j - 1] + a[i][j + 1]);
        own += (b[i][j] - a[i][j]) * (b[i][j] - a[i][j]);
      }
    memcpy(a[1], b[1], sizeof a[0] * rows);
    MPI_Allreduce(&own, &change, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == 0) printf("%.17g\n", change);
  MPI_Finalize();
}
