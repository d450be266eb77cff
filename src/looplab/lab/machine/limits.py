"""Find out by trying what real-time priority the engine grants, and which Compose variables follow."""

import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from looplab.lab.docker.engine import Engine
from looplab.lab.docker.images import is_here
from looplab.lab.programs import Outcome, call
from looplab.system.machine_facts import boot_id

CACHE = Path(".cache/limits.json")
# The thesis prints 90 and 99. If the engine refuses the higher limit, runs record both as not applied.
MOST_RTPRIO = 99
# Of each second, on kernels that ration real-time CPU by control group: the sum of the parts' `cpu_rt_runtime` in the
# Compose files (of which the link's carries 1500 packets, and the treatments' 200 wake-ups of noise probes), and what
# the engine's own group should hold: room for probes, too, below the kernel's 950000.
RT_SHARES_US, RT_BUDGET_US = 890_000, 900_000
# This budget is small enough to fit beside a run.
PROBE_RUNTIME_US = 10_000
# What is not measured gets a control group of its own: a neighbour in the measured parts' group lets the fair scheduler
# of some kernels stall them for half a second (docs/method.md). Both systemd and cgroupfs accept the name.
OWN_GROUP = "looplab.slice"
# Observers run in the top group, named by cgroup driver: only beside the measured parts' whole group their low weight
# counts. With the usual weight a scrape delays a message by milliseconds (docs/method.md).
TOP_GROUPS = {"cgroupfs": "/", "systemd": "-.slice"}
# Without another group, observers keep the usual weight: a low weight beside the measured parts stalls them.
AMONG_THE_MEASURED = {"LAB_WATCH_GROUP": "", "LAB_WATCH_WEIGHT": "0"}

# An engine may refuse the published limit, SCHED_FIFO, or another control group.
RTPRIO, FIFO, GROUP = "rtprio", "fifo", "group"

_FIFO = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(90))"
_RATIONED = 'import glob; print(*glob.glob("/sys/fs/cgroup/cpu*/cpu.rt_runtime_us"))'


@dataclass(frozen=True)
class Limits:
    """`refused` holds reasons by name; `unknown` says why nothing could be tried: then nothing counts as granted."""

    unknown: str = ""
    rt_group_sched: bool = False
    rt_budget_us: int | None = None
    # This is one of TOP_GROUPS, or "" if the engine refuses it.
    watch_group: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)

    def grants(self, name: str) -> bool:
        return not self.unknown and name not in self.refused


def rt_budget_file(engine: Engine) -> Path | None:
    """Return the file of the engine's parent group on cgroup v1 with RT_GROUP_SCHED; None on other machines."""
    if not engine.local or engine.rootless or engine.cgroup_version != 1:
        return None
    group = "system.slice" if engine.cgroup_driver == "systemd" else "docker"
    # Tests set LAB_HOST to a folder with the few files of a host that they need (scripts/install-engine).
    cgroups = Path(os.environ.get("LAB_HOST") or "/") / "sys/fs/cgroup"
    # systemd makes links of this name to groups of several controllers.
    top = cgroups / "cpu"
    return top / group / "cpu.rt_runtime_us" if (top / "cpu.rt_runtime_us").exists() else None


def rt_budget_us(engine: Engine) -> int | None:
    """Return the real-time CPU time that all containers may share, of each second; None if it is not rationed."""
    file = rt_budget_file(engine)
    if file is None:
        return None
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def give_rt_budget(engine: Engine) -> bool:
    """Give the engine's containers a real-time budget, which needs root; return whether they have one."""
    file = rt_budget_file(engine)
    if file is None or (rt_budget_us(engine) or 0) >= RT_SHARES_US:
        return True
    try:
        # The group may not exist before the first container.
        file.parent.mkdir(exist_ok=True)
        file.write_text(str(RT_BUDGET_US))
    except OSError:
        return False
    return True


