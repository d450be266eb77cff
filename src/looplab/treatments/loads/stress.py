"""CPU, memory and I/O stress on the host, by Debian's `stress`."""

from collections.abc import Iterator, Mapping, Sequence

from looplab.treatments.judgement import Treatment
from looplab.treatments.loads.load import COUNT_OR_0, Found, HostLoad, Measure, Setting, seconds
from looplab.treatments.scans import Scan, grown, processes, survivors

# Workers that never sleep are CPU and memory workers; an I/O worker waits for its disk and counts as none.
# Of the processor time that the measured parts left, stress must have had this share. Exporter, Prometheus and Grafana
# take some on a small machine. Beside strangers the processors are as full; if they take three quarters, the load is
# theirs.
SHARE_OF_ROOM = 0.25
# Stress never leaves a processor idle while a worker could run there: paused for a fifth of a cell, or limited to four
# fifths of the time it could have, it does.
SHARE_WITHOUT_IDLE = 0.8
# A worker that never sleeps runs or waits to run, whatever else the machine does; paused, it does neither. The kernel
# counts a wait once it is over.
SHARE_RUNNABLE, WAIT_UNDER_WAY_S = 0.8, 0.3


class Stress(HostLoad):
    """CPU stress, which must run from the first reading to the last: a restart leaves a gap."""

    # By batch means. Of 100 messages the three slowest are a quarter of O.
    usual_sd, sampled, quick_messages = 0.30, 0.5, 300

    def judge_running(self, what: str, scans: Sequence[Scan]) -> Treatment:
        """Judge whether the same processes were there in all scans."""
        oldest = {min(process["started_ticks"] for process in processes(scan, self.name)) for scan in scans}
        if len(oldest) == 1:
            return super().judge_running(what, scans)
        note = "STRESS_TIMEOUT ended it, or it was killed"
        return Treatment(what, "running", "restarted during the run", False, note=note)

    def measures(self, cells: Sequence[tuple[Scan, Scan]], settings: Mapping[str, str]) -> Iterator[Measure]:
        """Yield CPU seconds a second, and whether the workers were never paused."""
        yield from super().measures(cells, settings)
        shares = [_runnable(*cell, self.name, _never_asleep(settings)) for cell in cells]
        if known := [share for share in shares if share is not None]:
            least, wanted = min(known), f"at least {SHARE_RUNNABLE:.0%} of every cell"
            yield "not paused", wanted, f"{min(1.0, least):.0%}", least >= SHARE_RUNNABLE

    def strengths(self, cells: Sequence[tuple[Scan, Scan]], settings: Mapping[str, str]) -> list[Found]:
        """Return CPU seconds a second of each cell, and what the workers had to get on this machine.

        [] for I/O workers alone, which owe nothing: they wait for their disk.
        """
        awake = _never_asleep(settings)
        return [
            self._strength(f"cell {number} of {len(cells)}", before, after, awake)
            for number, (before, after) in enumerate(cells, 1)
            if awake and seconds(before, after) > 0
        ]

    def _strength(self, cell: str, before: Scan, after: Scan, awake: int) -> Found:
        span_s = seconds(before, after)
        used_s = grown(before, after, self.name, "cpu_ns") / 1e9
        # The printed clients, one of which spins, end within a cell.
        others, keys = [role for role in after["roles"] if role != self.name], ("cpu_ns", "children_cpu_ns")
        others_s = sum(grown(before, after, role, key) for role in others for key in keys) / 1e9
        cpus = _cpus(after, self.name)
        idle_s, steal_s = (_grown(before, after, cpus, key) for key in ("idle_s", "steal_s"))
        most_s = awake * span_s
        room_s = min(most_s, len(cpus) * span_s - steal_s - others_s)
        least_s = max(SHARE_OF_ROOM * room_s, SHARE_WITHOUT_IDLE * min(most_s, used_s + idle_s))
        return Found(cell, used_s / span_s, least_s / span_s)


def _never_asleep(settings: Mapping[str, str]) -> int:
    return int(settings["STRESS_CPU"]) + int(settings["STRESS_VM"])


def _runnable(before: Scan, after: Scan, role: str, awake: int) -> float | None:
    """Return which share of a cell the busiest `awake` processes ran or waited to run; None if nobody counts."""
    span_s, active_s = seconds(before, after), []
    for was, now in survivors(before, after, role):
        if None not in (now["cpu_wait_ns"], was["cpu_wait_ns"]):
            grown_ns = now["cpu_ns"] + now["cpu_wait_ns"] - was["cpu_ns"] - was["cpu_wait_ns"]
            active_s.append(grown_ns / 1e9)
    busiest = sorted(active_s, reverse=True)[:awake]
    return (sum(busiest) / len(busiest) + WAIT_UNDER_WAY_S) / span_s if busiest and span_s > 0 else None


def _cpus(scan: Scan, role: str) -> set[str]:
    """Return the processors that a role may use; all of them if it is gone."""
    there: set[str] = set(scan["processors"])
    allowed = {str(cpu) for process in processes(scan, role) for cpu in process["cpus"]}
    return allowed & there or there


def _grown(before: Scan, after: Scan, cpus: set[str], key: str) -> float:
    first, last = (
        sum(float(scan["processors"][cpu][key]) for cpu in cpus if cpu in scan["processors"])
        for scan in (before, after)
    )
    return max(0.0, last - first)


LOAD = Stress(
    "stress",
    ("stress",),
    order=1,
    neutral=("--verbose",),
    workers=("STRESS_CPU", "STRESS_IO", "STRESS_VM"),
    unit="CPU s/s",
    weak="stress was paused or limited (docker pause, --cpus), or other programs took its processors",
    settings={
        # One kind of worker alone is a load, too.
        "STRESS_CPU": Setting("3", *COUNT_OR_0, "--cpu"),
        "STRESS_IO": Setting("3", *COUNT_OR_0, "--io"),
        "STRESS_VM": Setting("5", *COUNT_OR_0, "--vm"),
        # stress reads sizes like this.
        "STRESS_VM_BYTES": Setting("128M", r"[0-9]{1,15}[bBkKmMgG]?", "a number of bytes, e.g. 128M", "--vm-bytes"),
        "STRESS_TIMEOUT": Setting("4000s", r"[0-9]{1,9}[smhdySMHDY]?", "a time, e.g. 4000s", "--timeout"),
    },
)
