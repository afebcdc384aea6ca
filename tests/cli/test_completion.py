"""What zsh and fish complete with the scripts that the command prints."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from precice_lb.cli import add_readers, app, main

COMMANDS = [name for name in app if not name.startswith("-")]


def write_completion_script(shell: str, path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Write what the command prints for a shell, as the documentation says, into a file; return its path."""
    assert main(["completion", shell]) == 0
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    return path


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_of_each_shell_names_commands_options_and_values(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    add_readers()
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out

    for command in COMMANDS:
        assert re.search(rf"\b{command}\b", script), command
    assert "fail-above" in script
    # A format of export.
    assert "perfetto" in script


def test_zsh_script_is_a_function_named_like_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    """Else zsh would load the file _precice-lb at the first completion, and complete nothing."""
    assert main(["completion", "zsh"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert lines[0] == "#compdef precice-lb"
    assert [line for line in lines if line.startswith("_")] == ["_precice-lb() {"]


def typed_in_zsh(folder: Path, line: str, expected: str) -> str:
    """Type a line and a tabulator into an interactive zsh; return what the terminal shows then.

    Waits until the terminal shows what is expected, for a minute at most.
    """
    terminal, shell_side = os.openpty()
    process = subprocess.Popen(
        ["zsh", "-f", "-i"],
        stdin=shell_side,
        stdout=shell_side,
        stderr=shell_side,
        env={**os.environ, "TERM": "dumb"},
        start_new_session=True,
    )
    os.close(shell_side)
    shown = ""

    def wait_for(text: str) -> None:
        nonlocal shown
        end = time.monotonic() + 60
        while text not in shown and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                shown += os.read(terminal, 65536).decode(errors="replace")

    try:
        start = f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; print REA''DY\n"
        os.write(terminal, start.encode())
        wait_for("READY\r\n")
        shown = ""
        os.write(terminal, f"{line}\t".encode())
        wait_for(expected)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    return shown


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("precice-lb wat", "precice-lb watch "),
        ("precice-lb watch --thresh", "precice-lb watch --threshold "),
        ("precice-lb completion fi", "precice-lb completion fish "),
    ],
)
def test_zsh_completes_commands_options_and_values(
    line: str, completed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("no zsh")
    write_completion_script("zsh", tmp_path / "_precice-lb", capsys)

    assert completed in typed_in_zsh(tmp_path, line, expected=completed)


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("precice-lb wat", ["watch"]),
        ("precice-lb watch --thresh", ["--threshold"]),
        ("precice-lb compare --format ", ["json", "markdown", "table"]),
    ],
)
def test_fish_completes_commands_options_and_values(
    line: str, completions: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("fish") is None:
        pytest.skip("no fish")
    script = write_completion_script("fish", tmp_path / "precice-lb.fish", capsys)

    command = ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)

    # Behind a tabulator there is what each one means.
    assert sorted(shown.partition("\t")[0] for shown in done.stdout.splitlines()) == completions
