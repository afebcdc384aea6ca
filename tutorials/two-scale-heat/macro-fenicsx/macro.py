"""Heat in a bar of 2 x 1 x 1 whose conductivity comes from its microstructure: FEniCSx, coupled by fenicsxprecice.

The end at x = 0 is held at temperature 0, that at x = 2 at 1, and the sides are insulated. An uneven start fades away;
what stays is a profile along the bar that the conductivity determines (steady.py).
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
parser.add_argument("--cells", type=int, default=4, help="finite elements along an edge of length 1 (default: 4)")
parser.add_argument("--output", help="NPZ file for the temperatures of all ranks, by place")
options = parser.parse_args()
if options.cells < 1:
    parser.error(f"argument --cells: expected at least 1, found {options.cells}")


def at_start(x):
    return x[0] / 4 + np.cos(np.pi * x[1]) * np.cos(np.pi * x[2]) * np.sin(np.pi * x[0] / 2) / 4


comm = MPI.COMM_WORLD
edge = options.cells
domain = mesh.create_box(
    comm, [(0.0, 0.0, 0.0), (2.0, 1.0, 1.0)], [2 * edge, edge, edge], cell_type=mesh.CellType.hexahedron
)
space = fem.functionspace(domain, ("Lagrange", 2))
before = fem.Function(space, name="Temperature")
before.interpolate(at_start)
conductivity = fem.Function(fem.functionspace(domain, ("DG", 0)), name="Conductivity")

# One micro problem per finite element, at its middle.
adapter = Adapter(comm, "precice-adapter-config.json", digit_cutoff=10)
everywhere = CouplingMesh(
    "Macro-Mesh", lambda x: x[0] > -1.0, {"Conductivity": conductivity.function_space}, {"Temperature": before}
)
adapter.initialize([everywhere])

u, v = ufl.TrialFunction(space), ufl.TestFunction(space)
step = fem.Constant(domain, adapter.get_max_time_step_size())
equation = (u - before) / step * v * ufl.dx + conductivity * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx
ends = [
    fem.dirichletbc(value, fem.locate_dofs_geometrical(space, lambda x, end=end: np.isclose(x[0], end)), space)
    for end, value in ((0.0, 0.0), (2.0, 1.0))
]
multigrid = {"ksp_type": "cg", "pc_type": "gamg", "ksp_rtol": 1e-10}
heat = LinearProblem(*ufl.system(equation), bcs=ends, petsc_options_prefix="heat_", petsc_options=multigrid)

time, windows, iterations = 0.0, 0, 0
while adapter.is_coupling_ongoing():
    if adapter.requires_writing_checkpoint():
        adapter.store_checkpoint(before, time, windows)
    step.value = size = adapter.get_max_time_step_size()
    adapter.read_data("Macro-Mesh", "Conductivity", size, conductivity)
    solution = heat.solve()
    adapter.write_data("Macro-Mesh", "Temperature", solution)
    adapter.advance(size)
    iterations += 1
    if adapter.requires_reading_checkpoint():
        saved, time, windows = adapter.retrieve_checkpoint()
        before.x.array[:] = saved.x.array
    else:
        before.x.array[:] = solution.x.array
        time, windows = time + size, windows + 1

owned = space.dofmap.index_map.size_local
parts = comm.gather((space.tabulate_dof_coordinates()[:owned], before.x.array[:owned]))
if comm.rank == 0:
    places, temperatures = (np.concatenate(part) for part in zip(*parts, strict=True))
    print(
        f"Macro: {len(temperatures)} unknowns and {2 * edge**3} micro problems on {comm.size} ranks, {windows} time "
        f"windows, {iterations} iterations",
        flush=True,
    )
    if options.output:
        # The same order on any number of ranks.
        order = np.lexsort(np.round(places, 10).T)
        np.savez(options.output, x=places[order], temperature=temperatures[order])
adapter.finalize()
