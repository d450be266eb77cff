"""The parameters of one run, read from the environment that params.env and .env give a container."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from looplab.errors import UsageError
from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.protocol import CONNECTIONS, ONE, SELECT, TWO, BridgeFactors
from looplab.mqtt.packets import V5
from looplab.spec.brokers import BROKERS, DEFAULT
from looplab.spec.parameters import (
    INTERVALS,
    MESSAGES,
    ORDER,
    ORDERS,
    PACING,
    PACINGS,
    PUBLISHED,
    RANDOM,
    REPETITIONS,
    SCHEDULE,
    SLEEP,
    Option,
    OrderedParameters,
    Param,
    choice,
    integer,
    matching,
    numbers,
    param,
    qos_list,
    switch,
)
from looplab.spec.reader import as_text
from looplab.treatments.link import NO_LINK
from looplab.treatments.loads import choose_load, loads, read_settings

ROBOTS = ("virtual", "usb", "remote")
# The clients are the lab's, or publisher and subscriber as the thesis prints them. Printed ones may spin
# beside paho's network thread, have a new process for each repetition, and have another interpreter. Or the controller
# is a program of the user's own.
LAB, PRINTED, OWN = "lab", "printed", "own"
REPETITION, RUN = "repetition", "run"
PYTHONS = ("2.7", "3")
# Containers reach the broker by the host's address and published port, or on their own network.
PORT, DIRECT = "port", "direct"
ROBOT = Option("--robot", "ROBOT", "", "where the robot is", ROBOTS)
BROKER = Option("--broker", "BROKER", "", "the broker under test", tuple(BROKERS))
# A user's own program is a file, which runs in the image of the lab's part, or a command in an image of theirs.
OWN_FORMS = "a file below this folder, e.g. answers/program.py, or with OWN_IMAGE=NAME a command in that image"
LINK = Option("--link", "LINK", "NAME", "the bridge's link: none, wifi, custom (LINK_DELAY_MS=…)")


def _own_program() -> Any:
    """Return the field of a user's program: no verdict rests on a run with one, so its default is a fidelity's."""
    file, command = r"(\w[\w./-]{0,200})?", r"([\w/.][^$\\'\"]{0,200})?"
    return param(
        lambda get, name: get.matching(name, "", command if get.given("OWN_IMAGE") else file, OWN_FORMS), {"thesis": ""}
    )


@dataclass(frozen=True, kw_only=True)
class LoopParameters(BridgeFactors, OrderedParameters):
    """What one run does; `qos` and `intervals_ms` one cell each."""

    messages: int = integer(100, 1, 1_000_000, option=MESSAGES, quick="100")
    repetitions: int = integer(10, 1, 10_000, option=REPETITIONS, quick="1")
    deadline_ms: int = integer(1000, 10, 600_000)
    load: str = choose_load()
    apply_priority: bool = switch({"thesis": False, "corrected": True})
    priority_broker: int = integer(0, 0, 99)
    priority_controller: int = integer(0, 0, 99)
    intervals_ms: tuple[float, ...] = numbers("100 50 20 10", 0.5, 60_000, option=INTERVALS, quick="20")
    qos: tuple[int, ...] = qos_list("0")
    broker: str = choice(DEFAULT, tuple(BROKERS), option=BROKER, factor=True)
    # The user asked for these, and the broker does not know them.
    qos_left_out: tuple[int, ...] = param(lambda _get, _name: (), matters=False)
    command: str = choice("T", ("T", "L", "S", "E"))
    robot: str = choice("virtual", ROBOTS, option=ROBOT)
    load_settings: Mapping[str, str] = param(read_settings)
    connections: str = choice({"thesis": TWO, "corrected": ONE}, tuple(CONNECTIONS))
    clients: str = choice({"thesis": LAB, "printed": PRINTED}, (PRINTED, LAB, OWN))
    own_client: str = _own_program()
    own_bridge: str = _own_program()
    own_image: str = param(
        lambda get, name: get.matching(name, "", r"([a-z0-9][\w./:@-]{0,300})?", "an image, e.g. me/client:1"),
        {"thesis": ""},
    )
    life: str = choice({"thesis": RUN, "printed": REPETITION}, (REPETITION, RUN))
    broker_path: str = choice({"thesis": DIRECT, "printed": PORT}, (PORT, DIRECT))
    python: str = choice({"thesis": "3", "printed": "2.7"}, PYTHONS)
    pacing: str = choice({"thesis": SLEEP, "corrected": SCHEDULE}, PACINGS, option=PACING)
    link: str = matching(
        NO_LINK, r"[a-z0-9][a-z0-9-]{0,40}", "none, wifi, custom or a file compose/link.<name>.yaml", option=LINK
    )
    warmup_messages: int = integer(20, 0, 10_000)
    broker_host: str = matching("broker", r"[A-Za-z0-9_.:-]{1,253}", "a host name or an address", matters=False)
    broker_port: int = integer(1883, 1, 65535, matters=False)
    # The thesis's loop has no TLS. The bridge of a Pi has it unless BROKER_TLS=off.
    broker_tls: bool = switch(False)
    bridge_tls: bool = param(
        lambda get, _name: get.switch("BROKER_TLS", get.choice("ROBOT", "virtual", ROBOTS) == "remote")
    )
    order: str = choice({"thesis": PUBLISHED, "corrected": RANDOM}, ORDERS, option=ORDER)

    cell = LoopCell
    no_printed = ""
    lower = "MESSAGES, REPETITIONS or the number of INTERVALS_MS and QOS"

    @classmethod
    def factors(cls) -> dict[str, Param]:
        own = super().factors()
        del own["LOAD_SETTINGS"]
        settings = (setting for load in loads().values() for setting in load.settings.items())
        return own | {name: Param(None, rule.published) for name, rule in settings}

    def checked(self, environment: Mapping[str, str]) -> "LoopParameters":
        """Return them without the qualities of service that the broker does not know.

        Raises LabError (exit code 2) if none is left, or for clients that cannot be as they are set.
        """
        broker = BROKERS[self.broker]
        if self.broker_path == PORT and self.link != NO_LINK:
            raise UsageError(
                f"LINK={self.link} is between bridge and broker, and BROKER_PATH=port passes it by.",
                "Set BROKER_PATH=direct, or leave LINK empty.",
            )
        self._check_own()
        self._check_version()
        known = tuple(qos for qos in self.qos if qos in broker.qos)
        left_out = tuple(qos for qos in self.qos if qos not in broker.qos)
        if not known:
            raise UsageError(
                f"{self.broker} knows no QoS {', '.join(map(str, left_out))}, and nothing else is to be measured.",
                f"Set QOS (--qos) to {' or '.join(map(str, broker.qos))}, or take another broker.",
            )
        return replace(self, qos=known, qos_left_out=left_out, **self._of_clients(environment))

    def _check_own(self) -> None:
        """Raise LabError (exit code 2) where programs of the user's own cannot take part."""
        if (self.clients == OWN) != bool(self.own_client):
            raise UsageError(
                "CLIENTS=own and OWN_CLIENT belong together.", "Set both: CLIENTS=own OWN_CLIENT=answers/controller.py"
            )
        if self.own_image and not (self.own_client or self.own_bridge):
            raise UsageError(
                f"OWN_IMAGE={self.own_image} is in no part's place.",
                "Set OWN_BRIDGE, or CLIENTS=own and OWN_CLIENT, to the command that the image is to run.",
            )
        if self.own_image and self.own_bridge and self.link != NO_LINK:
            raise UsageError("OWN_IMAGE in the bridge's place has no LINK.", "Leave LINK empty, or take a Python file.")
        if self.own_client and self.own_bridge:
            raise UsageError("OWN_CLIENT and OWN_BRIDGE are both set.", "Try each against the lab's other part first.")
        if self.own_bridge and self.robot == "remote":
            raise UsageError("OWN_BRIDGE runs here, and ROBOT=remote has its bridge on a Pi.", "Take another ROBOT.")
        if self.own_client and (self.priority_controller or self.broker_tls):
            raise UsageError(
                "CLIENTS=own has neither real-time priority nor TLS.", "Take scenario 0 to 4, 6 or 7, BROKER_TLS=off."
            )

    def _check_version(self) -> None:
        """Raise LabError (exit code 2) where a client cannot be of MQTT 5."""
        if self.topic_alias and self.mqtt_version != V5:
            raise UsageError(
                f"TOPIC_ALIAS=on: MQTT {self.mqtt_version} has no topic alias.", "Set MQTT_VERSION=5 as well."
            )
        others = f"CLIENTS={self.clients}" if self.clients != LAB else "OWN_BRIDGE" if self.own_bridge else ""
        if others and self.mqtt_version == V5:
            raise UsageError(f"MQTT_VERSION=5 is for the lab's clients, not for {others}.", "Leave out one of the two.")

    def _of_clients(self, environment: Mapping[str, str]) -> dict[str, Any]:
        """Return what these clients alone can be. Raises LabError (exit code 2) where another value is set."""
        if self.clients != PRINTED:
            wanted: dict[str, Any] = {"receiver": SELECT, "life": RUN, "python": "3"}
        else:
            wanted = {"connections": TWO, "broker_tls": False, "pacing": SLEEP}
        for name, value in wanted.items():
            if environment.get(name.upper(), "").strip() and getattr(self, name) != value:
                raise UsageError(
                    f"CLIENTS={self.clients} have {name.upper()}={as_text(value)}, not {as_text(getattr(self, name))}.",
                    f"Leave out {name.upper()}, or take the other CLIENTS.",
                )
        # A process that lives for one repetition has no warm-up.
        return {**wanted, **({"warmup_messages": 0} if self.life == REPETITION and self.clients == PRINTED else {})}


PARAMETERS = LoopParameters
