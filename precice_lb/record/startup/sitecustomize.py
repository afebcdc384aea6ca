"""What Python loads first in every process below ``precice-lb run``, so that ``import precice`` gives what records.

Processes that never import preCICE pay for this too: it is short and imports nothing that Python has not loaded yet.
"""

import os
import sys

_HERE = os.path.dirname(__file__)


class _Finder:
    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        if name not in ("precice", "cyprecice", "precice_lb"):
            return None
        from importlib.machinery import PathFinder

        if name == "precice_lb":  # wherever `run` was started from
            return PathFinder.find_spec(name, [os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))])
        try:
            if sys.version_info < (3, 10):  # noqa: UP036
                raise ImportError("expected Python 3.10 or newer")
            from precice_lb.record.participant import recording_spec
        except Exception as error:
            print(f"precice-lb: warning: {sys.executable} does not record: {error}", file=sys.stderr)
            return None
        return recording_spec(name)


sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
sys.path[:] = [path for path in sys.path if path != _HERE]
# The one that would have been loaded without us; Python passes over it where there is none.
del sys.modules["sitecustomize"]
import sitecustomize  # type: ignore[import-not-found] # noqa: E402, F401
