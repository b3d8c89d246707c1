/* An MPI library whose ABI nobody knows: what it has answers with its number, wherever the call comes from. */
int PMPI_Init(int* argc, char*** argv);
int PMPI_Comm_rank(void* comm, int* rank);
int PMPI_Barrier(void* comm);
int MPI_Init(int* argc, char*** argv);
int MPI_Barrier(void* comm);

int PMPI_Init(int* argc, char*** argv) {
  (void)argc, (void)argv;
  return ANSWER;
}
int PMPI_Comm_rank(void* comm, int* rank) {
  (void)comm, (void)rank;
  return ANSWER;
}
int PMPI_Barrier(void* comm) {
  (void)comm;
  return ANSWER;
}
int MPI_Init(int* argc, char*** argv) { return PMPI_Init(argc, argv); }
int MPI_Barrier(void* comm) { return PMPI_Barrier(comm); }
