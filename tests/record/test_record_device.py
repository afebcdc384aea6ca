"""Arrays on a device and kernels that go on after they were started: by a stand-in, and by real libraries."""

from __future__ import annotations

import importlib
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from record_helpers import (
    StandIn,
    configuration,
    only_store,
)

from precice_lb.record import recorder, solver
from precice_lb.record.participant import Backend, recording_class
from precice_lb.record.solver import on_host


class Device:
    """Stands in for CuPy and its GPU: what is launched runs in a thread, one after the other."""

    def __init__(self) -> None:
        self.kernels: queue.Queue[Callable[[], None]] = queue.Queue()
        self.copies = 0
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            self.kernels.get()()
            self.kernels.task_done()

    def synchronize(self) -> None:
        self.kernels.join()

    def array(self, values: Any) -> Any:
        """An array that refuses NumPy's own conversion, as CuPy's do."""
        owner = self

        class Array:
            def __dlpack__(self) -> None:
                raise AssertionError("no copy through DLPack")

            def __array__(self, *_: Any, **__: Any) -> None:
                raise TypeError("Implicit conversion to a NumPy array is not allowed.")

            def get(self) -> Any:
                owner.synchronize()
                owner.copies += 1
                return np.array(values)

        return Array()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = Device()
    module: Any = ModuleType("cupy")
    module.cuda = SimpleNamespace(Device=lambda: made)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(solver, "_WAITS", dict(solver._WAITS))
    monkeypatch.setattr(recorder, "_warned", set())
    return made


class Coupling(StandIn):
    """A backend that keeps what it is given, and lets kernels end that wait for an ``advance``."""

    def __init__(self, name: str, configuration: str, rank: int, size: int) -> None:
        self.written: list[tuple[Any, ...]] = []
        self.entered = threading.Event()

    def write_data(self, mesh: str, data: str, ids: Any, values: Any) -> None:
        self.written.append((mesh, data, ids, values))

    def write_gradient_data(self, mesh: str, data: str, ids: Any, gradients: Any) -> None:
        self.written.append((mesh, data, ids, gradients))

    def advance(self, dt: float) -> None:
        self.entered.set()

    def is_time_window_complete(self) -> bool:
        return True


@pytest.fixture
def participant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A recorded participant of that backend, with the device synchronised or not."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "precice-config.xml").write_text(configuration("parallel-explicit"))

    def make(synchronize: str) -> Any:
        monkeypatch.setenv("PRECICE_LB_SYNCHRONIZE", synchronize)
        module: Any = ModuleType("precice")
        module.__version__, module.get_version_information = "3.4.1", lambda: b"3.4.1"
        made = recording_class(Backend("libprecice", module, Coupling))("A", "precice-config.xml", 0, 1)
        made.initialize()
        return made

    return make


def test_arrays_on_a_device_are_copied_once(gpu: Device, participant: Callable[[str], Any]) -> None:
    coupled = participant("0")
    coupled.write_data("M", "D", [0, 1], gpu.array([1.0, 2.0]))
    coupled.write_gradient_data("M", "D", vertex_ids := [0, 1], gradients=gpu.array([[3.0, 4.0]] * 2))
    host = np.array([5.0, 6.0])
    coupled.write_data("M", "D", vertex_ids, host)
    coupled.write_data("M", "D", vertex_ids, (7.0, 8.0))
    assert gpu.copies == 2
    values = [each[-1] for each in coupled.written]
    assert values[0].tolist() == [1.0, 2.0]
    assert values[1].tolist() == [[3.0, 4.0]] * 2
    # What is on the host stays what it was.
    assert values[2] is host
    assert values[3] == (7.0, 8.0)


PLANTED = 0.02


@pytest.mark.parametrize("last", ["before", "after"])
def test_planted_kernels_count_as_solve_time(gpu: Device, participant: Callable[[str], Any], last: str) -> None:
    coupled = participant("1")
    for _ in range(4):
        kernels = [lambda: time.sleep(PLANTED)] * 2
        gpu.kernels.put(kernels[0])
        if last == "before":
            gpu.kernels.put(kernels[1])
        coupled.write_data("M", "D", [0], np.zeros(1))
        assert gpu.kernels.unfinished_tasks == 0
        if last == "after":
            gpu.kernels.put(kernels[1])
        coupled.advance(0.1)
    coupled.finalize()
    assert (only_store(Path("precice-lb-store")).advances["solve_ns"] >= 2 * PLANTED * 1e9).all()


