"""The subcommand that shows partner ranks before a launch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precice_lb.cli.app import app, by_participant, named_values
from precice_lb.cli.flow import Format, Output, name_files, print_result
from precice_lb.exceptions import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from precice_lb.case import Configuration
    from precice_lb.partners import PartitionedMesh


@app.command
def partners(
    *sources: Path,
    config: Path | None = None,
    mesh: list[str] | None = None,
    ranks: list[str] | None = None,
    partition: list[str] | None = None,
    iterations: float = 1.0,
    constants: list[str] | None = None,
    format: Format = "table",
    output: Output = None,
) -> int:
    """Show which ranks of coupled participants will talk to each other, before the production run.

    preCICE decides it at start-up: with two-level initialisation bounding boxes connect ranks (level 1), and mappings
    decide which of them exchange data (level 2). The report counts both, with the data per time window, memory and
    start-up time in one and in two levels, and what to change.

    Example: precice-lb partners precice-exports --config precice-config.xml --ranks Fluid=3072,Solid=1024

    Parameters
    ----------
    sources
        Directories of <export:csv> files, or of stores: all of them give level 1, those recorded with
        PRECICE_LB_MESHES=coordinates the rest. Compiled solvers leave no meshes in stores: for them <export:csv>.
    config
        The precice-config.xml; stores carry their own.
    mesh
        A mesh from files that meshio reads, one per rank: Fluid-Mesh=fluid.0.vtu,fluid.1.vtu. Needs the extra meshio.
    ranks
        Forecast for other numbers of ranks: Fluid=3072,Solid=1024.
    partition
        A partition of your own for the forecast, instead of recursive coordinate bisection: Fluid-Mesh=ranks.txt, one
        rank per line.
    iterations
        Coupling iterations per time window.
    constants
        Constants of the start-up model, in seconds and bytes, instead of the stated ones: latency=1e-6,file=0.01.
    output
        Also write partners.json, partners.h5 (all pairs, sparse) and pictures into this directory.
    """
    from precice_lb.partners import CostModel, partners_report
    from precice_lb.partners.view import partners_blocks, write_partners

    files = _by_mesh(mesh, "--mesh", "files", lambda text: text.split(","))
    configuration, meshes, regions = _meshes(sources, config, files)
    names = list(configuration.participants)
    stated = by_participant(constants or [], list(CostModel().to_dict()), "--constants", float)
    report = partners_report(
        configuration,
        meshes,
        regions,
        ranks=by_participant(ranks, names, "--ranks", int) if ranks else None,
        partitions=_by_mesh(partition, "--partition", "a file", Path),
        iterations=iterations,
        model=CostModel(**stated),
    )
    print_result(format, lambda: partners_blocks(report), report.to_dict)
    if output is not None:
        name_files(write_partners(report, output), format)
    return 0


def _by_mesh(texts: list[str] | None, option: str, what: str, read: Callable[[str], Any]) -> dict[str, Any]:
    return named_values(texts or [], option, f"mesh={what}", lambda _, text: read(text), single=True)


def _meshes(
    sources: tuple[Path, ...], config: Path | None, files: dict[str, list[str]]
) -> tuple[Configuration, dict[str, PartitionedMesh], dict[str, NDArray[np.float64]]]:
    from precice_lb.case import read_configuration
    from precice_lb.partners import read_exports, read_mesh_files, read_store_meshes
    from precice_lb.store.reader import stores_below

    if not sources and not files:
        raise DataError("expected a directory of <export:csv> files or of stores, or --mesh, found none; name one")
    folders = [source for source in sources if source.is_dir()]
    exported = any(next(folder.glob("*.csv"), None) for folder in folders)
    stores = not exported and any(map(stores_below, folders))
    if config is None and not stores:
        raise DataError("--config: expected the precice-config.xml of the case, found none; name it")
    meshes: dict[str, PartitionedMesh] = {}
    regions: dict[str, NDArray[np.float64]] = {}
    if stores:
        configuration, meshes, regions = read_store_meshes(sources)
    if config is not None:
        configuration = read_configuration(config)
    if sources and not stores:
        meshes = read_exports(sources, configuration)
    providers = configuration.providers
    for name, paths in files.items():
        if name not in providers:
            raise DataError(f"--mesh: expected a provided mesh of {config} ({', '.join(providers)}), found {name!r}")
        dimensions = configuration.meshes[name].dimensions
        meshes[name] = read_mesh_files(name, providers[name], paths, dimensions)
    return configuration, meshes, regions
