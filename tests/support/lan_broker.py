"""The broker as it serves a LAN, on loopback: its own files, with ports and paths of a test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt

from looplab.mqtt.pairing import Pairing, write_pairing
from looplab.run import identities
from support.compose_files import started_conf
from support.parts import HOST, Broker, Listener, free_port


def make_identities(folder: Path) -> None:
    """Make them for a broker and parts that run as who runs the tests."""
    folder.mkdir(exist_ok=True)
    identities.make(folder, os.geteuid())


class LanBroker(Broker):
    """mosquitto with the plain and the TLS listener, in `folder`, with a copy of the identities in `made`.

    It runs as who runs the tests.
    """

    def __init__(self, folder: Path, made: Path) -> None:
        self.tls_port = free_port()
        self.identities = folder / "identities"
        shutil.copytree(made, self.identities)
        super().__init__(folder)

    def renew(self) -> None:
        """Make certificate and passwords again, and start with them."""
        (self.identities / identities.KEPT).unlink()
        make_identities(self.identities)
        self.stop()
        self.start()

    def pairing(self, who: str = "bridge") -> Pairing:
        return replace(identities.pairings_of(self.identities)[who], host=HOST, port=self.tls_port)

    def pairing_file(self, who: str = "bridge", **changes: Any) -> Path:
        """A file as ./lab pair writes it for `who`, some of it changed."""
        path = self._folder / f"{who}.env"
        identities.write(path, write_pairing(replace(self.pairing(who), **changes)))
        return path

    def start(self) -> None:
        """Write the configuration as the container does each time: it has copies of the passwords."""
        text = started_conf(self._folder, secrets=str(self.identities), TLS="on", TCP_NODELAY="on")
        for wanted, here in (
            ("listener 1883", f"listener {self.port} {HOST}"),
            ("listener 8883", f"listener {self.tls_port} {HOST}"),
            # Older versions keep what they say on standard output back where it is a file.
            ("log_dest stdout", "log_dest stderr"),
        ):
            assert wanted in text
            text = text.replace(wanted, here)
        self._configuration.write_text(text)
        super().start()


def visitor(port: int, pairing: Pairing, user: str | None, password: str | None) -> Listener:
    """Somebody who comes over TLS with a name and a password, and hears nothing before a subscription."""

    def introduce(client: mqtt.Client) -> None:
        client.tls_set_context(pairing.context())
        client.username_pw_set(user, password)

    return Listener(port, "", introduce)


# Lets somebody of the lab's identities in.
Visit = Callable[[str], Listener]
