"""Training runs: moh.train()."""

import json
import os
from typing import NamedTuple, Optional

from . import _moh


class Summary(NamedTuple):
    """How a run ended."""

    folder: str
    """Of the run: moh.load(folder) opens its newest checkpoint."""
    finished: bool
    """Whether all steps are done; otherwise train(..., resume=True) goes on."""
    outcome: str
    """"finished", or why it ended early."""
    step: int
    """Finished steps."""
    record: dict
    """The last record of "kind": "train" in this call; empty if there was none."""
    score_name: str
    score: Optional[float]
    """The last score on held-out data; None without one."""
    best_score: Optional[float]
    elapsed_seconds: float


def value_text(value):
    """A value as in key.path=value of the command line: a text as it is, others as JSON, which is YAML."""
    return value if isinstance(value, str) else json.dumps(value, default=os.fspath)


def train(config, callback=None, overrides=(), *, resume=False, overwrite=False, resume_from=None, allow_older=False,
          allow_changes=False, quiet=False):
    """Trains as `moh train` does, and returns the Summary of the run.

    `config` is the name of a YAML file, or a dict with the keys of one; `overrides` are settings that go before it, as a dict
    {"train.steps": 100} or as texts "train.steps=100". `callback(record)` gets each record of the run's metrics.jsonl as a
    dict when it has been written. If it returns False, the run ends after that step as by Ctrl-C: a checkpoint is written, and
    resume=True goes on. So it does if the callback raises, or on Ctrl-C: the exception comes out of this function then.
    The other options are those of the command. With quiet=True nothing is printed; the run's moh.log has it all the same.
    """
    from .models import settings_of
    last = {}

    def tell(line):
        nonlocal last
        record = json.loads(line)
        if record["kind"] == "train":
            last = record
        return None if callback is None else callback(record)

    is_file = isinstance(config, (str, os.PathLike))
    name = os.fspath(config) if is_file else "python"
    text = None if is_file else json.dumps(config, default=os.fspath)
    summary = _moh.train(name, text, settings_of(overrides), tell, resume, "" if resume_from is None else os.fspath(resume_from),
                         overwrite, allow_older, allow_changes, quiet)
    return Summary(record=last, **summary)
