"""The right box, x from 1 to 3, with a laminate beyond x = 2 in place of the same material all over.

The laminate's layers are thinner than a cell: what it conducts has to be integrated at many points, so that its cells
cost far more than others. The exact temperature is that of heat.py.
"""

import argparse

import dolfinx_solver  # noqa: F401 (brings PETSc; before dolfinx)
import numpy as np
import ufl
from dolfinx import fem, graph, mesh
from dolfinx.cpp.fem import petsc as alone
from dolfinx.fem.petsc import LinearProblem, apply_lifting, assemble_vector, assign
from fenicsxprecice import Adapter, CouplingMesh
from mpi4py import MPI
from petsc4py import PETSc

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--cells", type=int, default=8, help="cells along an edge of length 1 (default: 8)")
parser.add_argument("--degree", type=int, default=16, help="that the laminate is integrated to (default: 16)")
parser.add_argument("--partition", metavar="FILE", help="the rank of each cell, one per line; default: dolfinx's own")
parser.add_argument("--mesh", metavar="FILE.vtu", help="write the cells, and which are laminate, and end")
parser.add_argument("--output", help="NPZ file for the error and the iterations")
options = parser.parse_args()

PERIOD = 0.1  # thickness of two layers


comm = MPI.COMM_WORLD


def exact(x, t):
    return 1 + x[0] ** 2 + 3 * x[1] ** 2 + 2 * x[2] ** 2 + 1.2 * t


def at_interface(x):
    return np.isclose(x[0], 1)


def at_outer_walls(x):
    return np.isclose(x[1] * (1 - x[1]), 0) | np.isclose(x[2] * (1 - x[2]), 0) | np.isclose(x[0], 3)


def create_box(comm, partitioner=None):
    corners, shape = [(1.0, 0.0, 0.0), (3.0, 1.0, 1.0)], [2 * options.cells, options.cells, options.cells]
    return mesh.create_box(comm, corners, shape, partitioner=partitioner)


def laminate_cells(domain):
    return mesh.locate_entities(domain, domain.topology.dim, lambda x: x[0] > 2 - 1e-9)  # all their corners


def write_mesh(path):
    """Write the cells in the order in which a partitioner is given them, and how much of which kind each is."""
    import meshio

    whole = create_box(MPI.COMM_SELF)
    given = np.argsort(whole.topology.original_cell_index)
    laminate = np.zeros(len(given))
    laminate[laminate_cells(whole)] = 1
    counts = {"plain": [1 - laminate[given]], "laminate": [laminate[given]]}
    meshio.Mesh(whole.geometry.x, [("tetra", whole.geometry.dofmaps[0][given])], cell_data=counts).write(path)


def read_partition(path):
    """Make a partitioner of a file; each rank is given a stretch of the cells, one after the other."""
    ranks = np.loadtxt(path, dtype=np.int32, ndmin=1)
    if len(ranks) != 12 * options.cells**3 or ranks.min() < 0 or ranks.max() >= comm.size:
        parser.error(f"{path}: expected ranks below {comm.size} for {12 * options.cells**3} cells, one per line")

    def partitioner(_comm, _parts, _types, cells):
        own = len(cells[0]) // 4
        end = comm.scan(own)
        return graph.adjacencylist(ranks[end - own : end, None])._cpp_object

    return partitioner


class TimedProblem(LinearProblem):
    """A linear problem with a profiling section for what a rank does alone: it waits for nobody there."""

    def solve(self):
        adapter.start_profiling_section("assembly")
        self.A.zeroEntries()
        data = fem.pack_constants(self.a), fem.pack_coefficients(self.a)
        conditions = [condition._cpp_object for condition in self.bcs]
        alone.assemble_matrix(self.A, self.a._cpp_object, *data, conditions)  # that of fem.petsc waits for other ranks
        with self.b.localForm() as all_that_it_knows:
            all_that_it_knows.set(0.0)
        assemble_vector(self.b, self.L)
        apply_lifting(self.b, [self.a], bcs=[self.bcs])
        adapter.stop_last_profiling_section()
        self.A.assemble(PETSc.Mat.AssemblyType.FLUSH)
        alone.insert_diagonal(self.A, self.a.function_spaces[0], conditions, 1.0)
        self.A.assemble()
        self.b.ghostUpdate(PETSc.InsertMode.ADD, PETSc.ScatterMode.REVERSE)
        for condition in self.bcs:
            condition.set(self.b.array_w)
        self.solver.solve(self.b, self.x)
        self.x.ghostUpdate(PETSc.InsertMode.INSERT, PETSc.ScatterMode.FORWARD)
        assign(self.x, self.u)
        return self.u


