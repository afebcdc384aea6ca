"""The registry of run metadata: every key with its type, unit, meaning and check."""

from __future__ import annotations

import json
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from precice_lb.exceptions import StoreError

__all__ = ["METADATA", "USER_KEYS", "MetadataKey"]

_TYPES: dict[str, type | tuple[type, ...]] = {
    "text": str,
    "integer": numbers.Integral,
    "real": numbers.Real,
    "boolean": bool,
    "object": Mapping,
}


@dataclass(frozen=True)
class MetadataKey:
    """One key of the metadata.

    Attributes
    ----------
    name : str
        The HDF5 attribute.
    kind : str
        ``text``, ``integer``, ``real``, ``boolean`` or ``object`` (kept as JSON text).
    description : str
        What it says.
    unit : str
        Unit of a number, empty otherwise.
    required : bool
        Whether every store has it.
    check : callable or None
        Takes a value of the right type, returns what is expected if it is not that, else None.
    """

    name: str
    kind: str
    description: str
    unit: str = ""
    required: bool = False
    check: Callable[[Any], str | None] | None = None

    def problem(self, value: Any) -> str | None:
        """Say what is wrong with a value.

        Parameters
        ----------
        value : object
            The value to check.

        Returns
        -------
        str or None
            "expected …, found …", or None if the value is fine.
        """
        wanted = _TYPES[self.kind]
        expected: str | None = None
        if not isinstance(value, wanted) or (isinstance(value, bool) and self.kind != "boolean"):
            expected = f"a value of type {self.kind}"
        elif self.check is not None:
            expected = self.check(value)
        return None if expected is None else f"metadata {self.name}: expected {expected}, found {value!r}"


def _at_least(bound: int) -> Callable[[Any], str | None]:
    return lambda value: None if value >= bound else f"at least {bound}"


def _not_empty(value: str) -> str | None:
    return None if value else "text that is not empty"


def _digest(value: str) -> str | None:
    fine = len(value) == 64 and all(c in "0123456789abcdef" for c in value)
    return None if fine else "64 hexadecimal digits"


def _positive_numbers(value: Mapping[str, Any]) -> str | None:
    fine = all(
        isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number) and number > 0
        for number in value.values()
    )
    return None if fine else "positive numbers by participant"


def _core_list(value: str) -> str | None:
    return None if re.fullmatch(r"\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?)*", value) else "cores such as 0-3,8"


def _json(value: Mapping[str, Any]) -> str | None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return "an object that JSON can hold"
    return None


METADATA: dict[str, MetadataKey] = {
    key.name: key
    for key in (
        MetadataKey("participant", "text", "name of the participant", required=True, check=_not_empty),
        MetadataKey("rank", "integer", "rank within the participant", required=True, check=_at_least(0)),
        MetadataKey("size", "integer", "ranks of the participant", required=True, check=_at_least(1)),
        MetadataKey("attempt", "integer", "run into the same directory, from 1", required=True, check=_at_least(1)),
        MetadataKey("hostname", "text", "host the rank ran on"),
        MetadataKey("cpu_model", "text", "processor of that host"),
        MetadataKey("backend", "text", "coupling backend: libprecice or embedded", required=True, check=_not_empty),
        MetadataKey("precice_version", "text", "version of the backend"),
        MetadataKey("precice_lb_version", "text", "version of this package"),
        MetadataKey("python_version", "text", "version of Python"),
        MetadataKey("configuration_path", "text", "absolute path of precice-config.xml"),
        MetadataKey("configuration_hash", "text", "SHA-256 of the configuration's bytes", check=_digest),
        MetadataKey("case", "text", "fingerprint of the coupled case", required=True, check=_digest),
        MetadataKey("clock", "text", "clock of all durations", required=True, check=_not_empty),
        MetadataKey("clock_resolution", "real", "resolution of that clock", unit="s"),
        MetadataKey("started_clock_ns", "integer", "that clock when recording began", unit="ns", required=True),
        MetadataKey("started_unix_ns", "integer", "Unix time when recording began", unit="ns", required=True),
        MetadataKey("ended_unix_ns", "integer", "Unix time when the file was closed", unit="ns"),
        MetadataKey("finished", "boolean", "whether the coupling came to its end", required=True),
        MetadataKey("pid", "integer", "process"),
        MetadataKey("working_directory", "text", "working directory of the solver"),
        MetadataKey("command", "text", "command line of the solver"),
        MetadataKey("cpus", "text", "cores that the rank may run on, such as 0-3,8", check=_core_list),
        MetadataKey("emulated_load", "boolean", "whether the solver emulates its load (precice_lb.emulation)"),
        MetadataKey("receives_data", "boolean", "whether the rank receives coupling data"),
        MetadataKey("timing_source", "text", "where mapping and wait come from", check=_not_empty),
        MetadataKey("timing_problem", "text", "why mapping or wait are missing, and the remedy", check=_not_empty),
        MetadataKey("recording_problem", "text", "what is missing in the recording, and why", check=_not_empty),
        MetadataKey("run", "text", "name of the coupled run", check=_not_empty),
        MetadataKey("warmup_windows", "integer", "time windows to leave out", unit="1", check=_at_least(0)),
        MetadataKey("degrees_of_freedom", "object", "unknowns by participant", unit="1", check=_positive_numbers),
        MetadataKey("parameters", "object", "parameters of the case", check=_json),
    )
}
"""Every key a store may have, by name."""

USER_KEYS = ("run", "warmup_windows", "degrees_of_freedom", "parameters")
"""Keys that whoever starts a run may give (``PRECICE_LB_METADATA``)."""


def validate(values: Mapping[str, Any], *, keys: Iterable[str] | None = None, complete: bool = False) -> dict[str, Any]:
    """Check metadata against the registry.

    Raises
    ------
    StoreError
        If a key is unknown or missing, or a value is not what the registry says.
    """
    allowed = tuple(METADATA if keys is None else keys)
    for name, value in values.items():
        if name not in allowed:
            raise StoreError(f"metadata {name}: expected one of {', '.join(allowed)}, found an unknown key")
        problem = METADATA[name].problem(value)
        if problem is not None:
            raise StoreError(problem)
    if complete:
        missing = [name for name in allowed if METADATA[name].required and name not in values]
        if missing:
            raise StoreError(f"metadata {', '.join(missing)}: expected a value, found none")
    return dict(values)


def encode(name: str, value: Any) -> Any:
    """Turn a value into what an HDF5 attribute holds."""
    return json.dumps(value, allow_nan=False) if METADATA[name].kind == "object" else value


def decode(name: str, value: Any) -> Any:
    """Turn an HDF5 attribute back into a value.

    Raises
    ------
    StoreError
        If the attribute does not hold what the registry says.
    """
    key = METADATA[name]
    if key.kind == "object":
        try:
            value = json.loads(value)
        except (TypeError, ValueError):
            raise StoreError(f"metadata {name}: expected a JSON object, found {value!r}") from None
    elif hasattr(value, "item"):
        value = value.item()
    problem = key.problem(value)
    if problem is not None:
        raise StoreError(problem)
    return value
