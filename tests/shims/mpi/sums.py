"""What sums.c does, by mpi4py."""

import os

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
ROUNDS, COUNT = 30, 5
counts, offsets = [1 + i % COUNT for i in range(size)], [i * COUNT for i in range(size)]
twos = [2] * size
name = MPI.Get_library_version().split("\n")[0].rstrip("\0")
lines = [(rank, "size", size, "version", name)]


def calls(given, got, root):
    """The arguments of each collective."""
    one, all_of_it = [given[:COUNT], MPI.DOUBLE], [given, COUNT, MPI.DOUBLE]
    top, into = rank == root, [got[:COUNT], MPI.DOUBLE]
    own, uneven = [given[:counts[rank]], MPI.DOUBLE], [got, counts, offsets, MPI.DOUBLE]
    return {
        "Barrier": (),
        "Bcast": ([(given if top else got)[:COUNT], MPI.DOUBLE], root),
        "Reduce": (one, into if top else None, MPI.SUM, root),
        "Allreduce": (one, into, MPI.SUM),
        "Scan": (one, into, MPI.SUM),
        "Exscan": (one, into, MPI.SUM),
        "Reduce_scatter_block": (given, into, MPI.MAX),
        "Reduce_scatter": (given[:sum(counts)], got[:counts[rank]], counts, MPI.SUM),
        "Scatter": (all_of_it if top else None, into, root),
        "Gather": (one, got if top else None, root),
        "Allgather": (one, got),
        "Alltoall": (given, got),
        "Scatterv": ([given, counts, offsets, MPI.DOUBLE] if top else None, got[:counts[rank]], root),
        "Gatherv": (own, uneven if top else None, root),
        "Allgatherv": (own, uneven),
        "Alltoallv": ([given, twos, offsets, MPI.DOUBLE], [got, twos, offsets, MPI.DOUBLE]),
        "Alltoallw": ([given, twos, [8 * at for at in offsets], [MPI.DOUBLE] * size],
                      [got, twos, [8 * at for at in offsets], [MPI.DOUBLE] * size]),
    }


weights = numpy.arange(1, size * COUNT + 1)
for function in calls(numpy.zeros(size * COUNT), numpy.zeros(size * COUNT), 0):
    totals = []
    for prefix in ("", "I"):
        total = 0.0
        for i in range(ROUNDS):
            given = 1000.0 * rank + 10.0 * i + numpy.arange(size * COUNT)
            got = numpy.full(size * COUNT, -1.0)
            arguments = calls(given, got, i % size)[function]
            request = getattr(comm, "I" + function.lower() if prefix else function)(*arguments)
            if prefix:
                request.Wait()
            total += float((got * weights).sum())
        totals.append(total)
    lines.append((rank, function, *totals))
# Objects, and a communicator with other ranks.
lines.append((rank, "objects", comm.allreduce(rank + 1), comm.bcast({"from": 0} if rank == 0 else None),
              comm.allgather(rank)))
half = comm.Split(rank % 2, -rank)
lines.append((rank, "half", *[half.allreduce(rank) for _ in range(ROUNDS)]))
# In one piece: mpiexec mixes what ranks write piece by piece.
os.write(1, "".join(" ".join(map(str, line)) + "\n" for line in lines).encode())
