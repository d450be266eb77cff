"""./lab listen, ./lab pcap, ./lab shell: messages, packets, a shell, beside the parts of a run that goes on."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from looplab.errors import LabError, MachineError, UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.checkout import Lab
from looplab.lab.image_names import own_reference
from looplab.lab.programs import call
from looplab.lab.scenarios import every
from looplab.lab.settings import project_name
from looplab.run.identities import ASIP_CLIENTS_GID
from looplab.run.inspections import noted
from looplab.system.terminal import say

# The kernel hands over packets in blocks, at each second tick of a timer of 1 s; an ended tcpdump leaves the last one.
BLOCKS_S = 2.5
# Some 100 MB: a flood of a minute or two.
MOST_PACKETS = 1_000_000
COSTS = {
    "listen": "listen: one more client, about 2 % of a processor at 20 ms; the run notes it.",
    "pcap": "pcap: copies packets, less than 1 % of a processor at 20 ms; the run notes it.",
    "shell": "shell: what you start runs inside a part that is measured; the run notes it.",
}


def listen(root: Path, *, seconds: float) -> int:
    """Print requests and answers as they pass, in another experiment all messages; return the exit code."""
    lab = Lab(root)
    running = lab.compose().listed()
    known = every(root)
    experiment = next((known[name].experiment.name for name in running if name in known), EXPERIMENTS.default)
    image = own_reference("controller", lab.settings())
    words = ["--entrypoint", "python3", image, "-m", "looplab.experiments.listen", experiment]
    if lab.settings().get("ROBOT") == "remote":  # The broker asks for a password.
        kept = f"{project_name(root)}_identities:/run/looplab:ro"
        words = ["--env", "ROBOT=remote", "--volume", kept, "--group-add", str(ASIP_CLIENTS_GID), *words]
    # Counted there: a busy machine needs seconds to start the container.
    words += [str(seconds)] if seconds else []
    command = _in_network_of_broker(lab, running, words)
    with _looking(root, "listen"):
        return _run(command, None)


def pcap(root: Path, file: Path, *, seconds: float, interface: str) -> int:
    """Write what passes the broker's interface into `file` ("-": standard output); return the exit code."""
    lab = Lab(root)
    image = own_reference("capture", lab.settings())
    if not call(["docker", "image", "inspect", image]).good:
        services = lab.compose().config()["services"].values()
        (starts,) = {profile for service in services if service["image"] == image for profile in service["profiles"]}
        remedy = f"Build it before a run, which a build would disturb: `./lab setup {starts}`."
        raise MachineError(f"{image} is not here.", remedy)
    rights = [word for right in ("NET_RAW", "SETUID", "SETGID") for word in ("--cap-add", right)]
    # As images/capture does: root at first, then a user that keeps NET_RAW alone.
    user = ["--reuid=10011", "--regid=10011", "--clear-groups"]
    user += ["--inh-caps=-all,+net_raw", "--ambient-caps=-all,+net_raw"]
    words = [*rights, "--entrypoint", "setpriv", image, *user, "tcpdump", "-n", "-p", "-i", interface]
    live = str(file) == "-"
    words += ["-c", str(MOST_PACKETS), *(["-U"] if live else []), "-w", "-"]
    command = _in_network_of_broker(lab, lab.compose().listed(), words)
    with _looking(root, "pcap"), contextlib.nullcontext(sys.stdout.buffer) if live else file.open("wb") as packets:
        return _run(command, packets, seconds, BLOCKS_S)


def shell(root: Path, part: str) -> int:
    """Start a shell in a running part; return its exit code. Raises LabError if the part has none."""
    lab = Lab(root)
    running = lab.compose().listed()
    if part not in running:
        raise UsageError(f"No part {part} runs.", f"Running are: {', '.join(sorted(running)) or 'none'}.")
    container = running[part]
    if not call(["docker", "exec", container, "sh", "-c", ":"]).good:
        short = container[:12]
        python = call(["docker", "exec", container, "python3", "-V"]).good
        inside = f"`docker exec -it {short} python3` starts Python in it. " if python else ""
        neighbour = f"docker run --rm -it --network container:{short} {lab.settings()['MOSQUITTO_IMAGE']} sh"
        raise LabError(
            f"{part} has no shell: its image holds only what the part needs.",
            f"{inside}A shell in its network: `{neighbour}`. Its files: `docker export {short} | tar t`.",
        )
    with _looking(root, "shell"):
        terminal = ["--tty"] if sys.stdin.isatty() else []
        return subprocess.call(["docker", "exec", "--interactive", *terminal, container, "sh"])


@contextlib.contextmanager
def _looking(root: Path, name: str) -> Iterator[None]:
    say(COSTS[name])
    with noted(root / "results", f"./lab {name}"):
        yield


def _in_network_of_broker(lab: Lab, running: dict[str, str], words: Sequence[str]) -> list[str]:
    """Return the command that starts a container in the network of the broker. Raises LabError if none runs.

    It weighs as little as Prometheus does, and has no rights beyond those in `words`.
    """
    brokers = [container for name, container in sorted(running.items()) if "broker" in name and "link" not in name]
    if not brokers:
        raise MachineError("No broker runs.", "Start a run in another terminal: `./lab run scenario1`.")
    settings = lab.settings()
    group = settings.get("LAB_WATCH_GROUP", "looplab.slice")
    return [
        *("docker", "run", "--rm", "--pull", "never", "--network", f"container:{brokers[0]}"),
        *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true", "--pids-limit", "64"),
        *("--memory", "128m", "--cpu-shares", settings.get("LAB_WATCH_WEIGHT") or "128"),
        *(["--cgroup-parent", group] if group else []),
        *words,
    ]


def _run(command: Sequence[str], output: IO[bytes] | None, seconds: float = 0.0, grace_s: float = 0.0) -> int:
    """Run a container until it ends, Ctrl-C, or `seconds` have passed (0: no end); return the exit code.

    It goes on for `grace_s` more, then ends by SIGINT: a Ctrl-C at the terminal does not reach it by itself.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, start_new_session=True) as process:
        with contextlib.suppress(KeyboardInterrupt, subprocess.TimeoutExpired):
            return process.wait(seconds or None)
        time.sleep(grace_s)
        process.send_signal(signal.SIGINT)
        return process.wait()
