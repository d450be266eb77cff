"""What goes wrong on a machine, and what to do about it: one table for the messages and for docs/problems.md."""

from typing import NamedTuple


class Remedy(NamedTuple):
    """What a person sees, what to do, and by which words the output of a program is recognised.

    Without `seen` the page has no row of it, because the lab's own message has the remedy.
    """

    seen: str
    do: str
    signs: tuple[str, ...] = ()


NO_SPACE = Remedy(
    "`no space left`",
    "Free some disk space: old runs in results/ may go; see `docker system df`.",
    ("no space left",),
)
READ_ONLY = Remedy("", "The disk of results/ is read-only: `mount -o remount,rw`, or move the checkout.")
OTHER_USER = Remedy("", "Set LAB_UID in .env to the folder's owner: `stat -c %u results`.")
NO_MEMORY = Remedy(
    "`out of memory`",
    "Close other programs, or lower STRESS_VM; `dmesg` names what the kernel ended.",
    ("cannot allocate memory", "out of memory"),
)
ENGINE_GONE = Remedy(
    "",
    "Start it (`sudo systemctl start docker`, Docker Desktop); the next run stores what this one left.",
    ("cannot connect to the docker daemon", "is the docker daemon running", "error during connect"),
)
SUSPENDED = Remedy("", "Keep the lid open, switch off sleep on idle, and run it again.")
CLOCK_SET = Remedy("", "`sudo timedatectl set-ntp true`; WSL and virtual machines set theirs after each sleep.")
PORT_TAKEN = Remedy(
    "`Port 1883 is in use by …`, `port is already allocated`",
    "Set LAB_BROKER_PORT, LAB_PROMETHEUS_PORT, LAB_EXPORTER_PORT, LAB_GRAFANA_PORT or LAB_PAGES_PORT in .env to a "
    "free port.",
    ("port is already allocated", "address already in use"),
)
NO_MEMORY_LIMITS = Remedy("", "Add `cgroup_enable=memory` to the line of /boot/firmware/cmdline.txt, then reboot.")
PULL_LIMIT = Remedy(
    "`toomanyrequests` (a class behind one address)",
    "Bring the images by `./lab bundle FILE` and `./lab load FILE`, or `docker login`: Docker Hub counts pulls.",
    ("toomanyrequests", "too many requests", "pull rate limit"),
)
# The first row whose sign is in the output counts.
OF_ENGINE = (
    PORT_TAKEN,
    Remedy(
        "",
        "LAB_BIND in .env must be an address of this machine; 127.0.0.1 always is.",
        ("cannot assign requested address",),
    ),
    Remedy(
        "`no … available, non-overlapping … address pool` (with a VPN)",
        "End the VPN while the lab starts, or set "
        '`"default-address-pools": [{"base":"10.213.0.0/16","size":24}]` in /etc/docker/daemon.json.',
        ("non-overlapping ipv4 address pool", "address pools have been fully subnetted"),
    ),
    PULL_LIMIT,
    Remedy(
        "`no such host`, `i/o timeout` at a pull",
        "This machine reaches no registry: `./lab setup` builds stand-ins, `./lab load FILE` brings all images.",
        ("no such host", "i/o timeout", "network is unreachable", "tls handshake timeout"),
    ),
    Remedy(
        "",
        "This engine refuses real-time limits: set LAB_RTPRIO and LAB_PRIORITY_UID to 0 in .env.",
        ("rlimit",),
    ),
    Remedy(
        "",
        "Leave LAB_RATIONED empty in .env, or delete .env.machine and run ./lab setup.",
        ("cpu_rt", "rt_runtime", "real-time"),
    ),
    Remedy(
        "",
        "This machine has fewer processors than a part asks for: lower the …_CPUS_… variables in .env.",
        ("range of cpus",),
    ),
    Remedy(
        "",
        "A variable chooses this file (see compose.yaml): correct it or leave it empty, in the shell or in .env.",
        (".yaml: no such file",),
    ),
    Remedy(
        "",
        "OWN_LINK and OWN_BROKER_SERVICE name services of your Compose file (OWN_APPLICATION): correct them.",
        ("undefined service",),
    ),
    Remedy(
        "`No module named 'looplab…'`, `executable file not found`",
        "The images are older than this checkout: `./lab setup`, or `docker compose --profile '*' build`.",
        ("no module named", "executable file not found"),
    ),
    NO_SPACE,
    NO_MEMORY,
    ENGINE_GONE,
    Remedy(
        "",
        "Run ./lab setup: an image is missing.",
        ("no such image", "pull access", "not found"),
    ),
)


def remedy_of(output: str, otherwise: str) -> str:
    """Return what to do about a program's output; `otherwise` if nothing of it is known."""
    return next((one.do for one in OF_ENGINE if any(sign in output.lower() for sign in one.signs)), otherwise)


def table() -> str:
    """Return the rows as docs/problems.md has them."""
    rows = [f"| {one.seen} | {one.do} |" for one in OF_ENGINE if one.seen]
    return "\n".join(["| you see | do |", "|---|---|", *rows])
