"""CPU, memory and I/O stress on the host, by Debian's `stress`."""

from collections.abc import Sequence

from looplab.treatments.judgement import Treatment
from looplab.treatments.loads.load import COUNT, Load
from looplab.treatments.looks import Look, processes


class Stress(Load):
    """Runs from the first look to the last: one that was restarted left a gap."""

    def judge_running(self, what: str, looks: Sequence[Look]) -> Treatment:
        """Judge whether the same processes were there in all looks."""
        oldest = {min(process["started_ticks"] for process in processes(look, self.name)) for look in looks}
        if len(oldest) == 1:
            return super().judge_running(what, looks)
        note = "STRESS_TIMEOUT ended it, or it was killed"
        return Treatment(what, "running", "restarted during the run", False, note=note)


LOAD = Stress(
    "stress",
    ("stress",),
    order=1,
    settings={
        **dict.fromkeys(("STRESS_CPU", "STRESS_IO", "STRESS_VM"), COUNT),
        # As stress reads them.
        "STRESS_VM_BYTES": (r"[0-9]{1,15}[bBkKmMgG]?", "a number of bytes, e.g. 128M"),
        "STRESS_TIMEOUT": (r"[0-9]{1,9}[smhdySMHDY]?", "a time, e.g. 4000s"),
    },
)
