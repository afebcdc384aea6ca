"""What was retired is refused in one line that says what to use instead, or named and ignored."""

from __future__ import annotations

import pytest

from precice_lb.cli import main


@pytest.mark.parametrize(
    ("tokens", "instead"),
    [
        (["merge", "precice-lb-store"], "export --merged"),
        (["import", "precice-events", "EventLog.json"], "CSV"),
        (["import", "ateles-timeinfo", "timeinfo"], "CSV"),
        (["import", "case", "folder"], "CSV"),
        (["inside", "precice-lb-store", "--mpi-report", "solver.mpiP"], "--seconds"),
        (["partners", "run-1", "run-2", "--fit-constants", "constants.json"], "--constants turn="),
        (["partners", "exports", "--style=hilbert"], "--partition"),
        (["partners", "exports", "--ranks-per-node", "4"], "partners.h5"),
    ],
)
def test_retired_commands_and_options_say_what_to_use_instead(
    tokens: list[str], instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(tokens) == 2
    error = capsys.readouterr().err
    assert "was retired; " in error
    assert instead in error
    assert error.count("\n") == 1
