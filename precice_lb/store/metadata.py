"""The registry of run metadata: every key with its type, unit, meaning and check."""

from __future__ import annotations

import json
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from precice_lb.exceptions import StoreError

_TYPES: dict[str, type | tuple[type, ...]] = {
    "text": str,
    "integer": numbers.Integral,
    "real": numbers.Real,
    "boolean": bool,
    "object": Mapping,
}
_Check: TypeAlias = tuple[Callable[[Any], object], str]


@dataclass(frozen=True)
class MetadataKey:
    """One key of the metadata: the attribute's name, what it says, and whether every store has it."""

    name: str
    # ``text``, ``integer``, ``real``, ``boolean`` or ``object`` (kept as JSON text).
    kind: str
    description: str
    # Of a number, empty otherwise.
    unit: str = ""
    required: bool = False
    # Whether a value of the right type is fine, and what is expected if not.
    check: _Check | None = None

    def problem(self, value: Any) -> str | None:
        """Return "expected …, found …" for a value that is wrong, else None."""
        wanted = _TYPES[self.kind]
        expected: str | None = None
        if not isinstance(value, wanted) or (isinstance(value, bool) and self.kind != "boolean"):
            expected = f"a value of type {self.kind}"
        elif self.check is not None and not self.check[0](value):
            expected = self.check[1]
        return None if expected is None else f"metadata {self.name}: expected {expected}, found {value!r}"


def _are_positive(values: Mapping[str, Any]) -> bool:
    return all(
        isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number) and number > 0
        for number in values.values()
    )


def _fits_json(value: Mapping[str, Any]) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


_NOT_EMPTY: _Check = bool, "text that is not empty"
_DIGEST: _Check = re.compile(r"[0-9a-f]{64}").fullmatch, "64 hexadecimal digits"
_CORES: _Check = re.compile(r"\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?)*").fullmatch, "cores such as 0-3,8"
_FROM_0: _Check = lambda value: value >= 0, "at least 0"
_FROM_1: _Check = lambda value: value >= 1, "at least 1"
_POSITIVE: _Check = _are_positive, "positive numbers by participant"
_JSON: _Check = _fits_json, "an object that JSON can hold"

METADATA: dict[str, MetadataKey] = {
    key.name: key
    for key in (
        MetadataKey("participant", "text", "name of the participant", required=True, check=_NOT_EMPTY),
        MetadataKey("rank", "integer", "rank within the participant", required=True, check=_FROM_0),
        MetadataKey("size", "integer", "ranks of the participant", required=True, check=_FROM_1),
        MetadataKey("attempt", "integer", "run into the same directory, from 1", required=True, check=_FROM_1),
        MetadataKey("hostname", "text", "host the rank ran on"),
        MetadataKey("cpu_model", "text", "processor of that host"),
        MetadataKey("backend", "text", "coupling backend: libprecice or embedded", required=True, check=_NOT_EMPTY),
        MetadataKey("precice_version", "text", "version of the backend"),
        MetadataKey("precice_lb_version", "text", "version of this package"),
        MetadataKey("python_version", "text", "version of Python"),
        MetadataKey("configuration_path", "text", "absolute path of precice-config.xml"),
        MetadataKey("configuration_hash", "text", "SHA-256 of the configuration's bytes", check=_DIGEST),
        MetadataKey("case", "text", "fingerprint of the coupled case", required=True, check=_DIGEST),
        MetadataKey("clock", "text", "clock of all durations", required=True, check=_NOT_EMPTY),
        MetadataKey("clock_resolution", "real", "resolution of that clock", unit="s"),
        MetadataKey("started_clock_ns", "integer", "that clock when recording began", unit="ns", required=True),
        MetadataKey("started_unix_ns", "integer", "Unix time when recording began", unit="ns", required=True),
        MetadataKey("ended_unix_ns", "integer", "Unix time when the file was closed", unit="ns"),
        MetadataKey("finished", "boolean", "whether the coupling came to its end", required=True),
        MetadataKey("pid", "integer", "process"),
        MetadataKey("working_directory", "text", "working directory of the solver"),
        MetadataKey("command", "text", "command line of the solver"),
        MetadataKey("cpus", "text", "cores that the rank may run on, such as 0-3,8", check=_CORES),
        MetadataKey(
            "threads", "integer", "threads that the rank was told to use; 1 where nothing is said", check=_FROM_1
        ),
        MetadataKey("emulated_load", "boolean", "whether the solver sleeps in place of computing, as it says"),
        MetadataKey("receives_data", "boolean", "whether the rank receives coupling data"),
        MetadataKey("timing_source", "text", "where mapping and wait come from", check=_NOT_EMPTY),
        MetadataKey("timing_problem", "text", "why mapping or wait are missing, and the remedy", check=_NOT_EMPTY),
        MetadataKey("recording_problem", "text", "what is missing in the recording, and why", check=_NOT_EMPTY),
        MetadataKey(
            "guess", "text", "first guess of each time window that was asked for, such as auto", check=_NOT_EMPTY
        ),
        MetadataKey("version", "text", "version of the participant that ran, such as gpu", check=_NOT_EMPTY),
        MetadataKey("run", "text", "name of the coupled run", check=_NOT_EMPTY),
        MetadataKey("warmup_windows", "integer", "time windows to leave out", unit="1", check=_FROM_0),
        MetadataKey("degrees_of_freedom", "object", "unknowns by participant", unit="1", check=_POSITIVE),
        MetadataKey("parameters", "object", "parameters of the case", check=_JSON),
    )
}
"""Every key a store may have, by name."""

USER_KEYS = ("run", "warmup_windows", "degrees_of_freedom", "parameters", "emulated_load")
"""Keys that whoever starts a run may give (``PRECICE_LB_METADATA``)."""


def validate(values: Mapping[str, Any], *, keys: Iterable[str] | None = None, complete: bool = False) -> dict[str, Any]:
    """Check metadata against the registry: no key is unknown, or missing where all are there."""
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
    """Turn an HDF5 attribute back into a value, which has to be what the registry says."""
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
