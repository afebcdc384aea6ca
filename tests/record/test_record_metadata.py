"""What `PRECICE_LB_METADATA` says of a run is kept in its stores, every key of it that the documentation shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from record_helpers import StandIn, configuration, only_store, stand_in

from precice_lb.store.schema import USER_KEYS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "environment.md"


def shown_object() -> str:
    """Return the JSON object that the page on environment variables shows."""
    (block,) = re.findall(r"with all of its keys:\n\n```json\n(.+?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return block


def test_all_keys_of_the_documentation_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECICE_LB_DIR", str(tmp_path / "stores"))
    monkeypatch.setenv("PRECICE_LB_METADATA", shown_object())
    (tmp_path / "precice-config.xml").write_text(configuration("serial-explicit"))
    participant = stand_in(StandIn, "A", str(tmp_path / "precice-config.xml"), 0, 1)
    participant.initialize()
    participant.finalize()

    shown = json.loads(shown_object())
    kept = only_store(tmp_path / "stores").metadata
    assert set(shown) == set(USER_KEYS)
    assert {key: kept[key] for key in shown} == shown
