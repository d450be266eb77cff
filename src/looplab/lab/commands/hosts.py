"""./lab hosts: list, add or remove the hosts of a run on several hosts."""

from pathlib import Path

from looplab.errors import EXIT_GOOD, EXIT_MACHINE, LabError, UsageError
from looplab.lab.hosts.checks import reach
from looplab.lab.hosts.contexts import ADD, add_host, known_hosts, remove_host
from looplab.system.terminal import say

HEAD = ("name", "address", "engine", "cores", "cgroup", "machine", "clock")


def hosts(_root: Path, *, action: str | None, name: str, endpoint: str, address: str) -> int:
    """Add or remove a host, or list them all; return the exit code, 3 if one of them was not reached."""
    if action == "add":
        if not endpoint:
            raise UsageError("A host has a name and an address.", ADD.format(name or "NAME"))
        host = add_host(name, endpoint, address)
        try:
            reach(host)
        except LabError:
            remove_host(name)
            raise
        say(f"{host} is a host: ./lab run scenario5 --broker-on {name}")
        return EXIT_GOOD
    if action == "remove":
        remove_host(name)
        say(f"{name} is no host any more. Nothing on it was changed.")
        return EXIT_GOOD
    known = known_hosts()
    print(_line(HEAD) if known else f"No hosts. {ADD.format('NAME')}")
    lost = False
    for host in known.values():
        try:
            facts = reach(host)
        except LabError as error:
            lost = True
            print(f"{host.name:<10} {host.address:<15} not reached: {error}")
            continue
        engine = facts.engine
        row = (engine.server_version, engine.cores, f"v{engine.cgroup_version}", facts.architecture)
        print(_line((host.name, host.address, *row, f"{facts.clock_s:+.2f} s")))
    return EXIT_MACHINE if lost else EXIT_GOOD


def _line(words: tuple[object, ...]) -> str:
    widths = (10, 15, 15, 5, 6, 8, 0)
    return " ".join(f"{word!s:<{width}}" for word, width in zip(words, widths, strict=True)).rstrip()
