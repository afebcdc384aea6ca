"""What a store file says of its run, how it is called, and the case fingerprint."""

from __future__ import annotations

import hashlib
import json
import numbers
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from xml.parsers import expat

from precice_lb.exceptions import StoreError
from precice_lb.store.columns import ORIGINALS, Attributes

_TYPES: dict[str, type | tuple[type, ...]] = {
    "text": str,
    "integer": numbers.Integral,
    "real": numbers.Real,
    "boolean": bool,
    "object": dict,
}
# Whether a value of the right type is fine, and what is expected if not.
_Check: TypeAlias = tuple[Callable[[Any], object], str]


def _fits_json(value: Any, levels: int = 50) -> bool:
    """Whether JSON can hold an object, and whoever reads it take it apart again."""
    if isinstance(value, dict | list | tuple):
        keys, parts = (value.keys(), value.values()) if isinstance(value, dict) else ((), value)
        return levels > 0 and all(isinstance(k, str) for k in keys) and all(_fits_json(v, levels - 1) for v in parts)
    return value is None or isinstance(value, str) or _is_number(value)


def _is_number(value: Any) -> bool:
    """Whether a float can hold a number."""
    return isinstance(value, int | float) and -sys.float_info.max <= value <= sys.float_info.max


# Clocks in ns and all that is computed from them stay integers of 64 bits.
_LATEST = 1 << 62
# Readers have an array of a value per rank, whatever few ranks there are files of.
_MOST_RANKS = 1 << 20
_NOT_EMPTY: _Check = bool, "text that is not empty"
_DIGEST: _Check = re.compile(r"[0-9a-f]{64}").fullmatch, "64 hexadecimal digits"
_CORES: _Check = re.compile(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*").fullmatch, "cores such as 0-3,8"
_RANKS: _Check = lambda value: 1 <= value <= _MOST_RANKS, f"from 1 to {_MOST_RANKS}"
_FROM_0: _Check = lambda value: value >= 0, "at least 0"
_FROM_1: _Check = lambda value: value >= 1, "at least 1"
_JSON: _Check = _fits_json, "an object that JSON can hold, of less than 50 levels"
_POSITIVE: _Check = (
    lambda values: all(_is_number(number) and number > 0 and number is not True for number in values.values()),
    "positive numbers by participant",
)


@dataclass(frozen=True)
class Key:
    """One key of the metadata: the attribute's name, what it says, and whether every store has it."""

    name: str
    # ``text``, ``integer``, ``real``, ``boolean`` or ``object`` (kept as JSON text).
    kind: str
    description: str
    check: _Check | None = None
    required: bool = False
    # Of a number, empty otherwise.
    unit: str = ""


METADATA: dict[str, Key] = {
    key.name: key
    for key in (
        Key("participant", "text", "name of the participant", _NOT_EMPTY, required=True),
        Key("rank", "integer", "rank within the participant", _FROM_0, required=True),
        Key("size", "integer", "ranks of the participant", _RANKS, required=True),
        Key("launch", "text", "id that all ranks of one launch share", _NOT_EMPTY),
        Key("attempt", "integer", "run into the same directory, from 1", _FROM_1, required=True),
        Key("hostname", "text", "host the rank ran on"),
        Key("cpu_model", "text", "processor of that host"),
        Key("backend", "text", "coupling backend: libprecice or embedded", _NOT_EMPTY, required=True),
        Key("precice_version", "text", "version of the backend"),
        Key("precice_lb_version", "text", "version of this package"),
        Key("python_version", "text", "version of Python"),
        Key("configuration_path", "text", "absolute path of precice-config.xml"),
        Key("configuration_hash", "text", "SHA-256 of the configuration's bytes", _DIGEST),
        Key("case", "text", "fingerprint of the coupled case", _DIGEST, required=True),
        Key("clock", "text", "clock of all durations", _NOT_EMPTY, required=True),
        Key("clock_resolution", "real", "resolution of that clock", unit="s"),
        Key("started_clock_ns", "integer", "that clock when recording began", _FROM_0, required=True, unit="ns"),
        Key("started_unix_ns", "integer", "Unix time when recording began", _FROM_0, required=True, unit="ns"),
        Key("ended_unix_ns", "integer", "Unix time when the file was closed", _FROM_0, unit="ns"),
        Key("finished", "boolean", "whether the coupling came to its end", required=True),
        Key("stopped", "text", "why a campaign stopped the run before its last window", _NOT_EMPTY),
        Key("pid", "integer", "process"),
        Key("working_directory", "text", "working directory of the solver"),
        Key("command", "text", "command line of the solver"),
        Key("cpus", "text", "cores that the rank may run on, such as 0-3,8", _CORES),
        Key("threads", "integer", "threads that the rank was told to use; 1 where nothing is said", _FROM_1),
        Key("emulated_load", "boolean", "whether the solver sleeps in place of computing, as it says"),
        Key("receives_data", "boolean", "whether the rank receives coupling data"),
        Key("timing_source", "text", "where mapping and wait come from", _NOT_EMPTY),
        Key("timing_problem", "text", "why mapping or wait are missing, and the remedy", _NOT_EMPTY),
        Key("recording_problem", "text", "what is missing in the recording, and why", _NOT_EMPTY),
        Key(
            "window_unit",
            "text",
            "what counts as a time window where these are not known, such as coupling iteration",
            _NOT_EMPTY,
        ),
        Key("guess", "text", "first guess of each time window that was asked for, such as auto", _NOT_EMPTY),
        Key("version", "text", "version of the participant that ran, such as gpu", _NOT_EMPTY),
        Key("run", "text", "name of the coupled run", _NOT_EMPTY),
        Key("warmup_windows", "integer", "time windows to leave out", _FROM_0, unit="1"),
        Key("degrees_of_freedom", "object", "unknowns by participant", _POSITIVE, unit="1"),
        Key("parameters", "object", "parameters of the case", _JSON),
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
        key, expected = METADATA[name], ""
        if not isinstance(value, _TYPES[key.kind]) or (isinstance(value, bool) and key.kind != "boolean"):
            expected = f"a value of type {key.kind}"
        elif isinstance(value, numbers.Integral) and not -_LATEST < int(value) < _LATEST:
            expected = f"a number up to {_LATEST}"
        elif key.check is not None and not key.check[0](value):
            expected = key.check[1]
        if expected:
            raise StoreError(f"metadata {name}: expected {expected}, found {value!r}")
    if complete:
        missing = [name for name in allowed if METADATA[name].required and name not in values]
        if missing:
            raise StoreError(f"metadata {', '.join(missing)}: expected a value, found none")
        if values.get("rank", 0) >= values.get("size", 1):
            raise StoreError(f"metadata rank: expected one below the size {values['size']}, found {values['rank']}")
    return dict(values)


def encode(name: str, value: Any) -> Any:
    """Turn a value into what an HDF5 attribute holds."""
    return json.dumps(value, allow_nan=False) if METADATA[name].kind == "object" else value


def decode(name: str, value: Any) -> Any:
    """Turn an HDF5 attribute back into a value, for `validate` to look at."""
    if METADATA[name].kind == "object":
        try:
            return json.loads(value)
        except (TypeError, ValueError):
            raise StoreError(f"metadata {name}: expected a JSON object, found {value!r}") from None
    return value


FORMAT = "precice-lb-store"
"""Value of the root attribute ``format``."""

FORMAT_VERSION = 1
"""Value of the root attribute ``format_version``.

Readers find metadata, tables and columns by their names, and ignore those that they do not know. A further one leaves
the version as it is."""


def check_format(
    format_name: Any, version: Any, expected_name: str = FORMAT, expected_version: int = FORMAT_VERSION
) -> None:
    """Raise a StoreError unless a file's format and format version are the expected ones."""
    if format_name != expected_name or version != expected_version:
        raise StoreError(
            f"expected format {expected_name!r} in version {expected_version}, found {format_name!r} in version "
            f"{version!r}; read it with the version of precice_lb that wrote it"
        )


SUFFIX = ".h5"
"""Ending of every HDF5 store."""

SPOOL_SUFFIX = ".spool"
"""Ending of the file of a rank that still runs, or was killed."""

MERGED_SUFFIX = ".merged.h5"
"""Ending of a file that holds all ranks of a participant."""

_NAME = re.compile(r"[^.].*-\d+-\d+(\.\d+)?\.(h5|spool)|[^.].*-\d+(\.\d+)?\.merged\.h5")
_RANK_NAME = re.compile(r"(?P<participant>.+)-\d+-(?P<size>\d+)(\.\d+)?\.(h5|spool)")
# Characters of a participant's name in a file's name, which file systems limit to 255 bytes.
_LONGEST_NAME = 160

# What may differ between a calibration run and the production run of one case.
_IGNORED_TAGS = frozenset(
    {"imvj-restart-mode", "max-time", "max-time-windows", "log", "profiling", "watch-point", "watch-integral"}
)
_IGNORED_ATTRIBUTES = frozenset({"exchange-directory", "network"})


def store_filename(participant: str, rank: int, size: int, attempt: int = 1) -> str:
    """Path of a rank's HDF5 file below the store directory; its spool differs in the suffix only."""
    name = name_in_files(participant)
    return f"{name}-{size}/{name}-{rank}-{size}{'' if attempt == 1 else f'.{attempt}'}{SUFFIX}"


def merged_filename(participant: str, size: int, number: int = 1) -> str:
    """Name of a participant's merged file in the store directory."""
    return f"{name_in_files(participant)}-{size}{'' if number == 1 else f'.{number}'}{MERGED_SUFFIX}"


def is_store_name(name: str) -> bool:
    """Whether a file is named like a store, of one rank or merged."""
    return _NAME.fullmatch(name) is not None


def store_directory(path: Path) -> Path:
    """Store directory that a store file lies in."""
    named = _RANK_NAME.fullmatch(path.name)
    if named is not None and path.parent.name == f"{named['participant']}-{named['size']}":
        return path.parent.parent
    return path.parent


def refuse_link(path: Path) -> None:
    """Refuse what leads out of a directory of stores to any other file."""
    if path.is_symlink():
        raise StoreError(
            f"{path}: expected a store in its own place, found a symbolic link to {os.readlink(path)}; name that file "
            "itself"
        )


def case_fingerprint(configuration_text: str) -> str:
    """Return the fingerprint (SHA-256) of the coupled case a configuration describes.

    Left out is what may differ between calibration and production runs of one case: comments, white space, the end
    of the simulation, exchange directories, networks, log, profiling, exports and watch-points, and the fields of first
    guesses. Text that is not XML is hashed as it stands.
    """
    tags = xml_tags(configuration_text)
    if tags is None:
        return hashlib.sha256(configuration_text.encode("utf-8", "surrogateescape")).hexdigest()
    digest = hashlib.sha256()
    # Elements that are open, from one that is left out on.
    skipped = 0
    for tag, attributes in tags:
        if attributes is None:
            if not skipped:
                digest.update(repr(("end", tag)).encode())
            skipped = max(0, skipped - 1)
            continue
        original: Attributes | None = attributes
        for room in ORIGINALS:
            original = original and room(tag, original)
        if skipped or original is None or tag in _IGNORED_TAGS or tag.startswith("export:"):
            skipped += 1
        else:
            kept = sorted((name, value) for name, value in original.items() if name not in _IGNORED_ATTRIBUTES)
            digest.update(repr(("start", tag, kept)).encode())
    return digest.hexdigest()


def xml_tags(text: str) -> list[tuple[str, dict[str, str] | None]] | None:
    """Return the tags of a text in their order, those that begin with their attributes; None if it is not XML."""
    # Not by `precice_lb.case`: loading that takes a solver a quarter of the time that numpy does.
    # Without a namespace separator expat takes preCICE's undeclared prefixes as plain names.
    tags: list[tuple[str, dict[str, str] | None]] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, attributes: tags.append((tag, attributes))
    parser.EndElementHandler = lambda tag: tags.append((tag, None))
    try:
        parser.Parse(text, True)
    except (expat.ExpatError, ValueError):
        return None
    return tags


def name_in_files(participant: str) -> str:
    """Participant in the names of its files; whose they are is said inside them."""
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else f"%{ord(c):02X}" for c in participant)
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}~{hashlib.sha256(participant.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
