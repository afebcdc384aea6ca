"""``run`` is to a solver what ``python`` is: arguments, paths, endings, tracebacks; and every way to import preCICE."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from record_helpers import BACKENDS, program, python

PROBE = '''
"""Says how it was started."""
import atexit, os, pickle, sys

class Thing:
    def __eq__(self, other): return True

kept = ["global"]
atexit.register(lambda: print("at exit", kept, sys.modules["__main__"].__dict__["kept"] is kept))
print(__name__, __doc__, sys.argv, os.path.abspath(sys.path[0]), __file__, __package__)
print(type(__loader__).__name__, __spec__ and (__spec__.name, __spec__.origin), type(__builtins__).__name__)
print(sorted(globals()), sys.modules["__main__"].__dict__ is globals(), pickle.loads(pickle.dumps(Thing())) == Thing())
print("numpy" in sys.modules, "precice" in sys.modules, "mpi4py" in sys.modules)
print(sys.path.count(sys.path[0]), __annotations__ if "__annotations__" in globals() else {})
'''

ENDINGS = {
    "exit code": "import sys; sys.exit(3)",
    "hard exit": "import os; os._exit(5)",
    "chained": "try:\n    {}['a']\nexcept KeyError as error:\n    raise RuntimeError('worse') from error",
    "interrupt": "raise KeyboardInterrupt",
    "syntax": "print('no'\nx = = 1",
    "own hook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0], a[2].tb_frame.f_code.co_name)\n1 / 0",
}


def _both(directory: Path, *arguments: str) -> list[subprocess.CompletedProcess[str]]:
    """Run by plain python and by us."""
    return [python(directory, *options, *arguments) for options in ([], ["-m", "precice_lb", "run"])]


@pytest.mark.parametrize(
    "where",
    ["probe.py", "sub/probe.py", "link.py", "./solver", "sub", "solver.pyz", "-m probe", "-m sub", "-m sub.deep.inner"],
)
def test_a_solver_sees_what_python_shows_it(tmp_path: Path, where: str) -> None:
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    for path in ("probe.py", "sub/probe.py", "sub/__main__.py", "sub/deep/inner.py"):
        (tmp_path / path).write_text(PROBE)
    (tmp_path / "link.py").symlink_to(tmp_path / "sub" / "probe.py")
    # The probe shows its path under sys.path; that of python includes the archive.
    with zipfile.ZipFile(tmp_path / "solver.pyz", "w") as archive:
        archive.writestr("__main__.py", PROBE)
    program(tmp_path / "solver", f"#!{sys.executable} -u\n{PROBE}")
    plain, ours = _both(tmp_path, *where.split(), "-x", "--flag=1", "-m", "a b")
    assert plain.returncode == 0, plain.stderr
    assert (ours.stdout, ours.stderr, ours.returncode) == (plain.stdout, plain.stderr, 0)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_solver_ends_as_under_python(tmp_path: Path, ending: str) -> None:
    (tmp_path / "solver.py").write_text(ENDINGS[ending])
    plain, ours = _both(tmp_path, "solver.py")
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.py"], "nowhere.py: expected a Python script or a program, found none of that name here, beside "),
        (["./run.sh"], "./run.sh: expected a program that can be executed, found one without the permission; chmod +x"),
        (["stale"], "./stale: expected a program that can be executed, found: No such file or directory; see whether"),
        (["headless"], "./headless: expected a program that can be executed, found: Exec format error; see whether"),
        ([], "usage: precice-lb run"),
    ],
)
def test_nothing_to_run_is_one_line_and_exit_code_2(tmp_path: Path, arguments: list[str], words: str) -> None:
    (tmp_path / "run.sh").write_text("#!/bin/sh\npython3 solver.py\n")
    for name, text in (("stale", "#!/elsewhere/bin/python3\n"), ("headless", "print()\n")):
        program(tmp_path / name, text)
    ours = _ours(tmp_path, *arguments)
    assert (ours.returncode, ours.stdout, ours.stderr.count("\n")) == (2, "", 1)
    assert words in ours.stderr


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_a_python_that_would_not_record_is_refused(tmp_path: Path, option: str) -> None:
    (tmp_path / "solver.py").write_text("print('ran')")
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; from precice_lb.record.run import run; sys.exit(run(['solver.py']))"
    )
    ours = python(tmp_path, option, "-c", code)
    assert (ours.returncode, ours.stdout) == (2, "")
    assert "expected a Python without the options -I, -E and -S" in ours.stderr


def _ours(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return python(directory, "-m", "precice_lb", "run", *arguments, **variables)


def test_a_program_of_the_path_comes_before_a_file_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for path, text in (("bin/launcher", "path"), ("launcher", "here"), ("bin/solver.py", "path")):
        program(tmp_path / path, f"#!/bin/sh\necho {text}\n")
    (tmp_path / "solver.py").write_text("print('here')")
    path = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
    shown = {name: _ours(tmp_path, name, PATH=path).stdout for name in ("launcher", "./launcher", "solver.py")}
    assert shown == {"launcher": "path\n", "./launcher": "here\n", "solver.py": "here\n"}
    assert _ours(tmp_path, "launcher").stdout == "here\n"


IDIOMS = """
import sys
from FIRST import Participant as P
import adapter, precice, cyprecice, precice_lb
from cyprecice import Participant
def annotated(p: P) -> None: ...
assert P.__module__ == "precice_lb", P
for other in (precice, cyprecice, precice_lb):
    assert other.Participant is adapter.kept is Participant is P
