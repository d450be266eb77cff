"""Draw in processes of their own: drawing is the slowest part of a report, and they start while the runs are read."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType

from looplab.report.drawing import Drawing, Sketch

# With fewer runs, the drawing is done sooner than a process is started.
WORTH_RUNS = 6
MOST_PAINTERS = 4


class Painters:
    """Draws sketches; as a context it ends what it started. `runs` says how much there will be to draw."""

    def __init__(self, runs: int) -> None:
        painters = min(MOST_PAINTERS, os.cpu_count() or 1)
        self._pool: ProcessPoolExecutor | None = None
        if runs >= WORTH_RUNS and painters > 1:
            # Spawned, not forked: the columnar library has threads.
            self._pool = ProcessPoolExecutor(painters, mp_context=multiprocessing.get_context("spawn"))
            for _ in range(painters):
                self._pool.submit(_get_ready)

    def __enter__(self) -> Painters:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def draw(self, sketches: Sequence[Sketch]) -> list[Drawing]:
        if self._pool is not None:
            # A machine too full for more processes ends them; the drawing itself is the same here.
            with contextlib.suppress(BrokenProcessPool):
                return list(self._pool.map(_draw, sketches))
        return [_draw(sketch) for sketch in sketches]


def _get_ready() -> None:
    # The imports are the work.
    import matplotlib.backends.backend_agg
    import matplotlib.backends.backend_svg
    import matplotlib.figure  # noqa: F401


def _draw(sketch: Sketch) -> Drawing:
    return sketch.draw()
