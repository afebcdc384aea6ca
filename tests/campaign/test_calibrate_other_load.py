"""Other load: busy programs beside a campaign are seen, its own are not taken for them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from precice_lb.campaign.processes import NOTICEABLE, OtherLoad

pytestmark = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs the kernel's times of Linux")


def spinning(seconds: float) -> list[str]:
    code = f"import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"
    return [sys.executable, "-c", code]


def spin_elsewhere(seconds: float) -> None:
    """Start a busy program that is no child of this process."""
    code = f"import subprocess; subprocess.Popen({spinning(seconds)!r})"
    subprocess.run([sys.executable, "-c", code], check=True)


def busy_seconds() -> float:
    """Time of children that were waited for."""
    times = os.times()
    return times.children_user + times.children_system


def test_a_busy_program_is_seen() -> None:
    others = OtherLoad()
    spin_elsewhere(1.5)
    time.sleep(1.5)
    found = others.cores()
    assert found is not None
    assert found > NOTICEABLE


def test_what_own_processes_used_is_not_other_load(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"monotonic": 100.0, "busy": 50.0, "own": 20.0}
    monkeypatch.setattr("precice_lb.campaign.processes.time", SimpleNamespace(monotonic=lambda: now["monotonic"]))
    monkeypatch.setattr("precice_lb.campaign.processes._busy_seconds", lambda: now["busy"])
    monkeypatch.setattr("precice_lb.campaign.processes._own_seconds", lambda: now["own"])
    others = OtherLoad()
    now.update(monotonic=110.0, busy=67.0, own=32.0)
    assert others.cores() == pytest.approx(0.5)


@pytest.mark.slow("compares real times")
def test_own_children_are_not_other_load(monkeypatch: pytest.MonkeyPatch) -> None:
    others, began, used = OtherLoad(), time.monotonic(), busy_seconds()
    subprocess.run(spinning(1.0), check=True)
    share = (busy_seconds() - used) / (time.monotonic() - began)
    found = others.cores()
    monkeypatch.setattr("precice_lb.campaign.processes._own_seconds", lambda: others._own)
    everything = others.cores()
    assert found is not None
    assert everything is not None
    assert everything - found == pytest.approx(share, abs=0.15)


def test_what_is_too_short_to_tell_is_unknown() -> None:
    assert OtherLoad().cores() is None