if options.mesh:
    write_mesh(options.mesh)
    parser.exit()
domain = create_box(comm, read_partition(options.partition) if options.partition else None)
space = fem.functionspace(domain, ("Lagrange", 1))
walls, before, received = fem.Function(space), fem.Function(space), fem.Function(space)
before.interpolate(lambda x: exact(x, 0.0))

# A communicator of its own: see heat.py.
adapter = Adapter(comm.Dup(), "../neumann-fenicsx/precice-adapter-config.json", digit_cutoff=10)
coupling_mesh = CouplingMesh("Neumann-Mesh", at_interface, {"Heat-Flux": space}, {"Temperature": before})
adapter.initialize([coupling_mesh])

own = domain.topology.index_map(3).size_local
laminate = laminate_cells(domain)
kind = np.ones(own + domain.topology.index_map(3).num_ghosts, dtype=np.int32)
kind[laminate] = 2
participant = adapter._participant  # which counts, where precice_lb records
if hasattr(participant, "count"):
    participant.count("laminate", np.sum(kind[:own] == 2))
    participant.count("plain", np.sum(kind[:own] == 1))

x = ufl.SpatialCoordinate(domain)
dx = ufl.Measure("dx", domain=domain, subdomain_data=mesh.meshtags(domain, 3, np.arange(len(kind)), kind))
plain, layered = dx(1), dx(2, metadata={"quadrature_degree": options.degree})
conducts = 1 + 0.9 * ufl.sin(2 * np.pi * (x[0] - 2) / PERIOD)
steady = exact(x, 0.0)
facets = mesh.locate_entities_boundary(domain, 2, at_interface)
interface = ufl.Measure("ds", domain=domain, subdomain_data=mesh.meshtags(domain, 2, np.sort(facets), 1))(1)

u, v = ufl.TrialFunction(space), ufl.TestFunction(space)
step = fem.Constant(domain, adapter.get_max_time_step_size())
equation = ((u - before) / step - 1.2) * v * dx + received * v * interface
for part, conductivity in ((plain, 1), (layered, conducts)):
    equation += conductivity * ufl.inner(ufl.grad(u), ufl.grad(v)) * part
    equation += ufl.div(conductivity * ufl.grad(steady)) * v * part
conditions = [fem.dirichletbc(walls, fem.locate_dofs_geometrical(space, at_outer_walls))]
multigrid = {"ksp_type": "cg", "pc_type": "gamg", "ksp_rtol": 1e-11}
heat = TimedProblem(*ufl.system(equation), bcs=conditions, petsc_options_prefix="heat_", petsc_options=multigrid)

time, windows, iterations = 0.0, 0, 0
while adapter.is_coupling_ongoing():
    if adapter.requires_writing_checkpoint():
        adapter.store_checkpoint(before, time, windows)
    step.value = size = adapter.get_max_time_step_size()
    walls.interpolate(lambda x, end=time + size: exact(x, end))
    adapter.read_data(coupling_mesh.get_name(), "Heat-Flux", size, received)
    solution = heat.solve()
    adapter.write_data(coupling_mesh.get_name(), "Temperature", solution)
    adapter.advance(size)
    iterations += 1
    if adapter.requires_reading_checkpoint():
        saved, time, windows = adapter.retrieve_checkpoint()
        before.x.array[:] = saved.x.array
    else:
        before.x.array[:] = solution.x.array
        time, windows = time + size, windows + 1

true = exact(x, time)
square = fem.assemble_scalar(fem.form(((before - true) / true) ** 2 * ufl.dx))
error = float(np.sqrt(comm.allreduce(square, MPI.SUM)))
if comm.rank == 0:
    print(f"Neumann: {comm.size} ranks, {windows} time windows, {iterations} iterations, error {error:.2e}", flush=True)
    if options.output:
        np.savez(options.output, error=error, iterations=iterations)
adapter.finalize()
