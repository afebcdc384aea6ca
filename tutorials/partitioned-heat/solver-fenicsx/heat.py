"""Heat equation on one of two boxes that touch at x = 1: FEniCSx, coupled by fenicsxprecice.

On [0, 3] x [0, 1] x [0, 1] the temperature is 1 + x^2 + 3 y^2 + 2 z^2 + 1.2 t. Implicit Euler steps and elements of
order 2 have no error of their own, elements of order 1 one of second order in the size of a cell.
"""

import argparse

import dolfinx_solver  # noqa: F401 (brings PETSc; before dolfinx)
import numpy as np
import ufl
from dolfinx import fem, mesh
from dolfinx.fem.petsc import LinearProblem
from fenicsxprecice import Adapter, CouplingMesh
from mpi4py import MPI

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("participant", choices=["Dirichlet", "Neumann"], help="left or right box")
parser.add_argument("--cells", type=int, default=8, help="cells along an edge of length 1 (default: 8)")
parser.add_argument("--order", type=int, choices=[1, 2], help="of the elements (default: 2 left, 1 right)")
parser.add_argument("--output", help="NPZ file for the temperatures of all ranks, by place")
options = parser.parse_args()
if options.cells < 2:
    parser.error(f"argument --cells: expected at least 2, found {options.cells}")


def exact(x, t):
    return 1 + x[0] ** 2 + 3 * x[1] ** 2 + 2 * x[2] ** 2 + 1.2 * t


SOURCE = 1.2 - 2 - 6 - 4  # of the equation that `exact` solves: time derivative minus Laplacian


def at_interface(x):
    return np.isclose(x[0], 1)


def at_outer_walls(x):
    sides = np.isclose(x[1] * (1 - x[1]), 0) | np.isclose(x[2] * (1 - x[2]), 0)
    return sides | np.isclose(x[0], 0 if is_left else 3)


comm = MPI.COMM_WORLD
is_left = options.participant == "Dirichlet"
order = options.order or (2 if is_left else 1)
edge = options.cells
if is_left:
    domain = mesh.create_box(comm, [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0)], [edge, edge, edge])
else:
    domain = mesh.create_box(comm, [(1.0, 0.0, 0.0), (3.0, 1.0, 1.0)], [2 * edge, edge, edge])
space = fem.functionspace(domain, ("Lagrange", order))
flux_space = fem.functionspace(domain, ("Lagrange", 1))

walls, before = fem.Function(space), fem.Function(space)
before.interpolate(lambda x: exact(x, 0.0))
flux = fem.Function(flux_space)
flux.interpolate(lambda x: 2 * x[0])
received = fem.Function(space)

# A communicator of its own: of two ranks without coupling boundary, one sends what the other never receives (adapter
# 1.0.2), and MPICH refuses to finalize where that is left in COMM_WORLD.
adapter = Adapter(comm.Dup(), "precice-adapter-config.json", digit_cutoff=10)
if is_left:
    coupling_mesh = CouplingMesh("Dirichlet-Mesh", at_interface, {"Temperature": space}, {"Heat-Flux": flux})
else:
    coupling_mesh = CouplingMesh("Neumann-Mesh", at_interface, {"Heat-Flux": space}, {"Temperature": before})
adapter.initialize([coupling_mesh])

u, v = ufl.TrialFunction(space), ufl.TestFunction(space)
step = fem.Constant(domain, adapter.get_max_time_step_size())
equation = (u - before) / step * v * ufl.dx + ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx - SOURCE * v * ufl.dx
conditions = [fem.dirichletbc(walls, fem.locate_dofs_geometrical(space, at_outer_walls))]
if is_left:
    inner = fem.locate_dofs_geometrical(space, lambda x: at_interface(x) & ~at_outer_walls(x))
    conditions.append(fem.dirichletbc(received, inner))
else:
    facets = mesh.locate_entities_boundary(domain, domain.topology.dim - 1, at_interface)
    marked = mesh.meshtags(domain, domain.topology.dim - 1, np.sort(facets), 1)
    equation += received * v * ufl.Measure("ds", domain=domain, subdomain_data=marked)(1)
multigrid = {"ksp_type": "cg", "pc_type": "gamg", "ksp_rtol": 1e-11}
heat = LinearProblem(*ufl.system(equation), bcs=conditions, petsc_options_prefix="heat_", petsc_options=multigrid)
p, q = ufl.TrialFunction(flux_space), ufl.TestFunction(flux_space)
mass = {"ksp_type": "cg", "pc_type": "jacobi", "ksp_rtol": 1e-11}
projection = LinearProblem(
    p * q * ufl.dx, heat.u.dx(0) * q * ufl.dx, u=flux, petsc_options_prefix="flux_", petsc_options=mass
)

time, windows, iterations = 0.0, 0, 0
while adapter.is_coupling_ongoing():
    if adapter.requires_writing_checkpoint():
        adapter.store_checkpoint(before, time, windows)
    step.value = size = adapter.get_max_time_step_size()
    walls.interpolate(lambda x, end=time + size: exact(x, end))
    adapter.read_data(coupling_mesh.get_name(), "Temperature" if is_left else "Heat-Flux", size, received)
    solution = heat.solve()
    if is_left:
        projection.solve()
        adapter.write_data(coupling_mesh.get_name(), "Heat-Flux", flux)
    else:
        adapter.write_data(coupling_mesh.get_name(), "Temperature", solution)
    adapter.advance(size)
    iterations += 1
    if adapter.requires_reading_checkpoint():
        saved, time, windows = adapter.retrieve_checkpoint()
        before.x.array[:] = saved.x.array
    else:
        before.x.array[:] = solution.x.array
        time, windows = time + size, windows + 1

# As preCICE's tutorial measures it: relative to the exact temperature, in the L2 norm.
true = exact(ufl.SpatialCoordinate(domain), time)
square = fem.assemble_scalar(fem.form(((before - true) / true) ** 2 * ufl.dx))
error = float(np.sqrt(comm.allreduce(square, MPI.SUM)))
owned = space.dofmap.index_map.size_local
parts = comm.gather((space.tabulate_dof_coordinates()[:owned], before.x.array[:owned]))
if comm.rank == 0:
    print(
        f"{options.participant}: {space.dofmap.index_map.size_global} unknowns on {comm.size} ranks, "
        f"{windows} time windows, {iterations} iterations, error {error:.2e}",
        flush=True,
    )
    if options.output:
        places, temperatures = (np.concatenate(part) for part in zip(*parts, strict=True))
        # The same order on any number of ranks.
        order = np.lexsort(np.round(places, 10).T)
        np.savez(options.output, x=places[order], temperature=temperatures[order])
adapter.finalize()
