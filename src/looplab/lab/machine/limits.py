"""What real-time priority the engine grants its containers, found by trying; and the Compose variables that follow."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from looplab.lab.docker.engine import Engine
from looplab.lab.programs import Outcome, call
from looplab.lab.settings import RT_RUNTIME_US
from looplab.system.machine_facts import boot_id

# The published limits; if the engine refuses them, the treatment is recorded as not applied.
RTPRIO_BROKER = 90
RTPRIO_CONTROLLER = 99
# What the engine's own group should hold: the sum of RT_RUNTIME_US and room for probes, below the kernel's 950000.
RT_BUDGET_US = 900_000
# Small enough to fit beside a run.
PROBE_RUNTIME_US = 10_000
# A control group beside the engine's, for what is not measured: a neighbour in the measured parts' own group lets the
# fair scheduler of some kernels stall them for half a second (docs/stalls.md). The name suits systemd and cgroupfs.
OWN_GROUP = "looplab.slice"
# The top of the engine's groups, by cgroup driver. What looks on is there, for only beside the measured parts' whole
# group does its low weight count: with the usual one a scrape delays a message by milliseconds (docs/stalls.md).
TOP_GROUPS = {"cgroupfs": "/", "systemd": "-.slice"}
# Where no other group is allowed, what looks on keeps the usual weight: a low one among the measured parts stalls them.
AMONG_THE_MEASURED = {"LAB_WATCH_GROUP": "", "LAB_WATCH_WEIGHT": "0"}

# pidfd_getfd is call 438 on every architecture. The child becomes another user, so that only SYS_PTRACE (and the
# seccomp profile) decides, as between broker and observer.
_FIFO = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(90))"
_PROBE = """
import ctypes, glob, os, signal, socket
if glob.glob("/sys/fs/cgroup/cpu*/cpu.rt_runtime_us"):
    print("rt_group_sched=yes")
reader, writer = os.pipe()
child = os.fork()
if not child:
    held = socket.socket()
    os.setuid(65534)
    os.write(writer, str(held.fileno()).encode())
    signal.pause()
number = int(os.read(reader, 9))
libc = ctypes.CDLL(None, use_errno=True)
copy = libc.syscall(438, os.pidfd_open(child), number, 0)
print("pidfd_getfd=" + ("yes" if copy >= 0 else "no: " + os.strerror(ctypes.get_errno())))
os.kill(child, signal.SIGKILL)
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(90))
    print("fifo=yes")
except OSError:
    print("fifo=no")
"""


@dataclass(frozen=True)
class Limits:
    """`known` is False if there was no image to try with; then nothing is assumed to work."""

    known: bool = False
    rtprio_max: int = 0
    rtprio_refusal: str = ""
    rt_group_sched: bool = False
    rt_budget_us: int | None = None
    fifo: bool = False
    fifo_refusal: str = ""
    pidfd_getfd: bool = False
    pidfd_refusal: str = ""
    own_group: bool = False
    own_group_refusal: str = ""
    # One of TOP_GROUPS; "" if it is refused.
    watch_group: str = ""
    unknown_because: str = field(default="", compare=False)


def rt_budget_file(engine: Engine) -> Path | None:
    """Return the file of the engine's parent group on cgroup v1 with RT_GROUP_SCHED; None on other machines."""
    if not engine.local or engine.rootless or engine.cgroup_version != 1:
        return None
    group = "system.slice" if engine.cgroup_driver == "systemd" else "docker"
    # Tests set LAB_HOST to a folder with the few files of a host that they need (scripts/install-engine).
    cgroups = Path(os.environ.get("LAB_HOST") or "/") / "sys/fs/cgroup"
    for controller in ("cpu", "cpu,cpuacct", "cpuacct,cpu"):
        top = cgroups / controller
        if (top / "cpu.rt_runtime_us").exists():
            return top / group / "cpu.rt_runtime_us"
    return None


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
    if file is None or (rt_budget_us(engine) or 0) > 0:
        return True
    try:
        # The group may not exist before the first container.
        file.parent.mkdir(exist_ok=True)
        file.write_text(str(RT_BUDGET_US))
    except OSError:
        return False
    return True


def probe_limits(engine: Engine, image: str, cache: Path | None = None) -> Limits:
    """Try in throw-away containers (about 2 s), or return what was found earlier on this very machine.

    `image` is the lab's own one of the service that uses priority and sockets: it has Python.
    """
    if not engine.serves:
        return Limits(unknown_because="no engine answers")
    key = _machine_key(engine)
    remembered = _recall(cache, key)
    if remembered is not None:
        return remembered
    if not call(["docker", "image", "inspect", image]).good:
        return Limits(unknown_because="no image to try with yet")
    limits = _try_all(engine, image)
    if limits.known:
        _remember(cache, key, limits)
    return limits


