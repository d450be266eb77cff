"""A second network on this machine: a namespace behind a switch, whose cable can be pulled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def call(*words: str, timeout_s: float = 60.0, **options: Any) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, check=False, **options)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


class Wire:
    """This machine at `here`, the namespace `pi` at `there`, a switch of its own between them."""

    def __init__(self, number: int) -> None:
        self.here, self.there = f"10.77.{number}.1", f"10.77.{number}.2"
        self.pi, self._switch, self._lan = f"labpi{number}", f"labsw{number}", f"lablan{number}"

    def __enter__(self) -> Wire:
        try:
            self._lay()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _lay(self) -> None:
        call("ip", "netns", "add", self._switch)
        call("ip", "link", "add", self._lan, "type", "veth", "peer", "name", "lan", "netns", self._switch)
        call("ip", "-n", self._switch, "link", "add", "switch", "type", "bridge")
        self._lay_pi()
        for port in ("lan", "pi"):
            call("ip", "-n", self._switch, "link", "set", port, "master", "switch", "up")
        call("ip", "-n", self._switch, "link", "set", "switch", "up")
        call("ip", "addr", "add", f"{self.here}/24", "dev", self._lan)
        call("ip", "link", "set", self._lan, "up")

    def _lay_pi(self) -> None:
        """The port `pi` of the switch, and what is at its other end."""
        call("ip", "netns", "add", self.pi)
        in_switch = ("peer", "name", "pi", "netns", self._switch)
        call("ip", "-n", self.pi, "link", "add", "eth0", "type", "veth", *in_switch)
        call("ip", "-n", self.pi, "addr", "add", f"{self.there}/24", "dev", "eth0")
        for link in ("eth0", "lo"):
            call("ip", "-n", self.pi, "link", "set", link, "up")
        call("ip", "-n", self.pi, "route", "add", "default", "via", self.here)

    def __exit__(self, *_error: object) -> None:
        # By name: what goes with its namespace goes some time later, and holds the name until then.
        subprocess.run(["ip", "link", "delete", self._lan], capture_output=True, timeout=30, check=False)
        for name in (self.pi, self._switch):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=30, check=False)

    @contextmanager
    def cut(self) -> Iterator[None]:
        """The Pi's cable is out of the switch."""
        call("ip", "-n", self._switch, "link", "set", "pi", "down")
        try:
            yield
        finally:
            call("ip", "-n", self._switch, "link", "set", "pi", "up")

    def command(self, *words: str) -> list[str]:
        """`words` as a process of the Pi's network; all else is this machine's (`ip netns exec` would hide /sys)."""
        return ["nsenter", f"--net=/run/netns/{self.pi}", *words]


class TapWire(Wire):
    """The Pi is a virtual machine: its network card is the tap `pi` of the switch, its address its own affair."""

    def _lay_pi(self) -> None:
        call("ip", "-n", self._switch, "tuntap", "add", "dev", "pi", "mode", "tap")

    def command(self, *words: str) -> list[str]:
        """`words` as a process beside the switch, where the tap is."""
        return ["nsenter", f"--net=/run/netns/{self._switch}", *words]
