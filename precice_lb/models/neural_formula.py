"""Small neural networks as arrays and as expressions: stored models need no scikit-learn objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.models.formula import Expression, names_of

__all__ = ["Network", "NetworkFormula"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Network:
    """Dense layers of rectified linear units with one linear output.

    Attributes
    ----------
    weights : tuple of arrays of shape (inputs, outputs)
        Layer by layer.
    offsets : tuple of arrays of shape (outputs,)
        Layer by layer.
    """

    weights: tuple[Array, ...]
    offsets: tuple[Array, ...]

    def __call__(self, inputs: Array) -> Array:
        """Output for each row of inputs, shape (n,)."""
        values = inputs
        for layer, (weights, offsets) in enumerate(zip(self.weights, self.offsets, strict=True)):
            values = values @ weights + offsets
            if layer < len(self.weights) - 1:
                values = np.maximum(values, 0.0)
        return np.asarray(values[:, 0], dtype=np.float64)

    def python(self, inputs: str) -> str:
        """Python expression of a list of inputs."""
        values = inputs
        for layer, (weights, offsets) in enumerate(zip(self.weights, self.offsets, strict=True)):
            rows = [[*column, offset] for column, offset in zip(weights.T.tolist(), offsets.tolist(), strict=True)]
            total = "sum(w * v for w, v in zip(row, h)) + row[-1]"
            if layer < len(self.weights) - 1:
                total = f"max(0.0, {total})"
            values = f"(lambda h: [{total} for row in {rows!r}])({values})"
        return f"{values}[0]"


@dataclass(frozen=True, eq=False)
class NetworkFormula(Expression):
    """Two to the mean output of several networks.

    Attributes
    ----------
    networks : tuple of Network
        In the order of their seeds.
    low, width : arrays of shape (d,)
        Inputs are (x - low) / width.
    centre, scale : float
        log2 of the seconds is centre + scale times the output.
    log_inputs : bool
        Whether x is log2 of ranks and parameters.
    """

    networks: tuple[Network, ...]
    low: Array
    width: Array
    centre: float
    scale: float
    log_inputs: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Of ranks and parameters."""
        return names_of(len(self.low))

    def log2(self, points: Array) -> Array:
        """log2 of the seconds by each network, shape (networks, n), for points of shape (n, d)."""
        inputs = ((np.log2(points) if self.log_inputs else points) - self.low) / self.width
        return np.stack([self.centre + self.scale * network(inputs) for network in self.networks])

    def __call__(self, points: ArrayLike) -> Array:
        """Seconds at each row of ranks and parameters, shape (n,)."""
        rows = np.asarray(points, dtype=np.float64).reshape(-1, len(self.low))
        return np.asarray(np.exp2(np.clip(self.log2(rows).mean(axis=0), -900.0, 900.0)), dtype=np.float64)

    def text(self, digits: int = 4) -> str:
        """Plain text: what kind of networks, not their weights."""
        layers = " + ".join(str(len(offset)) for offset in self.networks[0].offsets[:-1])
        names = ", ".join(self._names("log2({})" if self.log_inputs else "{}"))
        return (
            f"2^({self.centre:.{digits}g} + {self.scale:.{digits}g}·mean of {len(self.networks)} networks of {layers} "
            f"neurons in {names})"
        )

    def latex(self, digits: int = 4) -> str:
        """LaTeX for math mode, with the networks as functions N_k."""
        names = ", ".join(self._names(r"\log_2({})" if self.log_inputs else "{}"))
        count = len(self.networks)
        inner = rf"\frac{{1}}{{{count}}} \sum_{{k=1}}^{{{count}}} N_k({names})"
        return rf"2^{{{self.centre:.{digits}g} + {self.scale:.{digits}g} \cdot {inner}}}"

    def python(self) -> str:
        """Python expression of ``p``, ``x1``, … at full precision; long."""
        names = self._names("math.log2({})" if self.log_inputs else "{}")
        inputs = ", ".join(
            f"({name} - {low!r}) / {width!r}"
            for name, low, width in zip(names, self.low.tolist(), self.width.tolist(), strict=True)
        )
        outputs = " + ".join(network.python(f"[{inputs}]") for network in self.networks)
        return f"2 ** ({self.centre!r} + {self.scale!r} * ({outputs}) / {len(self.networks)})"

    def to_dict(self) -> dict[str, Any]:
        """Give what describes the networks as plain JSON types; the weights are in the stored model."""
        return {
            "networks": len(self.networks),
            "layers": [len(offsets) for offsets in self.networks[0].offsets],
            "low": self.low.tolist(),
            "width": self.width.tolist(),
            "centre": self.centre,
            "scale": self.scale,
            "log_inputs": self.log_inputs,
        }

    def weights(self) -> dict[str, Any]:
        """Give everything as plain JSON types, read back by `from_weights`."""
        return super().to_dict()

    @classmethod
    def from_weights(cls, data: Mapping[str, Any]) -> NetworkFormula:
        """Read what `weights` gave."""
        networks = tuple(
            Network(
                tuple(np.asarray(w, dtype=np.float64) for w in member["weights"]),
                tuple(np.asarray(b, dtype=np.float64) for b in member["offsets"]),
            )
            for member in data["networks"]
        )
        low, width = (np.asarray(data[name], dtype=np.float64) for name in ("low", "width"))
        return cls(networks, low, width, float(data["centre"]), float(data["scale"]), bool(data["log_inputs"]))

    def _names(self, form: str) -> list[str]:
        return [form.format(name) for name in self.names]