def probe_limits(engine: Engine, image: str, cache: Path) -> Limits:
    """Try in throw-away containers (about 2 s), or return what was found earlier on this very machine.

    `image` is the lab's own one of the service that sets priorities: it has Python.
    """
    if not engine.serves:
        return Limits("no engine answers")
    asked = [engine.server_id, engine.server_version, engine.kernel, engine.endpoint, boot_id(), os.geteuid()]
    key = [*asked, rt_budget_us(engine), *asdict(Limits())]
    with suppress(OSError, ValueError, TypeError):
        known, stored = json.loads(cache.read_text())
        if known == key:
            return Limits(**stored)
    if not is_here(image, engine.docker):
        return Limits("no image to try with yet")
    limits = _try_all(engine, image)
    # A cache that cannot be written only costs the next call 2 s.
    with suppress(OSError):
        if not limits.unknown:
            cache.parent.mkdir(parents=True, exist_ok=True)
            cache.write_text(json.dumps([key, asdict(limits)], indent=1))
    return limits


def _try_all(engine: Engine, image: str) -> Limits:
    rationed = _in_container(engine, image, _RATIONED)
    if not rationed.good:
        return Limits(f"a container of {image} did not run: {rationed.reason}")
    budget_us = rt_budget_us(engine)
    grouped = bool(rationed.stdout.strip()) or budget_us is not None
    top = TOP_GROUPS.get(engine.cgroup_driver, "")
    tries = {
        RTPRIO: ("", f"--ulimit=rtprio={MOST_RTPRIO}"),
        FIFO: (_FIFO, "--cap-add=SYS_NICE"),
        GROUP: ("", f"--cgroup-parent={OWN_GROUP}"),
        top: ("", f"--cgroup-parent={top}"),
    }
    with ThreadPoolExecutor() as pool:
        refusals = dict(zip(tries, pool.map(lambda each: _refusal(engine, image, *each), tries.values()), strict=True))
    fifo, watch_group = refusals[FIFO], "" if refusals.pop(top) else top
    if fifo and budget_us is not None and budget_us < RT_SHARES_US:
        fifo = f"the engine's control group has too small a real-time budget (cpu.rt_runtime_us is {budget_us})"
    elif fifo and grouped:
        fifo = _refusal(engine, image, _FIFO, "--cap-add=SYS_NICE", f"--cpu-rt-runtime={PROBE_RUNTIME_US}")
    refused = {name: why for name, why in {**refusals, FIFO: fifo}.items() if why}
    return Limits(rt_group_sched=grouped, rt_budget_us=budget_us, watch_group=watch_group, refused=refused)


def _refusal(engine: Engine, image: str, code: str, *options: str) -> str:
    """Return why a container with these options does not run `code`, "" if it does.

    The end of the engine's long chain of causes: "... : error setting rlimit type 14: ...".
    """
    tried = _in_container(engine, image, code, *options)
    if tried.good:
        return ""
    lines = [line for line in tried.stderr.splitlines() if line and not line.startswith("Run 'docker")]
    causes = (lines or [tried.reason])[-1].removesuffix(": unknown").split(": ")
    return ": ".join(causes[-2:])


def _in_container(engine: Engine, image: str, code: str, *options: str) -> Outcome:
    as_root = ["--network=none", "--user=0:0", "--entrypoint=python3"]
    return call([*engine.docker, "run", "--rm", "--pull=never", *as_root, *options, image, "-c", code], timeout_s=60)


def machine_variables(limits: Limits) -> dict[str, str]:
    """Return the Compose variables that follow from the limits.

    Only refused priorities are set: a granted one keeps the value of .env, which the user may have chosen.
    """
    refused = [] if limits.grants(RTPRIO) else ["LAB_RTPRIO"]
    if refused and limits.grants(FIFO):
        # Only root gets what `cap_add` names. Where the limit is refused, root with SYS_NICE has the permission.
        refused.append("LAB_PRIORITY_UID")
    rationed = limits.rt_group_sched and limits.grants(FIFO)
    return {
        **_groups(limits, rationed=rationed),
        **dict.fromkeys(refused, "0"),
        **({"LAB_RATIONED": "on"} if rationed else {}),
    }


def _groups(limits: Limits, *, rationed: bool) -> dict[str, str]:
    """Return the control groups that differ from the Compose files' OWN_GROUP.

    Real-time budgets are the engine's group's: what has one stays there, where no ordinary task is its neighbour.
    """
    refused = GROUP in limits.refused
    far = {"LAB_FAR_GROUP": ""} if refused or rationed else {}
    if limits.watch_group:
        return {**far, "LAB_WATCH_GROUP": limits.watch_group}
    return {**far, **(AMONG_THE_MEASURED if refused else {})}
