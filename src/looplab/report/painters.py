"""Draw in processes of their own: drawing is the slowest part of a report, and they start while the runs are read."""

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from looplab.report.drawing import Drawing, Sketch

# With fewer runs, the drawing is done sooner than a process is started.
WORTH_RUNS = 6
MOST_PAINTERS = 4


@contextlib.contextmanager
def painters(runs: int) -> Iterator[Callable[[Sequence[Sketch]], list[Drawing]]]:
    """Give a function that draws sketches, and end what it started; `runs` says how much there will be to draw."""
    processes = min(MOST_PAINTERS, os.cpu_count() or 1)
    if runs < WORTH_RUNS or processes < 2:
        yield _draw_all
        return
    # A fork has its imports at once, and a caller with threads must not fork.
    method = "fork" if threading.active_count() == 1 else "spawn"
    pool = ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context(method))
    for _ in range(processes):
        pool.submit(_get_ready)

    def draw(sketches: Sequence[Sketch]) -> list[Drawing]:
        # A machine too full for more processes ends them; the drawing itself is the same here.
        with contextlib.suppress(BrokenProcessPool):
            return list(pool.map(_draw, sketches))
        return _draw_all(sketches)

    try:
        yield draw
    finally:
        pool.shutdown(cancel_futures=True)


def _get_ready() -> None:
    # The imports are the work.
    import matplotlib.backends.backend_agg
    import matplotlib.backends.backend_svg
    import matplotlib.figure  # noqa: F401


def _draw(sketch: Sketch) -> Drawing:
    return sketch.draw()


def _draw_all(sketches: Sequence[Sketch]) -> list[Drawing]:
    return [_draw(sketch) for sketch in sketches]
