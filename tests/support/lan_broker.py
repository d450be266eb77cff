"""The broker as it serves a LAN, on loopback: its own files, with ports and paths of a test."""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from looplab.mqtt.pairing import Pairing, write_pairing
from looplab.run import identities
from support.compose_files import started_conf
from support.parts import HOST, LIMIT_S, Broker, free_port, until


def make_identities(folder: Path) -> None:
    """Make them for a broker and parts that run as who runs the tests."""
    folder.mkdir(exist_ok=True)
    identities.make(folder, identities.Readers(*[os.geteuid()] * 3))


class LanBroker(Broker):
    """mosquitto with the plain and the TLS listener, in `folder`, with a copy of the identities in `made`.

    It runs as who runs the tests, once it is started.
    """

    def __init__(self, folder: Path, made: Path) -> None:
        self.root = folder
        self.tls_port = free_port()
        self.identities = folder / "identities"
        shutil.copytree(made, self.identities)
        super().__init__(folder, starts=False)

    def renew(self) -> None:
        """Make certificate and passwords again."""
        (self.identities / identities.KEPT).unlink()
        make_identities(self.identities)

    def pairing(self, who: str = "bridge") -> Pairing:
        return replace(identities.pairings_of(self.identities)[who], host=HOST, port=self.tls_port)

    def pairing_file(self, who: str = "bridge", **changes: Any) -> Path:
        """A file as ./lab pair writes it for `who`, some of it changed."""
        path = self.root / f"{who}.env"
        identities.write(path, write_pairing(replace(self.pairing(who), **changes)))
        return path

    def restart(self) -> None:
        self.stop()
        self.start()

    def said(self) -> str:
        assert self._child is not None
        return self._child.said()

    def start(self) -> None:
        """Write the configuration as the container does each time: it has copies of the passwords."""
        self._configuration = self._configure()
        super().start()

    def _configure(self) -> Path:
        text = started_conf(self.root, secrets=str(self.identities), TLS="on", TCP_NODELAY="on")
        for wanted, here in (
            ("listener 1883", f"listener {self.port} {HOST}"),
            ("listener 8883", f"listener {self.tls_port} {HOST}"),
            # Older versions keep what they say on standard output back where it is a file.
            ("log_dest stdout", "log_dest stderr"),
        ):
            assert wanted in text
            text = text.replace(wanted, here)
        path = self.root / "lan.conf"
        path.write_text(text)
        return path


class Visitor:
    """Somebody with a client of the test's own: paho's, with TLS where there is a pairing."""

    def __init__(
        self, port: int, pairing: Pairing | None = None, user: str | None = None, password: str | None = None
    ) -> None:
        self.messages: list[tuple[str, bytes]] = []
        self.answer = ""
        self.granted: dict[int, list[int]] = {}
        self._heard = threading.Event()
        self.id = f"visitor-{secrets.token_hex(4)}"
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=self.id, reconnect_on_failure=False)
        if pairing is not None:
            self.client.tls_set_context(pairing.context())
        if user is not None:
            self.client.username_pw_set(user, password)
        self.client.on_connect = self._on_connect
        self.client.on_message = lambda _c, _d, message: self.messages.append((message.topic, bytes(message.payload)))
        self.client.on_subscribe = lambda _c, _d, mid, codes, _p: self.granted.update({mid: [c.value for c in codes]})
        self.client.connect(HOST, port)
        self.client.loop_start()

    @classmethod
    def known(cls, broker: LanBroker, who: str) -> Visitor:
        """One with an identity of the lab's, who is let in."""
        pairing = broker.pairing(who)
        visitor = cls(broker.tls_port, pairing, pairing.user, pairing.password)
        assert visitor.verdict() == "Success"
        return visitor

    def verdict(self) -> str:
        """What the broker answered to the wish to come in."""
        assert self._heard.wait(LIMIT_S)
        return self.answer

    def subscribe(self, topic: str) -> bool:
        """Whether the broker grants it."""
        _, mid = self.client.subscribe(topic, 1)
        assert mid is not None
        codes: list[int] = until(lambda: self.granted.get(mid), f"an answer to the subscription to {topic}")
        return codes[0] < 0x80

    def heard(self) -> set[str]:
        """The topics of what has come so far."""
        return {topic for topic, _ in self.messages}

    def say(self, topic: str, payload: str | bytes) -> None:
        """Returns once the broker has confirmed it, which MQTT 3.1.1 makes it do for what it throws away, too."""
        self.client.publish(topic, payload, 1).wait_for_publish(LIMIT_S)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def _on_connect(self, _client: object, _data: object, _flags: object, reason: object, _p: object) -> None:
        self.answer = str(reason)
        self._heard.set()


# Lets somebody of the lab's identities in.
Visit = Callable[[str], Visitor]