def test_unless_asked_for_nothing_waits(gpu: Device, participant: Callable[[str], Any]) -> None:
    coupled = participant("0")
    ended = []

    def kernel() -> None:
        # It would never end if something waited for it.
        coupled.entered.wait()
        ended.append(time.perf_counter_ns())

    gpu.kernels.put(kernel)
    coupled.write_data("M", "D", [0], np.zeros(1))
    coupled.advance(0.1)
    gpu.synchronize()
    coupled.finalize()
    assert only_store(Path("precice-lb-store")).advances["begin_ns"][0] < ended[0]


def _function_of(module: str, message: str) -> Any:
    """A function of another module that raises."""
    names: dict[str, Any] = {"__name__": module}
    exec(f"def fail(*_):\n    raise RuntimeError({message!r})", names)
    return names["fail"]


def test_a_device_that_fails_is_one_warning(
    gpu: Device, participant: Callable[[str], Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = _function_of("cupy", "an illegal memory access was encountered")
    coupled = participant("1")
    wrong = gpu.array([1.0])
    monkeypatch.setattr(Device, "synchronize", fail)
    monkeypatch.setattr(type(wrong), "get", fail)
    for _ in range(3):
        coupled.write_data("M", "D", [0], wrong)
        coupled.advance(0.1)
    coupled.finalize()
    assert [each[-1] for each in coupled.written] == [wrong] * 3
    assert len(only_store(Path("precice-lb-store")).advances) == 3
    said = capsys.readouterr().err
    assert said.count("cupy's device is not synchronised any more") == 1
    assert "are given to preCICE as they are: an illegal memory access" in said


def test_what_a_signal_handler_raises_is_the_solver_s(gpu: Device, participant: Callable[[str], Any]) -> None:
    coupled = participant("1")
    gpu.synchronize = _function_of("solver", "time is over")  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="time is over"):
        coupled.advance(0.1)
    coupled.finalize()


def test_a_solver_without_such_a_library_hears_of_it(
    participant: Callable[[str], Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in solver._LIBRARIES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(recorder, "_warned", set())
    coupled = participant("1")
    for _ in range(3):
        coupled.advance(0.1)
    coupled.finalize()
    assert capsys.readouterr().err.count("uses CuPy, PyTorch or JAX, found that it imports none") == 1


def _library(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"{name} is not installed: {error}")


@pytest.fixture
def double_jax() -> Iterator[ModuleType]:
    jax = _library("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield jax
    jax.config.update("jax_enable_x64", before)


def test_attributes_of_the_solver_s_own_objects_are_not_asked_for() -> None:
    class Own:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    values = Own()
    assert on_host(values) is values


def test_real_torch_arrays_are_copied_with_gradient_and_without() -> None:
    torch = _library("torch")
    x = torch.arange(3.0, dtype=torch.float64)
    for values in (x, x.clone().requires_grad_(), x.reshape(3, 1).expand(3, 2)):
        found = on_host(values)
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, values.detach().numpy())


def test_real_jax_arrays_are_copied_and_waited_for(double_jax: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    jnp = double_jax.numpy
    values = jnp.arange(3.0)
    found = on_host(values)
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float64
    assert found.tolist() == [0.0, 1.0, 2.0]
    seen: list[Any] = []
    monkeypatch.setattr(double_jax, "block_until_ready", seen.append)
    solver._wait_for_jax(double_jax)
    assert any(each is values for each in seen[0])


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_kernels_of_a_real_gpu_are_waited_for(library: str) -> None:
    module: Any = _library(library)
    if not (module.cuda.is_available()):
        pytest.skip(f"{library} finds no GPU here")
    make = {"torch": lambda: module.ones((4096, 4096), device="cuda"), "cupy": lambda: module.ones((4096, 4096))}
    matrix = make[library]()
    for _ in range(50):
        matrix = matrix @ matrix / 4096.0
    done = module.cuda.Event()
    done.record()
    solver.synchronize()
    assert done.query() if library == "torch" else done.done
    np.testing.assert_allclose(on_host(matrix)[0, :3], 1.0)
