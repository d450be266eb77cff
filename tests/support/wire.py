"""A second network on this machine: a namespace behind a switch, whose cable can be pulled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self


def call(*words: str, timeout_s: float = 60.0, **options: Any) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, check=False, **options)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


class Lan:
    """A switch in a namespace of its own; this machine has the address 1, each host of `names` the next one."""

    network = 78

    def __init__(self, number: int, names: tuple[str, ...]) -> None:
        self.here = f"10.{self.network}.{number}.1"
        self.addresses = {name: f"10.{self.network}.{number}.{index}" for index, name in enumerate(names, 2)}
        of_all = f"{self.network}{number}"
        self._prefix, self._switch, self._lan = f"labn{of_all}", f"labsw{of_all}", f"lablan{of_all}"

    def namespace(self, name: str) -> str:
        return f"{self._prefix}{name}"

    def __enter__(self) -> Self:
        try:
            self._lay()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _lay(self) -> None:
        call("ip", "netns", "add", self._switch)
        call("ip", "-n", self._switch, "link", "add", "switch", "type", "bridge")
        call("ip", "-n", self._switch, "link", "set", "switch", "up")
        call("ip", "link", "add", self._lan, "type", "veth", "peer", "name", "here", "netns", self._switch)
        call("ip", "addr", "add", f"{self.here}/24", "dev", self._lan)
        call("ip", "link", "set", self._lan, "up")
        for name in self.addresses:
            self._lay_host(name)
        for port in ("here", *self.addresses):
            call("ip", "-n", self._switch, "link", "set", port, "master", "switch", "up")

    def _lay_host(self, name: str) -> None:
        """The port `name` of the switch, and what is at its other end."""
        there = self.namespace(name)
        call("ip", "netns", "add", there)
        in_switch = ("peer", "name", name, "netns", self._switch)
        call("ip", "-n", there, "link", "add", "eth0", "type", "veth", *in_switch)
        call("ip", "-n", there, "addr", "add", f"{self.addresses[name]}/24", "dev", "eth0")
        for link in ("eth0", "lo"):
            call("ip", "-n", there, "link", "set", link, "up")
        call("ip", "-n", there, "route", "add", "default", "via", self.here)

    def __exit__(self, *_error: object) -> None:
        # By name: what goes with its namespace goes some time later, and holds the name until then.
        subprocess.run(["ip", "link", "delete", self._lan], capture_output=True, timeout=30, check=False)
        for name in (*map(self.namespace, self.addresses), self._switch):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=30, check=False)

    def unplug(self, name: str) -> None:
        call("ip", "-n", self._switch, "link", "set", name, "down")

    @contextmanager
    def unplugged(self, name: str) -> Iterator[None]:
        """The cable of a host is out of the switch."""
        self.unplug(name)
        try:
            yield
        finally:
            call("ip", "-n", self._switch, "link", "set", name, "up")


class Wire(Lan):
    """This machine at `here`, the namespace `pi` at `there`, a switch of its own between them."""

    network = 77

    def __init__(self, number: int) -> None:
        super().__init__(number, ("pi",))
        self.there, self.pi = self.addresses["pi"], self.namespace("pi")

    def cut(self) -> AbstractContextManager[None]:
        """The Pi's cable is out of the switch."""
        return self.unplugged("pi")

    def command(self, *words: str) -> list[str]:
        """`words` as a process of the Pi's network; all else is this machine's (`ip netns exec` would hide /sys)."""
        return ["nsenter", f"--net=/run/netns/{self.pi}", *words]


class TapWire(Wire):
    """The Pi is a virtual machine: its network card is the tap `pi` of the switch, its address its own affair."""

    def _lay_host(self, name: str) -> None:
        call("ip", "-n", self._switch, "tuntap", "add", "dev", name, "mode", "tap")

    def command(self, *words: str) -> list[str]:
        """`words` as a process beside the switch, where the tap is."""
        return ["nsenter", f"--net=/run/netns/{self._switch}", *words]
