! Collectives from Fortran: blocking, in place, nonblocking, with a derived type and an operator of the program's own.
program fortran
  implicit none
  include 'mpif.h'
  integer :: rank, ranks, code, i, request, pairs, own
  integer :: status(MPI_STATUS_SIZE)
  integer :: data(4)
  double precision :: mine(3), total(3)
  external :: add

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call MPI_Type_contiguous(2, MPI_INTEGER, pairs, code)
  call MPI_Type_commit(pairs, code)
  call MPI_Op_create(add, .true., own, code)
  do i = 1, 100
    call MPI_Barrier(MPI_COMM_WORLD, code)
    data = 0
    if (rank == 0) data = (/ i, i + 1, i + 2, i + 3 /)
    call MPI_Bcast(data, 2, pairs, 0, MPI_COMM_WORLD, code)
    call check(all(data == (/ i, i + 1, i + 2, i + 3 /)), 'a broadcast')
    mine = dble(rank + i)
    call MPI_Allreduce(mine, total, 3, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
    call check(all(total == dble(i * ranks + ranks * (ranks - 1) / 2)), 'a sum')
    call MPI_Allreduce(MPI_IN_PLACE, mine, 3, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, code)
    call check(all(mine == dble(ranks - 1 + i)), 'a maximum in place')
    data = rank + i
    call MPI_Iallreduce(MPI_IN_PLACE, data, 4, MPI_INTEGER, own, MPI_COMM_WORLD, request, code)
    call MPI_Wait(request, status, code)
    call check(request == MPI_REQUEST_NULL .and. all(data == i * ranks + ranks * (ranks - 1) / 2), 'a nonblocking sum')
  end do
  call MPI_Op_free(own, code)
  call MPI_Type_free(pairs, code)
  if (rank == 0) print *, 'all right'
  call MPI_Finalize(code)

contains

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    print *, 'rank ', rank, ': ', what
    call MPI_Abort(MPI_COMM_WORLD, 1, code)
  end subroutine
end program

subroutine add(in, inout, count, type)
  implicit none
  integer :: count, type
  integer :: in(count), inout(count)
  inout = inout + in
end subroutine
