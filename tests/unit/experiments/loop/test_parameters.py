"""Parameters: defaults of each fidelity, each factor alone, and a sentence for every slip of the pen."""

import shlex
from dataclasses import replace
from itertools import pairwise

import pytest

from looplab.errors import UsageError
from looplab.experiments.loop.parameters import LoopParameters
from looplab.experiments.loop.studies import VARIANTS
from looplab.run.record import by_hand

SCENARIO = {"SCENARIO": "scenario5"}
PRINTED = {"CLIENTS": "printed"}
read_parameters = LoopParameters.read


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        *(
            (settings, "CLIENTS=(lab|printed) have")
            for settings in (
                {"RECEIVER": "spin"}, {"LIFE": "repetition"}, {"PYTHON": "2.7"}, {**PRINTED, "CONNECTIONS": "one"},
                {**PRINTED, "BROKER_TLS": "on"}, {"FIDELITY": "printed", "PACING": "schedule"},
            )
        ),
        ({"CLIENTS": "own"}, "belong together"), ({"OWN_CLIENT": "a.py"}, "belong together"),
        ({"CLIENTS": "own", "OWN_CLIENT": "a.py", "OWN_BRIDGE": "b.py"}, "both set"),
        ({"CLIENTS": "own", "OWN_CLIENT": "a.py", "PRIORITY_CONTROLLER": "99"}, "real-time priority"),
        ({"CLIENTS": "own", "OWN_CLIENT": "a.py", "BROKER_TLS": "on"}, "TLS"), ({"OWN_BRIDGE": "/etc/b.py"}, "below"),
        ({"OWN_BRIDGE": "b.py", "ROBOT": "remote"}, "on a Pi"),
        ({"OWN_BRIDGE": "me/bridge:1"}, "a file .* or with OWN_IMAGE=NAME a command"),
        ({"OWN_IMAGE": "me/bridge:1", "OWN_BRIDGE": "$HOME/b"}, "a file .* or with OWN_IMAGE=NAME a command"),
        ({"OWN_IMAGE": "me/bridge:1"}, "is in no part's place"), ({"OWN_IMAGE": "-x"}, "an image, e.g."),
        ({"OWN_IMAGE": "me/bridge:1", "OWN_BRIDGE": "/b", "LINK": "wifi"}, "has no LINK"),
        ({"MQTT_VERSION": "5", "CLIENTS": "own", "OWN_CLIENT": "a.py"}, "not for CLIENTS=own"),
        ({"MQTT_VERSION": "5", "FIDELITY": "printed"}, "not for CLIENTS=printed"),
        ({"MQTT_VERSION": "5", "OWN_BRIDGE": "b.py"}, "not for OWN_BRIDGE"),
        ({"TOPIC_ALIAS": "on"}, "3.1.1 has no topic alias"), ({"BROKER": "rabbitmq", "QOS": "2"}, "knows no QoS 2"),
        *(
            ({"LOAD": name.partition("_")[0].lower(), name: value}, f"{name}='{value}'")
            for name, value in {
                "STRESS_CPU": "all", "STRESS_IO": "-1", "STRESS_VM_BYTES": "128 MB", "STRESS_TIMEOUT": "forever",
                "FLOOD_CLIENTS": "1e2", "FLOOD_TIMEOUT": "20s",
            }.items()
        ),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_are_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_parameters({**SCENARIO, **settings})


def test_the_settings_of_a_load_are_those_of_its_container() -> None:
    assert read_parameters(SCENARIO).load_settings == {}
    found = read_parameters({**SCENARIO, "LOAD": "stress", "STRESS_CPU": "8", "STRESS_VM": "", "FLOOD_CLIENTS": "7"})
    assert found.as_json()["load_settings"] == {
        "STRESS_CPU": "8", "STRESS_IO": "3", "STRESS_VM": "5", "STRESS_VM_BYTES": "128M", "STRESS_TIMEOUT": "4000s",
    }  # fmt: skip
    processors_alone = {**SCENARIO, "LOAD": "stress", "STRESS_IO": "0", "STRESS_VM": "0"}
    assert read_parameters(processors_alone).load_settings["STRESS_CPU"] == "3"
    with pytest.raises(UsageError, match="STRESS_CPU=0 STRESS_IO=0 STRESS_VM=0: stress has no"):
        read_parameters({**processors_alone, "STRESS_CPU": "0"})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ""),
        ({"MESSAGES": "50", "INTERVALS_MS": "20,10"}, "MESSAGES=50 INTERVALS_MS='20 10' "),
        ({"LOAD": "stress", "STRESS_CPU": "6", "STRESS_VM": "5"}, "STRESS_CPU=6 "),
        ({"FIDELITY": "corrected", "TCP_NODELAY": "off"}, "FIDELITY=corrected TCP_NODELAY=off "),
        ({"LINK": "custom", "LINK_DELAY_MS": "25"}, "LINK=custom LINK_DELAY_MS=25 "),
        ({"LAB_OWN": "my/stress.yaml", "MOSQUITTO_IMAGE": "a/b:1"}, "LAB_OWN=my/stress.yaml MOSQUITTO_IMAGE=a/b:1 "),
        ({"LAB_OWN": "compose/own.yaml", "PATH": "/bin"}, ""),
    ],
)
def test_a_run_of_plain_compose_is_repeated_by_what_was_set(given: dict[str, str], words: str) -> None:
    environment = {"SCENARIO": "scenario1", **given}
    asked = read_parameters(environment)
    line = by_hand(asked, environment)
    assert line == f"{words}docker compose --profile scenario1 up"
    again = dict(word.split("=", 1) for word in shlex.split(words))
    repeated = read_parameters({"SCENARIO": "scenario1", "LOAD": asked.load, **again})
    assert replace(repeated, order_seed=0) == replace(asked, order_seed=0)


def test_cells_are_in_published_order_unless_it_is_random() -> None:
    thesis, corrected = (read_parameters({**SCENARIO, "QOS": "0,1", "FIDELITY": f}) for f in ("thesis", "corrected"))
    published = [(100, 0), (50, 0), (20, 0), (10, 0), (100, 1), (50, 1), (20, 1), (10, 1)]
    assert [cell.key for cell in thesis.cells] == published
    assert [cell.key for cell in corrected.published_cells] == published
    assert sorted(cell.key for cell in corrected.cells) == sorted(published)
    assert corrected.order_seed > 0


def test_the_steps_change_one_property_each() -> None:
    every = [read_parameters({"SCENARIO": "scenario1", **one}).as_json() for one in VARIANTS["clients"].values()]
    changed = [
        {name for name in before if before[name] != after[name]} - {"fidelity", "warmup_messages", "order_seed"}
        for before, after in pairwise(every)
    ]
    assert changed == [
        {"robot_framing"}, {"pairing"}, {"receiver"}, {"python"}, {"life"}, {"broker_path"}, {"clients"}, {"qos_legs"},
        {"connections"},
        {"tcp_nodelay"}, {"robot_framing", "pacing", "order", "apply_priority", "serial_low_latency"},
    ]  # fmt: skip
    assert every[0] == read_parameters({"SCENARIO": "scenario1", "FIDELITY": "printed"}).as_json()
