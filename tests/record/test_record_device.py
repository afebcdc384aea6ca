"""Arrays on a device: by a stand-in, and by real libraries."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from record_helpers import StandIn, stand_in

from precice_lb.record import recorder
from precice_lb.record.solver import on_host


class Array:
    """Stands in for CuPy's: it refuses NumPy's own conversion."""

    copies = 0

    def __init__(self, values: Any) -> None:
        self._values = values

    def __dlpack__(self) -> None:
        raise AssertionError("no copy through DLPack")

    def __array__(self, *_: Any, **__: Any) -> None:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self) -> Any:
        Array.copies += 1
        return np.array(self._values)


class Coupling(StandIn):
    """A backend that keeps what it is given."""

    def __init__(self, name: str, configuration: str, rank: int, size: int) -> None:
        self.written: list[Any] = []

    def write_data(self, mesh: str, data: str, ids: Any, values: Any) -> None:
        self.written.append(values)

    def write_gradient_data(self, mesh: str, data: str, ids: Any, gradients: Any) -> None:
        self.written.append(gradients)


@pytest.fixture
def coupled(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A participant of that backend."""
    monkeypatch.setenv("PRECICE_LB_RECORD", "0")
    monkeypatch.setattr(recorder, "_warned", set())
    return stand_in(Coupling, "A", "precice-config.xml", 0, 1)


def test_arrays_on_a_device_are_copied_once(coupled: Any) -> None:
    before = Array.copies
    coupled.write_data("M", "D", [0, 1], Array([1.0, 2.0]))
    coupled.write_gradient_data("M", "D", vertex_ids := [0, 1], gradients=Array([[3.0, 4.0]] * 2))
    host = np.array([5.0, 6.0])
    coupled.write_data("M", "D", vertex_ids, host)
    coupled.write_data("M", "D", vertex_ids, (7.0, 8.0))
    assert Array.copies == before + 2
    first, second, third, fourth = coupled.written
    assert first.tolist() == [1.0, 2.0]
    assert second.tolist() == [[3.0, 4.0]] * 2
    # What is on the host stays what it was.
    assert third is host
    assert fourth == (7.0, 8.0)


def _function_of(module: str, message: str) -> Any:
    """A function of another module that raises."""
    names: dict[str, Any] = {"__name__": module}
    exec(f"def fail(*_):\n    raise RuntimeError({message!r})", names)
    return names["fail"]


def test_a_copy_that_fails_is_one_warning_and_what_a_signal_handler_raises_the_solver_s(
    coupled: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Array([1.0])
    monkeypatch.setattr(Array, "get", _function_of("cupy", "an illegal memory access was encountered"))
    for _ in range(3):
        coupled.write_data("M", "D", [0], wrong)
    assert coupled.written == [wrong] * 3
    assert capsys.readouterr().err.count("are given to preCICE as they are: an illegal memory access") == 1
    monkeypatch.setattr(Array, "get", _function_of("solver", "time is over"))
    with pytest.raises(RuntimeError, match="time is over"):
        coupled.write_data("M", "D", [0], wrong)


def test_attributes_of_the_solver_s_own_objects_are_not_asked_for() -> None:
    class Own:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    values = Own()
    assert on_host(values) is values


def assert_counts_up_to_two(values: Any) -> None:
    """Compare an array of 0, 1 and 2, of which there may be several rows, with its copy on the host."""
    copied = on_host(values)
    assert isinstance(copied, np.ndarray)
    for row in copied.reshape(-1, 3).tolist():
        assert row == [0.0, 1.0, 2.0]


@pytest.mark.arrays
@pytest.mark.parametrize(
    ("library", "make"),
    [
        pytest.param("torch", lambda torch: torch.arange(3.0), id="torch"),
        pytest.param("torch", lambda torch: torch.arange(3.0).requires_grad_(), id="torch with gradient"),
        pytest.param("torch", lambda torch: torch.arange(3.0).reshape(1, 3).expand(2, 3), id="torch expanded"),
        pytest.param("jax", lambda jax: jax.numpy.arange(3.0), id="jax"),
    ],
)
def test_arrays_of_libraries_are_copied(library: str, make: Any) -> None:
    module = pytest.importorskip(library, reason=f"{library} is not installed")

    values = make(module)

    assert_counts_up_to_two(values)


@pytest.mark.arrays
@pytest.mark.parametrize(
    ("library", "make"),
    [
        pytest.param("cupy", lambda cupy: cupy.arange(3.0), id="cupy"),
        pytest.param("torch", lambda torch: torch.arange(3.0, device="cuda"), id="torch"),
        pytest.param("jax", lambda jax: jax.device_put(jax.numpy.arange(3.0), jax.devices("gpu")[0]), id="jax"),
    ],
)
def test_arrays_on_a_gpu_are_copied(library: str, make: Any) -> None:
    try:
        module = importlib.import_module(library)
        values = make(module)
    # Without a GPU libraries raise errors of their own kinds.
    except Exception as error:
        pytest.skip(f"{library} is not installed, or finds no GPU: {error}")

    assert_counts_up_to_two(values)
