/* A library that uses the MPI that it is linked with: twice its answer, or 0 if something else answered. */
int MPI_Init(int* argc, char*** argv);
int MPI_Barrier(void* comm);
__attribute__((weak)) int MPI_Bcast_c(void);
int use(void);

int use(void) {
  const int answer = MPI_Init(0, 0);
  if (MPI_Bcast_c != 0) return 0; /* the library has no such function */
  return MPI_Barrier(0) == answer ? answer + MPI_Barrier(0) : 0;
}