assert precice.get_version_information() == precice_lb.get_version_information()
assert isinstance(precice.get_version_information(), bytes)
assert precice.__version__ == precice_lb.__version__
assert precice.__spec__.name == "precice" and cyprecice.__spec__.name == "cyprecice"
from enum import Enum
class Participant(Enum):
    MASS_LEFT = "Mass-Left"
print(precice.__version__, P.__mro__[1].__module__)
"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("first", ["precice", "cyprecice", "precice_lb"])
def test_every_way_to_import_precice_gives_the_recording_participant(tmp_path: Path, backend: str, first: str) -> None:
    (tmp_path / "adapter.py").write_text("from precice import Participant as kept\n")
    (tmp_path / "solver.py").write_text(IDIOMS.replace("FIRST", first))
    ours = _ours(tmp_path, "solver.py", PRECICE_LB_BACKEND=backend)
    assert (ours.returncode, ours.stderr) == (0, "")
    assert ("cyprecice" if backend == "libprecice" else "precice_lb.embedded") in ours.stdout


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            "raise ImportError('libprecice.so.3: cannot open shared object file')",
            "ImportError: libprecice.so.3: cannot open shared object file",
        ),
        ("raise RuntimeError('cannot load MPI library')", "RuntimeError: cannot load MPI library"),
        ("Interface = object", "has no Participant: expected pyprecice 3.2 or newer"),
    ],
)
def test_a_pyprecice_that_cannot_be_imported_is_refused_with_what_the_loader_says(
    tmp_path: Path, module: str, message: str
) -> None:
    (tmp_path / "precice.py").write_text(module)
    (tmp_path / "solver.py").write_text("import precice; print(precice.__version__, precice.Participant.__mro__[1])")
    for backend in ("", "libprecice"):
        ours = _ours(tmp_path, "solver.py", PRECICE_LB_BACKEND=backend)
        assert (ours.returncode, ours.stdout) == (1, "")
        last = ours.stderr.splitlines()[-1]
        assert "BackendError: pyprecice is installed but cannot be imported: " in last
        assert message in last
        assert "PRECICE_LB_BACKEND=embedded" in last
    ours = _ours(tmp_path, "solver.py", PRECICE_LB_BACKEND="embedded")
    assert (ours.returncode, ours.stderr) == (0, "")
    assert "embedded" in ours.stdout


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("libprecice", "BackendError: PRECICE_LB_BACKEND=libprecice: expected an importable pyprecice, found: "),
        ("openmp", "expected one of libprecice, embedded, found 'openmp'"),
        # A directory of that name is none.
        ("", ""),
    ],
)
def test_a_backend_that_is_not_there_is_an_error_that_says_so(tmp_path: Path, backend: str, words: str) -> None:
    if importlib.util.find_spec("precice") is not None:
        pytest.skip("pyprecice is installed, and comes before an empty namespace package")
    (tmp_path / "precice").mkdir()
    (tmp_path / "solver.py").write_text("import precice; print(precice.__version__)")
    ours = _ours(tmp_path, "solver.py", PRECICE_LB_BACKEND=backend)
    assert (ours.returncode, "embedded" in ours.stdout) == (int(bool(words)), not words)
    assert words in ours.stderr.splitlines()[-1] if words else ours.stderr == ""


def test_the_package_alone_loads_nothing_and_offers_everything() -> None:
    code = """
import sys
before = set(sys.modules)
import precice_lb
loaded = {name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
assert loaded == {"precice_lb"}, loaded
from precice_lb import exceptions
assert "precice_lb.record.participant" not in sys.modules
assert not hasattr(precice_lb, "nonsense")
assert {"Participant", "get_version_information", "__version__", "recommend_split"} <= set(dir(precice_lb))
for name in dir(precice_lb):
    getattr(precice_lb, name)
"""
    result = python(None, "-c", code, PRECICE_LB_BACKEND="embedded")
    assert (result.returncode, result.stderr) == (0, "")


def test_names_are_listed_also_where_pyprecice_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "precice.py").write_text("raise ImportError('libprecice.so.3: no such file')")
    (tmp_path / "names.py").write_text("import precice_lb; print(*dir(precice_lb)); precice_lb.Participant")

    result = python(tmp_path, "names.py", PYTHONPATH=f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}")

    assert "recommend_split" in result.stdout.split()
    assert "Participant" not in result.stdout.split()
    assert "BackendError: pyprecice is installed but cannot be imported: ImportError: libprecice.so.3" in result.stderr
