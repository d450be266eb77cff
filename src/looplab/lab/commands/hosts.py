"""./lab hosts: list or add the hosts of a run on several hosts; `docker context rm NAME` removes one."""

from pathlib import Path

from looplab.errors import EXIT_GOOD, EXIT_MACHINE, LabError, UsageError
from looplab.lab.hosts.contexts import ADD, Host, add_host, known_hosts, reach
from looplab.system.terminal import say


def hosts(_root: Path, *, action: str | None, name: str, endpoint: str, address: str) -> int:
    """Add a host, or list them all; return the exit code, 3 if one of them was not reached."""
    if action == "add":
        if not endpoint:
            raise UsageError("A host has a name and an address.", ADD.format(name or "NAME"))
        host = add_host(name, endpoint, address)
        say(f"{host} is a host: ./lab run scenario5 --broker-on {name}")
        return EXIT_GOOD
    known = known_hosts()
    if not known:
        print(f"No hosts. {ADD.format('NAME')}")
    return max([EXIT_GOOD, *map(_print_host, known.values())])


def _print_host(host: Host) -> int:
    """Print what a host has; return the exit code, 3 if it was not reached."""
    try:
        engine = reach(host)
    except LabError as error:
        print(f"{host.name} {host.address}: not reached: {error}")
        return EXIT_MACHINE
    machine = f"{engine.cores} cores, {engine.architecture}, cgroup v{engine.cgroup_version}"
    print(f"{host.name} {host.address}: Docker {engine.server_version}, {machine}")
    return EXIT_GOOD
