"""Peers: a straight line in logarithms, and Extra-P in a process of another environment, since it is no dependency."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

__all__ = ["ExtraP", "extra_p", "line_in_logarithms"]

Array = NDArray[np.float64]


def line_in_logarithms(ranks: Array, seconds: Array) -> Callable[[Array], Array]:
    """Fit seconds as a power of the ranks; of one reading, perfect scaling. The curve's shape is (1, ranks)."""
    x, y = np.log(ranks), np.log(seconds)
    slope, level = np.polyfit(x, y, 1) if len(ranks) > 1 else (-1.0, float(x[0] + y[0]))
    return lambda other: np.exp(level + slope * np.log(other))[None]


@lru_cache(maxsize=1)
def extra_p(python: str | None) -> ExtraP:
    """Start Extra-P's process, which ends with this one."""
    if python is None:
        raise ValueError("extra-p needs the Python of an environment that has extrap 4.2.5")
    return ExtraP(python)


class ExtraP:
    """Extra-P's single-parameter modeler with negative exponents, in a process of its own.

    Parameters
    ----------
    python
        The Python of an environment that has extrap 4.2.5.
    """

    def __init__(self, python: str) -> None:
        worker = str(Path(__file__).with_name("extrap_worker.py"))
        self._process = subprocess.Popen([python, worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> ExtraP:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def curve(self, ranks: Array, seconds: Array, highest: int) -> Array:
        """Predicted seconds at 1 … highest ranks, whatever their sign, infinite for none, shape (1, highest)."""
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        assert pipe_in is not None
        assert pipe_out is not None
        request = {"ranks": ranks.tolist(), "seconds": seconds.tolist(), "highest": highest}
        pipe_in.write(json.dumps(request) + "\n")
        pipe_in.flush()
        answer = pipe_out.readline()
        if not answer:
            raise RuntimeError(f"Extra-P's process ended with exit code {self._process.wait()}")
        predicted = np.array([json.loads(answer)["seconds"]], dtype=np.float64)
        return np.where(np.isfinite(predicted), predicted, np.inf)

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=30)
        if self._process.stdout is not None:
            self._process.stdout.close()
