"""Lets two processes do the same thing at the same moment.

Knows nothing of what they do: the work is a function of a module, given by reference, that returns text.
"""

import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path


def race(folder: Path, work: Callable[..., str], *arguments: object, processes: int = 2) -> list[str]:
    """What `work(*arguments)` returned in each of the processes, which all start it at once and live until
    the last is done. They are forked from one that has imported the module of the first work.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__module__])
    barrier = context.Barrier(processes)
    outcomes = [folder / f"outcome-{number}" for number in range(processes)]
    contenders = [
        context.Process(target=_contend, args=(barrier, outcome, work, arguments)) for outcome in outcomes
    ]
    for process in contenders:
        process.start()
    for process in contenders:
        process.join(300)
    return [outcome.read_text() for outcome in outcomes]


def _contend(
    barrier: Barrier, outcome: Path, work: Callable[..., str], arguments: tuple[object, ...]
) -> None:
    try:
        barrier.wait(60)
        outcome.write_text(work(*arguments))
        barrier.wait(60)
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(0)  # delta-rs may abort in the interpreter's own clean-up
