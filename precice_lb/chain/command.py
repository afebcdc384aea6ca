"""The subcommand that runs production as a chain of jobs, each with the split that was learned before it."""

from __future__ import annotations

from pathlib import Path

from cyclopts import App

from precice_lb.cli.app import app
from precice_lb.cli.flow import Output
from precice_lb.text import say

chain_app = App(name="chain")
app.command(chain_app)


@chain_app.default
def chain(study: Path, *, output: Output = None) -> None:
    """Run production as a chain of jobs whose split of ranks is decided at each border.

    A segment is a run of the study's case that takes over the state of the one before (chain.carry): prepared for its
    ranks, checked and collected. Before each, what was measured so far decides whether another split pays within the
    windows that are left; the reason is a line. Stopped, and started again, a chain goes on where it was.

    Example: precice-lb chain climate-chain.toml -o chain

    Parameters
    ----------
    study
        The study file (TOML), with a table [chain].
    output
        Where the chain lives; by default the study's name with -chain, beside it. It ends with chain.json.
    """
    from precice_lb.campaign import read_study
    from precice_lb.chain.next import run_chain

    read = read_study(study)
    say(f"wrote {run_chain(read, output or _directory(read.path))}")


@chain_app.command(name="next")
def chain_next(
    study: Path,
    *,
    output: Output = None,
    submit: bool = False,
) -> None:
    """Write, or submit, the job of a chain's next segment; each job's last line calls this again.

    So the jobs of a chain follow each other without a process that waits for them. What the last job left is checked
    and collected first. Called again after whatever went wrong, it goes on from there.

    Example: precice-lb chain next climate-chain.toml --submit

    Parameters
    ----------
    study
        The study file (TOML), with a table [chain], and the launcher slurm.
    output
        Where the chain lives; by default the study's name with -chain, beside it. It holds job.sbatch.
    submit
        Submit the job, and let it submit its successor.
    """
    from precice_lb.campaign import read_study
    from precice_lb.chain.next import next_segment

    read = read_study(study)
    next_segment(read, output or _directory(read.path), submit=submit)


def _directory(study: Path) -> Path:
    return study.with_name(f"{study.stem}-chain")
