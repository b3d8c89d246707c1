import ufl
from dolfinx import fem, mesh
from mpi4py import MPI
from petsc4py.PETSc import ScalarType
square = mesh.create_unit_square(MPI.COMM_WORLD, 96, 96)
space = fem.FunctionSpace(square, ("Lagrange", 1))
sides = mesh.locate_entities_boundary(square, 1, lambda x: (x[0] < 1e-9) | (x[0] > 1 - 1e-9))
fixed = fem.dirichletbc(ScalarType(0), fem.locate_dofs_topological(space, 1, sides), space)
u, v, x = ufl.TrialFunction(space), ufl.TestFunction(space), ufl.SpatialCoordinate(square)
source = 10 * ufl.exp(-((x[0] - 0.5) ** 2 + (x[1] - 0.5) ** 2) / 0.02)
problem = fem.petsc.LinearProblem(ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx, ufl.inner(source, v) * ufl.dx, bcs=[fixed],
                                  petsc_options={"ksp_type": "cg", "pc_type": "jacobi"})
solution = problem.solve()
square_sum = MPI.COMM_WORLD.allreduce(fem.assemble_scalar(fem.form(solution * solution * ufl.dx)))
if MPI.COMM_WORLD.rank == 0:
    print(round(square_sum, 10))
