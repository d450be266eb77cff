"""What the engine's kernel lets a container do about real-time priority, found out by trying."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from looplab.lab.docker.engine import Engine
from looplab.lab.programs import Outcome, call

BASE_IMAGE = "debian:trixie-slim"
CGROUP_ROOT = Path("/sys/fs/cgroup")

# The published limits; where the engine refuses them the treatment is recorded as not applied.
RTPRIO_BROKER = 90
RTPRIO_CONTROLLER = 99
# CPU time at real-time priority, of each second, on kernels that share it out by control group.
RT_RUNTIME_US = {
    "LAB_RT_RUNTIME_BROKER_US": 130_000,
    "LAB_RT_RUNTIME_CONTROLLER_US": 130_000,
    "LAB_RT_RUNTIME_BRIDGE_US": 130_000,
    "LAB_RT_RUNTIME_ROBOT_US": 400_000,
    # 65 us a packet: 1500 packets a second.
    "LAB_RT_RUNTIME_LINK_US": 100_000,
}
# What the engine's own group should hold: the sum above and room for probes, below the kernel's 950000.
RT_BUDGET_US = 900_000
# Small enough to fit beside a run that is going on.
PROBE_RUNTIME_US = 10_000

# pidfd_open is call 434 and pidfd_getfd 438 on every architecture; the child takes another user's identity, so that
# only SYS_PTRACE (and the seccomp profile) decides, as between broker and observer. Debian's base has perl, the lab's
# own images, which a room without a network may have alone, have Python.
_PROBE_SCRIPT = r"""
for file in /sys/fs/cgroup/cpu*/cpu.rt_runtime_us; do
    [ -e "$file" ] && echo rt_group_sched=yes && break
done
if chrt -f 90 true 2>/dev/null; then echo fifo=yes; else echo fifo=no; fi
if command -v python3 >/dev/null; then
    echo "pidfd_getfd=$(python3 -c '
import ctypes, os, signal, socket, time
ready, tell = os.pipe()
child = os.fork()
if not child:
    own = socket.socket()
    os.setuid(65534)
    os.write(tell, bytes([own.fileno()]))
    time.sleep(10)
    os._exit(0)
number = os.read(ready, 1)[0]
libc = ctypes.CDLL(None, use_errno=True)
copy = libc.syscall(438, os.pidfd_open(child), number, 0)
print("yes" if copy >= 0 else "no: " + os.strerror(ctypes.get_errno()))
os.kill(child, signal.SIGKILL)
' 2>&1)"
else
    echo "pidfd_getfd=$(perl -MSocket -MPOSIX -e '
        pipe(my $ready, my $tell);
        my $child = fork;
        if (!$child) {
            socket(my $socket, PF_INET, SOCK_STREAM, 0);
            POSIX::setuid(65534);
            syswrite($tell, fileno($socket) . "\n");
            sleep 10;
            exit;
        }
        my $number = <$ready> + 0;
        my $handle = syscall(434, $child, 0);
        my $copy = $handle < 0 ? -1 : syscall(438, $handle, $number, 0);
        print $copy >= 0 ? "yes" : "no: $!";
        kill 9, $child;
    ' 2>&1)"
fi
"""


@dataclass(frozen=True)
class Limits:
    """`known` is False where no image was there to try with; then nothing is assumed to work."""

    known: bool = False
    rtprio_max: int = 0
    rtprio_refusal: str = ""
    rt_group_sched: bool = False
    rt_budget_us: int | None = None
    fifo: bool = False
    fifo_refusal: str = ""
    pidfd_getfd: bool = False
    pidfd_refusal: str = ""
    unknown_because: str = field(default="", compare=False)


def rt_budget_file(engine: Engine) -> Path | None:
    """The engine's parent group on cgroup v1 with RT_GROUP_SCHED; None where there is no such thing."""
    if not engine.local or engine.rootless or engine.cgroup_version != 1:
        return None
    group = "system.slice" if engine.cgroup_driver == "systemd" else "docker"
    for controller in ("cpu", "cpu,cpuacct", "cpuacct,cpu"):
        top = CGROUP_ROOT / controller
        if (top / "cpu.rt_runtime_us").exists():
            return top / group / "cpu.rt_runtime_us"
    return None


