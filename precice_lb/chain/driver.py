"""A chain of jobs from its begin to its end: segments one after the other, and the events that it tells."""

from __future__ import annotations

from pathlib import Path

from precice_lb.calibrate.campaign import Event, Report, logged, print_event
from precice_lb.calibrate.state import RunRecord
from precice_lb.calibrate.study import Study
from precice_lb.chain.decide import decide
from precice_lb.chain.document import CHAIN_FILE, Decision
from precice_lb.chain.segments import note_of
from precice_lb.chain.steps import Chain, Decide, open_chain
from precice_lb.exceptions import PreciceLBError
from precice_lb.plural import plural
from precice_lb.precice_xml import Configuration, read_configuration


def run_chain(study: Study, directory: Path, *, report: Report | None = None, decider: Decide = decide) -> Path:
    """Run, or go on with, a study's chain of jobs to its end.

    Parameters
    ----------
    study
        With a table ``[chain]``.
    directory
        Where the chain lives: ``campaign.json``, ``campaign.log``, ``chain.json`` and a directory per run in ``runs/``.
    report
        Called with each event; plain lines on standard error by default.
    decider
        Says the split of each segment but the first.

    Returns
    -------
    Path
        ``chain.json``.

    Raises
    ------
    StudyError
        The study has no chain, or does not say how long it is.
    CalibrationError
        As of `precice_lb.calibrate.run_campaign`.
    TooFewRunsError
        A segment failed, as often as the study allows, and not for its new split; called again, the chain goes on.
    KeyboardInterrupt
        As of `precice_lb.calibrate.run_campaign`.
    """
    with open_chain(study, directory, decider) as chain:
        directory = chain.directory
        tell = logged(report or print_event, directory)
        chain.runs.reserve()
        cut_short = chain.runs.clear_up(lambda run: tell(_waiting(chain, run)))
        chain.state.save(directory)
        if (again := chain.runs.collect_again()) is not None:
            tell(collected_again(again))
        tell(_begun(chain, cut_short))
        is_checked = False
        while (decision := decided(chain)) is not None:
            chain.write(decision)
            if not is_checked:
                chain.runs.check_room()
                is_checked = True
            record = chain.enter(decision)
            tell(segment_begun(chain, record))
            chain.runs.do(record)
            chain.write()
            tell(segment_ended(chain, record))
        chain.write()
        tell(Event("ended", f"the chain has come to its end: {plural(chain.windows.total, 'window')}"))
        return directory / CHAIN_FILE


def decided(chain: Chain) -> Decision | None:
    """Decide; a chain that has to stop says so in its page."""
    try:
        return chain.decide()
    except PreciceLBError as problem:
        chain.write(problem=str(problem))
        raise


def _begun(chain: Chain, cut_short: int) -> Event:
    done, total = chain.windows_done, chain.windows.total
    text = f"chain in {chain.directory}: {plural(total, 'window')}"
    text += f", {done} done in {plural(len(chain.state.finished), 'segment')}" if done else ""
    text += f", {cut_short} cut short and set aside" if cut_short else ""
    if forgotten := forgotten_state(read_configuration(chain.study.configuration_path)):
        text += f"; at the start of each segment {forgotten} (docs/how-to/restart.md)"
    return Event("started", text, number=len(chain.state.finished), total=chain.total_segments)


def forgotten_state(configuration: Configuration) -> str:
    """Say what coupling schemes do not keep at a border: data that nothing initialises, and quasi-Newton history."""
    schemes, zero = configuration.coupling_schemes, []
    for scheme in schemes:
        initialized = {(exchange.source, exchange.target) for exchange in scheme.exchanges if exchange.initialize}
        # What the first participant of a serial scheme sends is there at the end of the first window.
        late = scheme.participants[0] if scheme.is_serial else None
        for exchange in scheme.exchanges:
            if exchange.source != late and (exchange.source, exchange.target) not in initialized:
                zero.append(f"{exchange.target} reads {exchange.data} as zero")
    learned = [scheme.acceleration for scheme in schemes if (scheme.acceleration or "").startswith("IQN")]
    return ", ".join([*zero, *(f"{name} has no history" for name in learned)])


def _waiting(chain: Chain, run: RunRecord) -> Event:
    text = f"waiting for job {run.job} of the interrupted chain: {chain.text(run.split)}"
    return Event("resumed", text, run)


def collected_again(run: RunRecord) -> Event:
    """Tell what became of a segment of which only that had failed."""
    text = f"segment {note_of(run).number}, whose state could not be taken over, is collected again: {run.outcome}"
    return Event("resumed", text + (f": {run.error}" if run.error else ""), run)


def segment_begun(chain: Chain, run: RunRecord) -> Event:
    """Tell that a segment begins."""
    note, total = note_of(run), chain.total_segments
    windows = f"windows {note.start_window + 1} to {note.start_window + note.windows} of {chain.windows.total}"
    text = f"segment {note.number} of {total}: {chain.text(run.split)}, {windows} ({run.reason})"
    return Event("run started", text, run, note.number, total)


def segment_ended(chain: Chain, run: RunRecord) -> Event:
    """Tell how a segment ended."""
    note, total = note_of(run), chain.total_segments
    text = f"segment {note.number} of {total}: {run.outcome} after {run.seconds:.1f} s"
    if run.outcome == "finished":
        text += f", {chain.segments()[-1].window_seconds:.4g} s per window"
    else:
        text += f": {' | '.join((run.error or '', *run.reasons))}"
    left = chain.windows.total - chain.windows_done
    return Event("run finished", text, run, note.number, total, f"{plural(left, 'window')} left")
