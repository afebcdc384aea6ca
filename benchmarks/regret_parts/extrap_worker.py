"""Models of Extra-P for the regret benchmark; run by the Python of an environment that has extrap 4.2.5.

Reads one JSON object per line, ``{"ranks": [...], "seconds": [...], "highest": P}``, and answers each with the
predicted seconds at 1 … P ranks. Negative exponents are allowed, without which falling curves become constants.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings

import numpy as np
from extrap.entities.callpath import Callpath
from extrap.entities.coordinate import Coordinate
from extrap.entities.measurement import Measurement
from extrap.entities.metric import Metric
from extrap.modelers.single_parameter.basic import SingleParameterModeler


def main() -> None:
    """Answer requests until the input ends."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    modeler = SingleParameterModeler()
    modeler.allow_negative_exponents = True
    callpath, metric = Callpath("window"), Metric("time")
    for line in sys.stdin:
        request = json.loads(line)
        measurements = [
            Measurement(Coordinate(ranks), callpath, metric, [seconds])
            for ranks, seconds in zip(request["ranks"], request["seconds"], strict=True)
        ]
        model = modeler.create_model(measurements)
        at = np.arange(1, request["highest"] + 1, dtype=float)
        with np.errstate(all="ignore"):
            values = np.broadcast_to(np.asarray(model.hypothesis.function.evaluate(at), dtype=float), at.shape)
        print(json.dumps({"seconds": values.tolist(), "text": str(model.hypothesis.function)}), flush=True)


if __name__ == "__main__":
    main()
