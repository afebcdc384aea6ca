"""What holds for all of the public Python interface: bad values raise one error tree, and no text stands for a list."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import precice_lb
from precice_lb import campaign, case, dataset, ingest, inside, layout, models, partners, recommend, schedule, split
from precice_lb import store as stores
from precice_lb.campaign import launch
from precice_lb.cli import main
from precice_lb.exceptions import DataError, PreciceLBError, ScheduleError, StoreError, StudyError
from precice_lb.export import export_merged
from precice_lb.ingest import profiling
from precice_lb.report.page import Evidence
from precice_lb.watch import Observer

ROOT = Path(__file__).parents[1]
STUDY = ROOT / "configs/pulse.toml"
MISSING = Path("/nowhere/at/all")
# Functions of the command line take tokens, and those of the backend follow preCICE; both have tests of their own.
OTHER_PACKAGES = {"precice_lb.cli", "precice_lb.embedded"}


def pulse() -> case.Configuration:
    """Read the configuration of the tutorial pulse, of Inner and Outer."""
    return case.read_configuration(ROOT / "tutorials/pulse/precice-config.xml")


def one_vertex() -> partners.PartitionedMesh:
    """Make a mesh of one vertex on one rank."""
    return partners.make_mesh("Mesh", "A", [[0.0, 0.0]], [0], 1)


def costs_of_cells() -> inside.FeatureCosts:
    """Make a cost of one second per cell."""
    return inside.FeatureCosts(("cells",), np.array([1.0]), np.array([0.0]))


def one_cell() -> inside.Cells:
    """Make a mesh of one cell."""
    return inside.Cells(np.zeros((1, 2)), ("cells",), np.ones((1, 1)))


# A call with a value that the function cannot use: a file that is not there, a number out of range, no data at all.
BAD_VALUES: dict[str, Callable[[Path], object]] = {
    "precice_lb.CalibrationDesign": lambda _: precice_lb.CalibrationDesign(["A", "B"], 0),
    "precice_lb.calibrate": lambda _: precice_lb.calibrate(MISSING),
    "precice_lb.export_csv": lambda folder: precice_lb.export_csv([MISSING], folder / "table.csv"),
    "precice_lb.export_trace": lambda folder: precice_lb.export_trace([MISSING], folder / "trace.json"),
    "precice_lb.optimize_split": lambda _: precice_lb.optimize_split({"A": [1.0], "B": [1.0]}, 1),
    "precice_lb.recommend_split": lambda _: precice_lb.recommend_split({"A": [(1, -1.0)]}, 8),
    "precice_lb.to_dataframe": lambda _: precice_lb.to_dataframe([MISSING]),
    "precice_lb.watch_run": lambda _: precice_lb.watch_run(MISSING),
    "precice_lb.campaign.load_campaign": lambda folder: campaign.load_campaign(written(folder, "campaign.json").parent),
    "precice_lb.campaign.read_study": lambda _: campaign.read_study(MISSING),
    "precice_lb.campaign.run_campaign": lambda folder: campaign.run_campaign(
        campaign.read_study(STUDY), written(folder, "campaign.json").parent
    ),
    "precice_lb.case.parse_configuration": lambda _: case.parse_configuration("<not closed"),
    "precice_lb.case.patch_configuration": lambda folder: case.patch_configuration(MISSING, folder / "patched.xml"),
    "precice_lb.case.read_configuration": lambda _: case.read_configuration(MISSING),
    "precice_lb.dataset.load_measurements": lambda _: dataset.load_measurements([MISSING]),
    "precice_lb.dataset.load_runs": lambda _: dataset.load_runs([MISSING]),
    "precice_lb.dataset.measurements_from_runs": lambda _: dataset.measurements_from_runs([]),
    "precice_lb.ingest.import_measurements": lambda _: ingest.import_measurements("no format", [MISSING]),
    "precice_lb.ingest.write_csv": lambda _: ingest.write_csv(dataset.Measurements({}), MISSING),
    "precice_lb.ingest.profiling.find_profiles": lambda _: profiling.find_profiles([MISSING]),
    "precice_lb.ingest.profiling.import_profiling": lambda folder: profiling.import_profiling([MISSING], folder),
    "precice_lb.ingest.profiling.read_profile": lambda _: profiling.read_profile(MISSING),
    "precice_lb.inside.balance_of": lambda _: inside.balance_of([]),
    "precice_lb.inside.fit_costs": lambda _: inside.fit_costs([]),
    "precice_lb.inside.partition_of": lambda _: inside.partition_of(costs_of_cells(), one_cell(), 5),
    "precice_lb.inside.read_cells": lambda _: inside.read_cells(MISSING),
    "precice_lb.layout.layout_from": lambda _: layout.layout_from("1 x many"),
    "precice_lb.layout.layouts_of": lambda _: layout.layouts_of([]),
    "precice_lb.models.make_learner": lambda _: models.make_learner("no learner"),
    "precice_lb.partners.connected_ranks": lambda _: partners.connected_ranks([[1.0]], [[2.0]]),
    "precice_lb.partners.make_mesh": lambda _: partners.make_mesh("Mesh", "A", [[0.0, 0.0]], [5], 1),
    "precice_lb.partners.partners_report": lambda _: partners.partners_report(pulse(), {}),
    "precice_lb.partners.read_exports": lambda _: partners.read_exports([MISSING], pulse()),
    "precice_lb.partners.read_mesh_files": lambda _: partners.read_mesh_files("Mesh", "A", [MISSING], 2),
    "precice_lb.partners.read_partition": lambda _: partners.read_partition(MISSING, one_vertex(), 1),
    "precice_lb.partners.read_store_meshes": lambda _: partners.read_store_meshes([MISSING]),
    "precice_lb.recommend.load_sources": lambda _: recommend.load_sources([]),
    "precice_lb.recommend.predictor_of_runs": lambda _: recommend.predictor_of_runs([]),
    "precice_lb.recommend.traced_schedule": lambda _: recommend.traced_schedule([]),
    "precice_lb.schedule.recorded_traces": lambda _: schedule.recorded_traces(pulse(), {}),
    "precice_lb.schedule.replay_residuals": lambda _: schedule.replay_residuals(
        schedule.Schedule.parallel(["A", "B"]), {"A": 1.0}, {}
    ),
    "precice_lb.schedule.schedule_of_traces": lambda _: schedule.schedule_of_traces({}),
    "precice_lb.split.near_optimal_splits": lambda _: split.near_optimal_splits({"A": [1.0], "B": [1.0]}, 1),
    "precice_lb.split.tradeoff_curve": lambda _: split.tradeoff_curve({"A": [1.0], "B": [1.0]}, 1),
    "precice_lb.store.find_stores": lambda _: stores.find_stores([MISSING]),
    "precice_lb.store.read_runs": lambda _: stores.read_runs([MISSING]),
    "precice_lb.store.read_store": lambda _: stores.read_store(MISSING),
}
# Functions that find nothing wrong with what they take: every configuration and every store that was read will do.
TAKE_ALL = {
    "precice_lb.case.accepted_ranks",
    "precice_lb.ingest.profiling.enrich",
    "precice_lb.partners.write_pairs",
    "precice_lb.schedule.cycle_windows",
}


def written(folder: Path, name: str) -> Path:
    """Write a file that no program of ours would write."""
    path = folder / name
    path.write_text("not ours", encoding="utf-8")
    return path


@pytest.mark.parametrize("call", BAD_VALUES.values(), ids=BAD_VALUES)
def test_bad_value_raises_an_error_of_ours_in_one_line(call: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(PreciceLBError) as caught:
        call(tmp_path)

    assert str(caught.value)
    assert "\n" not in str(caught.value)


def public_functions() -> dict[Callable[..., object], str]:
    """Find the functions that packages with a page in the documentation offer, each with its dotted name."""
    packages = [f"precice_lb.{module.name}" for module in pkgutil.iter_modules(precice_lb.__path__)]
    functions = {}
    for package in [*packages, "precice_lb.ingest.profiling"]:
        names = [] if package.endswith("__main__") else getattr(importlib.import_module(package), "__all__", [])
        for name in names:
            value = getattr(importlib.import_module(package), name)
            if inspect.isfunction(value) and package not in OTHER_PACKAGES:
                functions[value] = f"{package}.{name}"
    return functions


def test_each_public_function_is_called_with_a_bad_value() -> None:
    called = set()
    for dotted_name in BAD_VALUES:
        module, _, name = dotted_name.rpartition(".")
        called.add(getattr(importlib.import_module(module), name))

    not_called = [name for function, name in public_functions().items() if function not in called]

    assert sorted(not_called) == sorted(TAKE_ALL)


@pytest.mark.parametrize("present", ["x", "2x", "0"])
def test_present_split_that_is_no_layout_is_refused(present: str) -> None:
    times = {"A": [(1, 1.0), (2, 0.5)], "B": [(1, 1.0), (2, 0.5)]}

    with pytest.raises(PreciceLBError, match=rf"expected ranks, or ranks x threads such as 1x8, found '{present}'"):
        precice_lb.recommend_split(times, 4, present={"A": present, "B": 1})


# Without the refusal, Python would walk over the letters of the text: participants A and B, files c, a, m and p.
TEXT_FOR_LIST: dict[str, tuple[Callable[[Any, Path], object], type[PreciceLBError], str]] = {
    "CalibrationDesign": (lambda text, _: precice_lb.CalibrationDesign(text, 8), DataError, "participants"),
    "calibrate": (lambda text, _: precice_lb.calibrate(STUDY, text), StudyError, "settings"),
    "read_study": (lambda text, _: campaign.read_study(STUDY, text), StudyError, "settings"),
    "export_csv": (lambda text, folder: precice_lb.export_csv(text, folder / "out"), StoreError, "sources"),
    "export_trace": (lambda text, folder: precice_lb.export_trace(text, folder / "out"), StoreError, "sources"),
    "export_merged": (lambda text, folder: export_merged(text, folder), StoreError, "sources"),
    "to_dataframe": (lambda text, _: precice_lb.to_dataframe(text), StoreError, "sources"),
    "watch_run": (lambda text, folder: precice_lb.watch_run(folder, measurements=text), DataError, "measurements"),
    "Observer": (lambda text, folder: Observer(folder, measurements=text), DataError, "measurements"),
    "load_runs": (lambda text, _: dataset.load_runs(text), StoreError, "sources"),
    "load_measurements": (lambda text, _: dataset.load_measurements(text), StoreError, "sources"),
    "load_sources": (lambda text, _: recommend.load_sources(text), DataError, "sources"),
    "import_measurements": (lambda text, _: ingest.import_measurements("csv", text), DataError, "paths"),
    "find_profiles": (lambda text, _: profiling.find_profiles(text), DataError, "sources"),
    "import_profiling": (
        lambda text, folder: profiling.import_profiling(text, folder / "out"),
        DataError,
        "directories",
    ),
    "find_stores": (lambda text, _: stores.find_stores(text), StoreError, "sources"),
    "read_runs": (lambda text, _: stores.read_runs(text), StoreError, "sources"),
    "read_exports": (lambda text, _: partners.read_exports(text, pulse()), DataError, "directories"),
    "read_mesh_files": (lambda text, _: partners.read_mesh_files("Mesh", "A", text, 2), DataError, "files"),
    "read_store_meshes": (lambda text, _: partners.read_store_meshes(text), StoreError, "sources"),
    "Schedule.parallel": (lambda text, _: schedule.Schedule.parallel(text), ScheduleError, "names"),
    "Schedule.serial": (lambda text, _: schedule.Schedule.serial(text), ScheduleError, "names"),
    "schedule_of_traces": (
        lambda text, _: schedule.schedule_of_traces(
            {"A": schedule.Trace((schedule.Point(1.0, text),)), "camp": schedule.Trace(())}
        ),
        ScheduleError,
        'trace of "A": partners',
    ),
    "RankLoad": (lambda text, _: inside.RankLoad("run", text, np.ones((1, 4)), np.ones(1)), DataError, "features"),
    "Cells": (lambda text, _: inside.Cells(np.zeros((1, 2)), text, np.ones((1, 4))), DataError, "features"),
    "write_scripts": (
        lambda text, folder: launch.write_scripts(
            campaign.read_study(STUDY), {"Inner": 1, "Outer": 1}, folder, stated_options=text
        ),
        StudyError,
        "stated_options",
    ),
    "Evidence": (lambda text, _: Evidence(recommendation(), sources=text), DataError, "sources"),
    "main": (lambda text, _: main(text), DataError, "argv"),
}


def recommendation() -> recommend.Recommendation:
    """Recommend a split of four ranks among two participants."""
    times = {"A": [(1, 1.0), (2, 0.5)], "B": [(1, 1.0), (2, 0.5)]}
    return precice_lb.recommend_split(times, 4)


@pytest.mark.parametrize("text", ["camp", Path("camp")], ids=["text", "path"])
@pytest.mark.parametrize(("call", "error", "argument"), TEXT_FOR_LIST.values(), ids=TEXT_FOR_LIST)
def test_one_text_or_path_in_place_of_a_list_is_refused(
    call: Callable[[Any, Path], object], error: type[PreciceLBError], argument: str, text: str | Path, tmp_path: Path
) -> None:
    with pytest.raises(error) as caught:
        call(text, tmp_path)

    assert f"{argument}: expected a list of" in str(caught.value)
    assert str(caught.value).endswith("found 'camp' alone; write ['camp']")


def test_features_of_cells_are_refused_as_one_text(tmp_path: Path) -> None:
    meshio = pytest.importorskip("meshio")
    mesh = tmp_path / "mesh.vtk"
    points = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    meshio.Mesh(points, [("triangle", [[0, 1, 2]])], cell_data={"a": [[1.0]], "b": [[2.0]]}).write(mesh)

    with pytest.raises(DataError, match=r"features: expected a list of names, found 'ab' alone; write \['ab'\]"):
        inside.read_cells(mesh, "ab")


@pytest.mark.parametrize("value", [None, 3])
def test_what_is_no_list_at_all_is_refused(value: Any) -> None:
    with pytest.raises(DataError, match=rf"sources: expected a list of paths, found {value}; give a list"):
        recommend.load_sources(value)
