"""The command line as a whole: an example for every command, exit codes, completion"""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App
from record_helpers import environment
from store_helpers import row, write_store

from precice_lb.cli import add_readers, app, main


def commands(below: App = app, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of all commands that do something, also of those that are below another."""
    for name in below:
        if name.startswith("-"):
            continue
        command = below[name]
        if command.default_command is not None:
            yield (*words, name)
        yield from commands(command, (*words, name))


add_readers()
# By itself `import` only refuses the name of a tool that it does not know.
COMMANDS = [words for words in commands() if words != ("import",)]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_of_every_command_has_an_example_and_the_exit_codes(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    command = "mpiexec -n 4 precice-lb run" if words == ("run",) else f"precice-lb {' '.join(words)}"
    assert f"Example: {command} " in text
    assert "Exit codes: 0 done" in text


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_says_something_of_every_argument_and_option(words: tuple[str, ...]) -> None:
    command = app
    for word in words:
        command = command[word]
    arguments = [argument for argument in command.assemble_argument_collection(parse_docstring=True) if argument.show]
    # What files a reader of another tool takes is in the text above its options.
    read = {"PATHS"} if words[0] == "import" else set()
    assert [argument.name for argument in arguments if not argument.parameter.help and argument.name not in read] == []


def test_help_says_something_of_every_command() -> None:
    assert [name for name in app if not name.startswith("-") and not app[name].help] == []


def test_help_of_import_is_not_that_of_the_command_that_it_is_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Bring measurements of other tools into a store or a table for recommend." in text


def test_exit_codes_are_those(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stores = tmp_path / "stores"
    write_store(stores, [row(w, 0.1 * (1 + 0.1 * w), 0.2, 0.1) for w in range(1, 31)])
    assert main(["summary", str(stores)]) == 0
    assert main(["check", str(stores)]) == 1
    assert main(["summary", str(tmp_path / "missing")]) == 2
    assert main(["no-such-command"]) == 2
    assert main(["watch", str(stores), "--once", "--threshold", "drift=0.05"]) == 3
    capsys.readouterr()


def test_an_interrupted_watch_is_exit_code_130(tmp_path: Path) -> None:
    # At the priority of the tests: it would get no processor where other programs keep all of them.
    program = (
        "import os, sys; os.sched_setscheduler = lambda *_: None; from precice_lb.cli import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", program, "watch", str(tmp_path)]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert "no run" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 130
    finally:
        process.kill()
        process.communicate()


# --- completion ----------------------------------------------------------------------------------------------------


def complete(script: Path, *words: str) -> list[str]:
    """Ask bash what it would offer after these words."""
    line = " ".join(map(shlex.quote, words))
    asked = f"""
        source {shlex.quote(str(script))}
        COMP_WORDS=({line}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); COMP_LINE="${{COMP_WORDS[*]}}"
        COMP_POINT=${{#COMP_LINE}}; COMPREPLY=()
        function_of() {{ complete -p precice-lb | sed -n 's/.*-F \\([^ ]*\\).*/\\1/p'; }}
        $(function_of) precice-lb "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, timeout=300, check=True)
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "precice-lb"
    script.write_text(capsys.readouterr().out)
    assert set(complete(script, "precice-lb", "")) >= {words[0] for words in COMMANDS}
    assert complete(script, "precice-lb", "wat") == ["watch"]
    assert "precice-profiling" in complete(script, "precice-lb", "import", "pre")
    assert "--threshold" in complete(script, "precice-lb", "watch", "--")
    assert complete(script, "precice-lb", "watch", "--format", "") == ["table", "json"]
    assert complete(script, "precice-lb", "export", "--once", "--format", "p") == ["perfetto"]