def _try_all(engine: Engine, image: str) -> Limits:
    first = _in_container(image, _PROBE, "--cap-add=SYS_NICE", "--cap-add=SYS_PTRACE")
    if not first.good:
        return Limits(unknown_because=f"a container of {image} did not run: {first.said}")
    facts = dict(line.split("=", 1) for line in first.stdout.splitlines() if "=" in line)
    budget_us = rt_budget_us(engine)
    grouped = facts.get("rt_group_sched") == "yes" or budget_us is not None
    fifo_refusal = "" if facts.get("fifo") == "yes" else "SYS_NICE alone is not enough"
    if fifo_refusal and grouped:
        fifo_refusal = _try_fifo_with_budget(image, budget_us)
    rtprio_max, rtprio_refusal = _try_rtprio(image)
    own_group = _in_container(image, "", f"--cgroup-parent={OWN_GROUP}")
    top = TOP_GROUPS.get(engine.cgroup_driver, "")
    pidfd = facts.get("pidfd_getfd", "no: not tried")
    return Limits(
        known=True,
        rtprio_max=rtprio_max,
        rtprio_refusal=rtprio_refusal,
        rt_group_sched=grouped,
        rt_budget_us=budget_us,
        fifo=not fifo_refusal,
        fifo_refusal=fifo_refusal,
        pidfd_getfd=pidfd == "yes",
        pidfd_refusal="" if pidfd == "yes" else pidfd.removeprefix("no: "),
        own_group=own_group.good,
        own_group_refusal="" if own_group.good else engine_complaint(own_group),
        watch_group=top if top and _in_container(image, "", f"--cgroup-parent={top}").good else "",
    )


def _try_fifo_with_budget(image: str, budget_us: int | None) -> str:
    """Return why SCHED_FIFO is refused to a container with a budget of its own, "" if it is not."""
    if budget_us == 0:
        return "the engine's control group has no real-time budget (cpu.rt_runtime_us is 0)"
    tried = _in_container(image, _FIFO, "--cap-add=SYS_NICE", f"--cpu-rt-runtime={PROBE_RUNTIME_US}")
    return "" if tried.good else engine_complaint(tried)


def _try_rtprio(image: str) -> tuple[int, str]:
    """Return the highest of the published limits that the engine grants, and why it refuses more."""
    refusal = ""
    for wanted in (RTPRIO_CONTROLLER, RTPRIO_BROKER):
        tried = _in_container(image, "", f"--ulimit=rtprio={wanted}")
        if tried.good:
            return wanted, refusal
        refusal = engine_complaint(tried)
    return 0, refusal


def _in_container(image: str, code: str, *options: str) -> Outcome:
    as_root = ["--network=none", "--user=0:0", "--entrypoint=python3"]
    return call(["docker", "run", "--rm", *as_root, *options, image, "-c", code], timeout_s=60)


def engine_complaint(outcome: Outcome) -> str:
    """Return the end of the engine's long chain of causes ("... : error setting rlimit type 14: ...")."""
    lines = [line for line in outcome.stderr.splitlines() if line and not line.startswith("Run 'docker")]
    if not lines:
        return outcome.said
    causes = lines[-1].removesuffix(": unknown").split(": ")
    return ": ".join(causes[-2:])


def _machine_key(engine: Engine) -> dict[str, str]:
    """Return the facts that decide what the kernel grants."""
    return {
        "server": f"{engine.server_id} {engine.server_version} {engine.kernel} {engine.endpoint}",
        "boot": boot_id(),
        "budget": str(rt_budget_us(engine)),
        "user": str(os.geteuid()),
    }


def _recall(cache: Path | None, key: dict[str, str]) -> Limits | None:
    if cache is None:
        return None
    try:
        stored = json.loads(cache.read_text())
        # A cache of an older release lacks fields.
        whole = stored["limits"].keys() == asdict(Limits()).keys()
        return Limits(**stored["limits"]) if whole and stored["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _remember(cache: Path | None, key: dict[str, str], limits: Limits) -> None:
    if cache is None:
        return
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        half = cache.with_suffix(f".{os.getpid()}")
        half.write_text(json.dumps({"key": key, "limits": asdict(limits)}, indent=1))
        half.replace(cache)
    except OSError:
        return  # A cache that cannot be written only costs the next call 2 s.


def machine_variables(limits: Limits, images: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the Compose variables that follow from the limits, and those of `images`.

    Only refused priorities are set: a granted one keeps the value of .env, which the user may have chosen.
    """
    published = {"LAB_RTPRIO_BROKER": RTPRIO_BROKER, "LAB_RTPRIO_CONTROLLER": RTPRIO_CONTROLLER}
    budgets = rt_runtimes_us(limits)
    return {
        **_groups(limits, rationed=any(budgets.values())),
        **{name: "0" for name, wanted in published.items() if limits.rtprio_max < wanted},
        **{name: str(runtime_us) for name, runtime_us in budgets.items()},
        **(images or {}),
    }


def _groups(limits: Limits, *, rationed: bool) -> dict[str, str]:
    """Return the control groups that differ from the Compose files' OWN_GROUP.

    Real-time budgets are the engine's group's: what has one stays there, where no ordinary task is its neighbour.
    """
    refused = limits.known and not limits.own_group
    far = {"LAB_FAR_GROUP": ""} if refused or rationed else {}
    if limits.watch_group:
        return {**far, "LAB_WATCH_GROUP": limits.watch_group}
    return {**far, **(AMONG_THE_MEASURED if refused else {})}


def rt_runtimes_us(limits: Limits) -> dict[str, int]:
    """Return each container's real-time budget; 0, which sets none, unless the kernel rations real-time CPU."""
    budget_us = RT_BUDGET_US if limits.rt_budget_us is None else limits.rt_budget_us
    if not (limits.rt_group_sched and limits.fifo and budget_us > 0):
        return dict.fromkeys(RT_RUNTIME_US, 0)
    # A smaller budget is shared out in the same proportions, rounded down so that the sum fits.
    share_us = min(budget_us, RT_BUDGET_US)
    return {name: wanted_us * share_us // RT_BUDGET_US for name, wanted_us in RT_RUNTIME_US.items()}
