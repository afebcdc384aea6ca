"""What all tests of watching need."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _priority_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave this process's priority alone, which the command would lower for good."""
    monkeypatch.setattr(os, "sched_setscheduler", lambda *arguments: None)
