import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
numbers = np.arange(1000.0) * (world.rank + 1)
total = np.zeros(1000)
for i in range(3000):
    world.Allreduce(numbers, total)
    world.Bcast(total, root=i % world.size)
    numbers = total * 0.3 + world.rank
ranks = world.allreduce({world.rank}, op=lambda a, b: a | b)
if world.rank == 0:
    print(world.size, total.sum(), ranks)
