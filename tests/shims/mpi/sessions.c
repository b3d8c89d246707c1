/* Sessions of MPI 4: collectives where MPI_COMM_WORLD is not there, as MPI_Init was not called or MPI_Finalize was.

     sessions alone     one session
     sessions twice     two, one after the other
     sessions beside    one from before MPI_Init until after MPI_Finalize

   Prints for each rank and stage the sum of what it got. The same with smelt and without. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { rounds = 100, count = 5 };

static int rank;

static double sum(const double* values) {
  double all = 0;
  for (int i = 0; i < count; ++i) all += values[i] * (i + 1);
  return all;
}

static void use(MPI_Comm comm, const char* stage) {
  double in[count], out[count], total = 0;
  int size;
  MPI_Comm part;
  MPI_Comm_size(comm, &size);
  MPI_Comm_dup(comm, &part);
  for (int round = 0; round < rounds; ++round) {
    MPI_Request request;
    for (int i = 0; i < count; ++i) in[i] = 100 * rank + round + i;
    MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, comm), total += sum(out);
    MPI_Iallreduce(in, out, count, MPI_DOUBLE, MPI_MAX, part, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE), total += sum(out);
    MPI_Bcast(out, count, MPI_DOUBLE, round % size, part), total += sum(out);
#ifndef OPEN_MPI /* 5.0 crashes in it before MPI_Init */
    MPI_Reduce_local(in, out, count, MPI_DOUBLE, MPI_MAX), total += sum(out);
#endif
    MPI_Barrier(comm);
  }
  MPI_Comm_free(&part);
  printf("%d %s %.17g\n", rank, stage, total);
  fflush(stdout);
}

static MPI_Comm begin(MPI_Session* session) {
  MPI_Group all;
  MPI_Comm comm;
  if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session) != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Group_from_session_pset(*session, "mpi://WORLD", &all);
  MPI_Comm_create_from_group(all, "smelt.test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
  MPI_Group_free(&all);
  MPI_Comm_rank(comm, &rank);
  return comm;
}

static void end(MPI_Comm comm, MPI_Session session) {
  MPI_Comm_disconnect(&comm);
  MPI_Session_finalize(&session);
}

int main(int argc, char** argv) {
  MPI_Session session;
  const int beside = argc > 1 && strcmp(argv[1], "beside") == 0;
  MPI_Comm comm = begin(&session);
  use(comm, "in a session");
  if (beside) {
    MPI_Init(&argc, &argv);
    use(comm, "in a session beside the world");
    use(MPI_COMM_WORLD, "in the world");
    MPI_Comm another;
    MPI_Comm_dup(comm, &another);
    use(another, "in a session, anew");
    MPI_Finalize();
    use(another, "after the world");
    MPI_Comm_free(&another);
  }
  if (argc > 1 && strcmp(argv[1], "twice") == 0) {
    end(comm, session);
    comm = begin(&session);
  }
  use(comm, "once more");
  end(comm, session);
  return 0;
}
