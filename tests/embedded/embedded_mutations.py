"""Mutations of good configurations: tags, attributes, names, values, missing and doubled parts."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path

from embedded_cases import CASES
from hypothesis import strategies as st

#: Good configurations that use most of what the backend knows.
GOOD = (
    "parallel-implicit IQN-ILS nearest-neighbor",
    "serial-explicit plain nearest-neighbor",
    "parallel-explicit plain rbf-global-direct",
    "serial-implicit aitken",
    "multi with IQN-ILS",
    "explicit before implicit",
    "waveforms of degree 3 and 2",
    "window size of the first participant",
    "absolute measure",
    "kernel compact-polynomial-c6",
)
_TAG = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z0-9:-]+)(?P<attributes>[^<>]*?)(?P<end>/?)>")
_ATTRIBUTE = re.compile(r'(?P<name>[a-z-]+)="(?P<value>[^"]*)"')
_VALUES = (
    *(
        "",
        "0",
        "1",
        "2",
        "3",
        "-1",
        "0.5",
        "1e-3",
        "1/3",
        "nan",
        "inf",
        "1e400",
        "true",
        "false",
        "x",
        " 1",
        "1 ",
        "1_0",
    ),
    *("A", "B", "A-Mesh", "B-Mesh", "Heat", "Force", "read", "write", "consistent", "conservative", "QR1", "QR2"),
    *("residual", "value", "first-participant", "0.3; 0.01", "0;0;0", "no-filter", "on-primary-rank", "äöü", "A&amp;B"),
)
_TAGS = (
    *(
        "nearest-neighbor",
        "nearest-projection",
        "rbf",
        "rbf-global-direct",
        "rbf-pum-direct",
        "linear-cell-interpolation",
    ),
    *("serial-explicit", "parallel-explicit", "serial-implicit", "parallel-implicit", "multi", "constant", "aitken"),
    *("IQN-ILS", "IQN-IMVJ", "scalar", "vector", "mesh", "read-data", "write-data", "use-data", "exchange", "unknown"),
    *("relative-convergence-measure", "absolute-convergence-measure", "max-time", "max-time-windows", "data", "filter"),
    *("thin-plate-splines", "volume-splines", "gaussian", "mpi", "sockets", "provide-mesh", "receive-mesh"),
)
_SIBLINGS = {
    "coupling-scheme": [f"coupling-scheme:{a}-{b}" for a in ("serial", "parallel") for b in ("explicit", "implicit")],
    "mapping": [f"mapping:{kind}" for kind in ("nearest-neighbor", "nearest-projection", "rbf-global-direct")],
    "acceleration": [f"acceleration:{kind}" for kind in ("constant", "aitken", "IQN-ILS")],
    "data": ["data:scalar", "data:vector"],
    "basis-function": ["basis-function:thin-plate-splines", "basis-function:volume-splines"],
}
_NAMES = (
    *(
        "name",
        "value",
        "mesh",
        "data",
        "from",
        "to",
        "initialize",
        "substeps",
        "limit",
        "suffices",
        "strict",
        "control",
    ),
    *("waveform-degree", "dimensions", "method", "api-access", "safety-factor", "geometric-filter", "polynomial"),
    *("x-dead", "support-radius", "scaling", "enforce", "reduced-time-grid", "freeze-after", "type", "network", "port"),
)


@cache
def good() -> tuple[str, ...]:
    """Texts of the good configurations."""
    texts = []
    with tempfile.TemporaryDirectory() as directory:
        for number, start in enumerate(GOOD):
            one = next(case for case in CASES if case.name.startswith(start))
            one.write(Path(directory, str(number)))
            texts.append(Path(directory, str(number), "precice-config.xml").read_text())
    return tuple(texts)


@st.composite
def mutants(draw: st.DrawFn) -> str:
    """One good configuration with one to three changes."""
    text = draw(st.sampled_from(good()))
    for _ in range(draw(st.sampled_from((1, 1, 1, 1, 2, 3)))):
        text = _change(draw, text)
    return text


def _change(draw: st.DrawFn, text: str) -> str:
    if not (tags := list(_TAG.finditer(text))):
        return text
    tag = draw(st.sampled_from(tags))
    kind = draw(st.sampled_from(("value", "value", "value", "name", "drop", "add", "remove", "double", "tag", "cut")))
    attributes = list(_ATTRIBUTE.finditer(tag["attributes"]))
    start = tag.start("attributes")
    if kind in ("value", "name", "drop") and attributes:
        one = draw(st.sampled_from(attributes))
        if kind == "drop":
            return text[: start + one.start()] + text[start + one.end() :]
        if kind == "name":
            return text[: start + one.start("name")] + draw(st.sampled_from(_NAMES)) + text[start + one.end("name") :]
        others = [other["value"] for other in _ATTRIBUTE.finditer(text) if other["name"] == one["name"]]
        numbers = ("1", "2", "3", "0.5", "0.2", "1e-3", "1/3", "0", "10", "1e-7")
        likely = numbers if re.fullmatch(r"[0-9./e+-]+", one["value"]) else others
        value = draw(st.sampled_from(likely if draw(st.integers(0, 2)) else _VALUES))
        return text[: start + one.start("value")] + value + text[start + one.end("value") :]
    if kind == "add" and not tag["close"]:
        new = f' {draw(st.sampled_from(_NAMES))}="{draw(st.sampled_from(_VALUES))}"'
        return text[: tag.end("name")] + new + text[tag.end("name") :]
    if kind == "tag":
        prefix, _, _ = tag["name"].rpartition(":")
        siblings = [other["name"] for other in tags if other["name"].startswith(f"{prefix}:")]
        name = f"{prefix}:{draw(st.sampled_from(_TAGS))}" if prefix else draw(st.sampled_from(_TAGS))
        name = draw(st.sampled_from([name, *_SIBLINGS.get(prefix, ()), *siblings]))
        whole = text[: tag.start("name")] + name + text[tag.end("name") :]
        return whole if tag["end"] or tag["close"] else whole.replace(f"</{tag['name']}>", f"</{name}>", 1)
    if kind == "cut" and draw(st.integers(0, 9)) == 0:
        return text[: draw(st.integers(0, len(text)))]
    end = tag.end()
    if not tag["end"]:
        closing = text.find(f"</{tag['name']}>", tag.end())
        end = closing + len(tag["name"]) + 3 if closing >= 0 else tag.end()
    return text[: tag.start()] + (text[tag.start() : end] * 2 if kind == "double" else "") + text[end:]