def rt_budget_us(engine: Engine) -> int | None:
    """Real-time CPU time the engine's containers may share, of each second; None where not rationed."""
    file = rt_budget_file(engine)
    if file is None:
        return None
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def give_rt_budget(engine: Engine) -> bool:
    """Let containers have real-time time (needs root); the group may not exist before the first one."""
    file = rt_budget_file(engine)
    if file is None or (rt_budget_us(engine) or 0) > 0:
        return True
    try:
        file.parent.mkdir(exist_ok=True)
        file.write_text(str(RT_BUDGET_US))
    except OSError:
        return False
    return True


def probe_limits(engine: Engine, images: Sequence[str] = (BASE_IMAGE,), cache: Path | None = None) -> Limits:
    """Try in throw-away containers (about 2 s), or take the answer found earlier on this very machine.

    Takes the first of `images` that is here: Debian's, or one of the lab's own with Python.
    """
    if not engine.serves:
        return Limits(unknown_because="no engine answers")
    key = _machine_key(engine)
    remembered = _recall(cache, key)
    if remembered is not None:
        return remembered
    image = next((name for name in images if call(["docker", "image", "inspect", name]).good), None)
    if image is None:
        return Limits(unknown_because="no image to try with yet: run ./lab setup")
    limits = _try_all(engine, image)
    if limits.known:
        _remember(cache, key, limits)
    return limits


def _try_all(engine: Engine, image: str) -> Limits:
    first = _in_container(image, _PROBE_SCRIPT, "--cap-add=SYS_NICE", "--cap-add=SYS_PTRACE")
    if not first.good:
        return Limits(unknown_because=f"a container of {image} did not run: {first.said}")
    facts = dict(line.split("=", 1) for line in first.stdout.splitlines() if "=" in line)
    budget_us = rt_budget_us(engine)
    grouped = facts.get("rt_group_sched") == "yes" or budget_us is not None
    fifo, fifo_refusal = facts.get("fifo") == "yes", "SYS_NICE alone is not enough"
    if not fifo and grouped:
        fifo, fifo_refusal = _try_fifo_with_budget(image, budget_us)
    rtprio_max, rtprio_refusal = _try_rtprio(image)
    pidfd = facts.get("pidfd_getfd", "no: not tried")
    return Limits(
        known=True,
        rtprio_max=rtprio_max,
        rtprio_refusal=rtprio_refusal,
        rt_group_sched=grouped,
        rt_budget_us=budget_us,
        fifo=fifo,
        fifo_refusal="" if fifo else fifo_refusal,
        pidfd_getfd=pidfd == "yes",
        pidfd_refusal="" if pidfd == "yes" else pidfd.removeprefix("no: "),
    )


def _try_fifo_with_budget(image: str, budget_us: int | None) -> tuple[bool, str]:
    if budget_us == 0:
        return False, "the engine's control group has no real-time budget (cpu.rt_runtime_us is 0)"
    budget = f"--cpu-rt-runtime={PROBE_RUNTIME_US}"
    tried = _in_container(image, "chrt -f 90 true", "--cap-add=SYS_NICE", budget)
    return tried.good, "" if tried.good else engine_complaint(tried)


def _try_rtprio(image: str) -> tuple[int, str]:
    """The highest of the published limits that the engine grants."""
    refusal = ""
    for wanted in (RTPRIO_CONTROLLER, RTPRIO_BROKER):
        tried = _in_container(image, "true", f"--ulimit=rtprio={wanted}")
        if tried.good:
            return wanted, refusal
        refusal = engine_complaint(tried)
    return 0, refusal


def _in_container(image: str, script: str, *options: str) -> Outcome:
    as_root = ["--network=none", "--user=0:0", "--entrypoint=sh"]
    return call(["docker", "run", "--rm", *as_root, *options, image, "-c", script], timeout_s=60)


def engine_complaint(outcome: Outcome) -> str:
    """The telling end of the engine's long chain of causes ("... : error setting rlimit type 14: ...")."""
    lines = [line for line in outcome.stderr.splitlines() if line and not line.startswith("Run 'docker")]
    if not lines:
        return outcome.said
    causes = lines[-1].removesuffix(": unknown").split(": ")
    return ": ".join(causes[-2:])


def _machine_key(engine: Engine) -> dict[str, str]:
    """Whatever changes one of these may change what the kernel grants."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return {
        "server": f"{engine.server_id} {engine.server_version} {engine.kernel} {engine.endpoint}",
        "boot": boot,
        "budget": str(rt_budget_us(engine)),
        "user": str(os.geteuid()),
    }


def _recall(cache: Path | None, key: dict[str, str]) -> Limits | None:
    if cache is None:
        return None
    try:
        stored = json.loads(cache.read_text())
        return Limits(**stored["limits"]) if stored["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
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
