! What sums.c does, by the modules of Fortran: mpi, or with -DF08 mpi_f08. The wrappers of these come down to the shim.
program sums
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer, parameter :: rounds = 30, n = 5, most = 8
  double precision :: in(most * n), out(most * n), got(most * n)
  integer :: counts(most), offsets(most), twos(most), byte_offsets(most), rank, ranks, code, i, which, length
  character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
  double precision :: total(2)
#ifdef F08
  type(MPI_Datatype) :: types(most)
#else
  integer :: types(most)
#endif
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  do i = 1, most
    counts(i) = 1 + mod(i - 1, n)
    twos(i) = 2
    offsets(i) = (i - 1) * n
    byte_offsets(i) = 8 * (i - 1) * n
    types(i) = MPI_DOUBLE_PRECISION
  end do
  call MPI_Get_library_version(version, length, code)
  print '(i0, a, i0, a, a)', rank, ' size ', ranks, ' version ', version(1:scan(version(1:length)//achar(10), achar(10)) - 1)
  do which = 1, 17
    total = 0
    do i = 0, rounds - 1
      total(1) = total(1) + once(which, i)
    end do
    do i = rounds, 2 * rounds - 1
      total(2) = total(2) + again(which, i)
    end do
    print '(i0, a, i0, 2f20.3)', rank, ' collective ', which, total
  end do
  call MPI_Finalize(code)

contains

  subroutine fill(round)
    integer, intent(in) :: round
    integer :: k
    in = [(1000d0 * rank + 10d0 * round + k, k = 0, most * n - 1)]
    out = -1
  end subroutine

  double precision function sum_of_out()
    integer :: k
    sum_of_out = sum(out * [(dble(k), k = 1, most * n)])
  end function

  ! Blocking.
  double precision function once(which, round)
    integer, intent(in) :: which, round
    integer :: root, e
    root = mod(round, ranks)
    call fill(round)
    select case (which)
    case (1); call MPI_Barrier(MPI_COMM_WORLD, e)
    case (2); if (rank == root) out = in
      call MPI_Bcast(out, n, MPI_DOUBLE_PRECISION, root, MPI_COMM_WORLD, e)
    case (3); call MPI_Reduce(in, out, n, MPI_DOUBLE_PRECISION, MPI_SUM, root, MPI_COMM_WORLD, e)
    case (4); call MPI_Allreduce(in, out, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, e)
    case (5); call MPI_Scan(in, out, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, e)
    case (6); call MPI_Exscan(in, out, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, e)
    case (7); call MPI_Reduce_scatter_block(in, out, n, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, e)
    case (8); call MPI_Reduce_scatter(in, out, counts, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, e)
    case (9); call MPI_Scatter(in, n, MPI_DOUBLE_PRECISION, out, n, MPI_DOUBLE_PRECISION, root, MPI_COMM_WORLD, e)
    case (10); call MPI_Gather(in, n, MPI_DOUBLE_PRECISION, out, n, MPI_DOUBLE_PRECISION, root, MPI_COMM_WORLD, e)
    case (11); call MPI_Allgather(in, n, MPI_DOUBLE_PRECISION, out, n, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, e)
    case (12); call MPI_Alltoall(in, n, MPI_DOUBLE_PRECISION, out, n, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, e)
    case (13); call MPI_Scatterv(in, counts, offsets, MPI_DOUBLE_PRECISION, out, counts(rank + 1), &
        MPI_DOUBLE_PRECISION, root, MPI_COMM_WORLD, e)
    case (14); call MPI_Gatherv(in, counts(rank + 1), MPI_DOUBLE_PRECISION, out, counts, offsets, &
        MPI_DOUBLE_PRECISION, root, MPI_COMM_WORLD, e)
    case (15); call MPI_Allgatherv(in, counts(rank + 1), MPI_DOUBLE_PRECISION, out, counts, offsets, &
        MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, e)
    case (16); call MPI_Alltoallv(in, twos, offsets, MPI_DOUBLE_PRECISION, out, twos, offsets, &
        MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, e)
    case (17); call MPI_Alltoallw(in, twos, byte_offsets, types, out, twos, byte_offsets, types, MPI_COMM_WORLD, e)
    end select
    once = sum_of_out()
  end function

  ! Nonblocking, and in place where there is a form of that.
  double precision function again(which, round)
    integer, intent(in) :: which, round
    integer :: root, e
#ifdef F08
    type(MPI_Request) :: request
#else
    integer :: request
#endif
    root = mod(round, ranks)
    call fill(round)
    got = in
    request = MPI_REQUEST_NULL
    select case (which)
    case (1); call MPI_Ibarrier(MPI_COMM_WORLD, request, e)
    case (2); call MPI_Ibcast(got, n, MPI_DOUBLE_PRECISION, root, MPI_COMM_WORLD, request, e)
    case (4); call MPI_Allreduce(MPI_IN_PLACE, got, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, e)
    case (5); call MPI_Iallreduce(in, got, n, MPI_DOUBLE_PRECISION, MPI_MIN, MPI_COMM_WORLD, request, e)
    case (11); call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, got, n, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, e)
    case (12); call MPI_Ialltoall(in, n, MPI_DOUBLE_PRECISION, got, n, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, request, e)
    end select
    call MPI_Wait(request, MPI_STATUS_IGNORE, e)
    out = got
    again = sum_of_out()
  end function

end program
