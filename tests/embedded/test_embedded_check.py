"""What the embedded backend refuses, before anything runs, and that preCICE's own rules hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from calibrate_helpers import edited, refusals
from embedded_helpers import write_configuration

from precice_lb.case import parse_configuration
from precice_lb.embedded.assemble import check_supported
from precice_lb.exceptions import ConfigurationError, UnsupportedConfigurationError

EXPLICIT = ("parallel-explicit", "A", "B", "Heat:A>B Force:B>A")
ITERATION = """<max-iterations value="9" /><relative-convergence-measure limit="1e-3" data:Heat />
<acceleration:IQN-ILS><data name:Force />
<initial-relaxation value="0.5" /><time-windows-reused value="2" /><filter type="QR2" limit="0.1" />
<preconditioner type="residual-sum" /></acceleration:IQN-ILS>"""
# What the first line of a block in the file of refusals names.
BASES: dict[str, dict[str, Any]] = {
    "explicit": {},
    "writes": {"write_direction": True},
    "implicit": {"exchanges": [("parallel-implicit", *EXPLICIT[1:])], "iteration": ITERATION},
    "composed": {
        "participants": {"A": [], "B": [], "C": []},
        "exchanges": [EXPLICIT, ("serial-explicit", "B", "C", "Load:B>C")],
    },
}


def configured(directory: Path, name: str) -> Path:
    """Write one of the bases."""
    options = {"participants": {"A": [], "B": []}, "exchanges": [EXPLICIT], **BASES[name]}
    return write_configuration(directory / "precice-config.xml", **options)


@pytest.mark.parametrize("block", refusals("embedded-refused.txt"))
def test_what_only_libprecice_does_or_nobody_is_refused_in_one_line(tmp_path: Path, block: str) -> None:
    """A base, a participant and its ranks; changes; and what is said of it."""
    (base, participant, size), *changes, expected = block.split("\n")[0].split(), *block.split("\n")[1:]
    text = edited(configured(tmp_path, base).read_text(), changes)
    said = "accepted"
    try:
        check_supported(parse_configuration(text), participant, int(size))
    except UnsupportedConfigurationError as error:
        said = f"unsupported: {error}"
    except ConfigurationError as error:
        said = f"wrong: {error}"
    assert said == expected
