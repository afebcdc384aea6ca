"""Who may import whom: the table of docs/design.md, enforced on the real import graph."""

from __future__ import annotations

import sys

import grimp
import pytest

# room -> (rooms or modules it may import, third-party packages it may import)
TABLE: dict[str, tuple[set[str], set[str]]] = {
    "exceptions": (set(), set()),
    "plural": (set(), set()),
    "version": (set(), set()),
    "store": (set(), {"numpy", "h5py"}),
    "record": (
        {"store.meshes", "store.schema", "store.writer", "embedded", "version"},
        {"numpy", "mpi4py", "precice", "cyprecice"},
    ),
    "embedded": ({"precice_xml"}, {"numpy", "scipy", "mpi4py"}),
    "precice_xml": (set(), set()),
    "dataset": ({"store.reader", "store.schema"}, {"numpy"}),
    "check": ({"dataset"}, {"numpy"}),
    "ingest": ({"store", "dataset", "precice_xml"}, {"numpy"}),
    "models": (set(), {"numpy", "scipy", "sklearn"}),
    "schedule": ({"precice_xml"}, {"numpy"}),
    "split": ({"schedule"}, {"numpy", "scipy"}),
    "recommend": ({"dataset", "ingest", "models", "precice_xml", "schedule", "split"}, {"numpy", "scipy"}),
    "partners": (
        {"ingest.profiling", "precice_xml", "store.meshes", "store.reader"},
        {"numpy", "scipy", "h5py", "mpi4py"},
    ),
    "emulation": (set(), {"mpi4py", "numpy"}),
    "calibrate": (
        {"check", "dataset", "ingest.profiling", "models", "precice_xml", "recommend", "record.programs", "schedule"},
        {"numpy", "pydantic", "tomli"},
    ),
    "report": (
        {
            "calibrate",
            "check",
            "dataset",
            "emulation",
            "models",
            "partners",
            "precice_xml",
            "recommend",
            "schedule",
            "split",
            "store",
            "watch",
        },
        {"numpy", "matplotlib", "rich", "jinja2"},
    ),
    "export": ({"ingest.profiling", "precice_xml", "store"}, {"numpy", "pandas", "xarray"}),
    "watch": ({"check", "dataset", "ingest", "precice_xml", "recommend", "schedule", "store"}, {"numpy"}),
    "cli": ({"*"}, {"cyclopts", "rich", "numpy"}),
    "__main__": ({"cli", "record"}, set()),
}
ROOT = "precice_lb"


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(ROOT, include_external_packages=True, exclude_type_checking_imports=False, cache_dir=None)


def _room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ROOT


def _modules(graph: grimp.ImportGraph) -> list[str]:
    return sorted(module for module in graph.modules if module.split(".")[0] == ROOT)


def _may_import(room: str, imported: str) -> bool:
    allowed, _ = TABLE[room]
    inside = imported.removeprefix(f"{ROOT}.")
    if _room(imported) in {room, "exceptions", "plural"} or ("*" in allowed and _room(imported) != "__main__"):
        return True
    return any(inside == name or inside.startswith(f"{name}.") for name in allowed)


def test_every_room_stands_in_the_table(graph: grimp.ImportGraph) -> None:
    rooms = {_room(module) for module in _modules(graph)} - {ROOT}
    assert rooms == set(TABLE)


def test_rooms_import_only_what_the_table_says(graph: grimp.ImportGraph) -> None:
    wrong = []
    for module in _modules(graph):
        if module == ROOT:
            continue
        for imported in graph.find_modules_directly_imported_by(module):
            top = imported.split(".")[0]
            if top == ROOT:
                if not _may_import(_room(module), imported):
                    wrong.append(f"{module} imports {imported}")
            elif top not in sys.stdlib_module_names and top not in TABLE[_room(module)][1]:
                wrong.append(f"{module} imports {top}")
    assert wrong == []


def test_the_package_itself_imports_no_room_but_record_and_the_facade(graph: grimp.ImportGraph) -> None:
    imported = graph.find_modules_directly_imported_by(ROOT)
    rooms = {_room(name) for name in imported if name.split(".")[0] == ROOT} - {ROOT}
    assert rooms <= {"record", "recommend", "split", "calibrate", "exceptions", "export", "watch"}


def test_the_checker_sees_a_forbidden_import() -> None:
    assert not _may_import("models", "precice_lb.store.reader")
    assert not _may_import("record", "precice_lb.store.reader")
    assert not _may_import("report", "precice_lb.cli")
    assert _may_import("record", "precice_lb.store.writer")
