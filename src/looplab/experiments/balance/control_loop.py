"""The hot path of balance: the loop's, with a command in each request that follows from the newest answer."""

from collections.abc import Sequence
from typing import Any

from looplab.experiments.balance.plant import GAINS, LEVEL_ZERO, State, law, reading
from looplab.experiments.loop.protocol import LoopAnswer
from looplab.experiments.loop.request_loop import RequestLoop

# Columns of a row: tilt in the answer (in urad, so that -1 can mean "absent"); command that was sent; number of the
# message whose answer the command was computed from; when that message's request reached the bridge.
COLUMNS = ("tilt_urad", "level", "used", "measured_ns")


class ControlLoop(RequestLoop):
    """Sends `U-<token>-<k>` until a repetition's first answer, then `B<level>-<token>-<k>` by the law with `gains`.

    The request's way to the bridge is taken for half of O.
    """

    def __init__(self, *args: Any, gains: Sequence[float] = GAINS) -> None:
        super().__init__(*args)
        self._gains = gains
        self._tilt, self._level, self._used, self._measured = (self._store[name] for name in COLUMNS)
        self._newest, self._reading, self._newest_ns = -1, State(), 0
        token = self._token.replace(b"%", b"%%")
        self._upright, self._drive = b"U-" + token + b"-%d", b"B%d-" + token + b"-%d"

    def compose(self, sequence: int) -> bytes:
        if self._newest < self._first:
            self._level[sequence] = LEVEL_ZERO
            return self._upright % sequence
        level = law(self._gains, self._reading)
        self._level[sequence], self._used[sequence] = level, self._newest
        self._measured[sequence] = self._newest_ns
        return self._drive % (level, sequence)

    def taken(self, answer: LoopAnswer, now: int) -> None:
        try:
            state = reading(answer.value.decode())
        except ValueError:
            return
        sequence = answer.sequence
        self._tilt[sequence] = round(state.tilt_rad * 1e6)
        if sequence > self._newest:
            way_ns = (now - self._sent[sequence] - answer.robot_ns) // 2
            self._newest, self._reading, self._newest_ns = sequence, state, self._sent[sequence] + way_ns
