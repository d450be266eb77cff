"""Parameters: defaults of each fidelity, each factor alone, and a sentence for every slip of the pen."""

import shlex
from dataclasses import replace

import pytest

from looplab.errors import LabError, UsageError
from looplab.experiments.loop.parameters import read_parameters
from looplab.run.record import by_hand
from looplab.spec.parameters import MAX_SAMPLES

SCENARIO = {"SCENARIO": "scenario5"}


def test_fidelity_sets_the_factors_and_thesis_is_the_default() -> None:
    thesis, corrected = (read_parameters({**SCENARIO, **more}) for more in ({}, {"FIDELITY": "corrected"}))
    names = ("tcp_nodelay", "robot_framing", "apply_priority", "pacing", "qos_legs", "connections", "order")
    assert [getattr(thesis, name) for name in names] == [False, "burst", False, "sleep", "request", "two", "published"]
    assert [getattr(corrected, name) for name in names] == [True, "line", True, "schedule", "all", "one", "random"]
    assert thesis.intervals_ms == (100, 50, 20, 10)
    assert (thesis.qos, thesis.messages, thesis.repetitions, thesis.command) == ((0,), 100, 10, "T")
    assert thesis.samples == 4 * 100 * 10


@pytest.mark.parametrize("fidelity", ["printed", "thesis", "corrected"])
@pytest.mark.parametrize(
    ("name", "attribute", "values"),
    [
        ("TCP_NODELAY", "tcp_nodelay", {"on": True, "off": False}),
        ("ROBOT_FRAMING", "robot_framing", {"raw": "raw", "burst": "burst", "line": "line"}),
        ("PAIRING", "pairing", {"count": "count", "request": "request"}),
        ("APPLY_PRIORITY", "apply_priority", {"on": True, "off": False}),
        ("QOS_LEGS", "qos_legs", {"request": "request", "all": "all"}),
        ("CONNECTIONS", "connections", {"one": "one", "two": "two"}),
        ("PACING", "pacing", {"sleep": "sleep", "schedule": "schedule"}),
        ("BROKER_PATH", "broker_path", {"port": "port", "direct": "direct"}),
    ],
)
def test_each_factor_can_be_set_alone(fidelity: str, name: str, attribute: str, values: dict[str, object]) -> None:
    usual = {**SCENARIO, "FIDELITY": fidelity, "ORDER_SEED": "7"}
    plain = read_parameters(usual).as_json()
    for text, value in values.items():
        if fidelity == "printed" and text in ("one", "schedule"):
            continue  # not of these clients
        found = read_parameters({**usual, name: text}).as_json()
        assert found == {**plain, attribute: value}


def test_printed_is_the_thesis_with_the_printed_clients() -> None:
    thesis, found = (read_parameters({**SCENARIO, "FIDELITY": f}).as_json() for f in ("thesis", "printed"))
    own = {
        "fidelity": "printed", "clients": "printed", "receiver": "spin", "life": "repetition", "broker_path": "port",
        "python": "2.7", "warmup_messages": 0, "robot_framing": "raw", "pairing": "count",
    }  # fmt: skip
    assert found == {**thesis, **own}


@pytest.mark.parametrize("fidelity", ["thesis", "printed", "corrected"])
def test_each_property_of_printed_clients_can_be_set_alone(fidelity: str) -> None:
    settings = {**SCENARIO, "FIDELITY": fidelity, "CLIENTS": "printed", "WARMUP_MESSAGES": "7", "ORDER_SEED": "7"}
    plain = read_parameters(settings).as_json()
    assert (plain["connections"], plain["pacing"]) == ("two", "sleep")
    for name, values in {"receiver": ("spin", "select"), "python": ("2.7", "3")}.items():
        for value in values:
            assert read_parameters({**settings, name.upper(): value}).as_json() == {**plain, name: value}
    assert {life: read_parameters({**settings, "LIFE": life}).warmup_messages for life in ("run", "repetition")} == {
        "run": 7, "repetition": 0,
    }  # fmt: skip
    lab = read_parameters({**SCENARIO, "FIDELITY": fidelity, "CLIENTS": "lab"})
    assert (lab.receiver, lab.life, lab.python) == ("select", "run", "3")


@pytest.mark.parametrize(
    "settings",
    [
        {"RECEIVER": "spin"}, {"LIFE": "repetition"}, {"PYTHON": "2.7"}, {"CLIENTS": "printed", "CONNECTIONS": "one"},
        {"CLIENTS": "printed", "BROKER_TLS": "on"}, {"FIDELITY": "printed", "PACING": "schedule"},
    ],
)  # fmt: skip
def test_clients_that_cannot_be_so_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"CLIENTS=(lab|printed) have") as caught:
        read_parameters({**SCENARIO, **settings})
    assert "Leave out" in caught.value.remedy


@pytest.mark.parametrize(
    ("settings", "words"),
    [
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
        ({"TOPIC_ALIAS": "on"}, "3.1.1 has no topic alias"),
    ],
)  # fmt: skip
def test_programs_and_versions_that_do_not_fit_are_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_parameters({**SCENARIO, **settings})
    assert read_parameters({**SCENARIO, "CLIENTS": "own", "OWN_CLIENT": "answers/a.py"}).clients == "own"
    image = {"OWN_IMAGE": "me/client:1", "OWN_CLIENT": "node /app/client.js --fast"}
    assert read_parameters({**SCENARIO, "CLIENTS": "own", **image}).own_client == image["OWN_CLIENT"]
    assert read_parameters({**SCENARIO, "MQTT_VERSION": "5", "TOPIC_ALIAS": "on"}).topic_alias


def test_the_settings_of_a_load_are_those_of_its_container() -> None:
    assert read_parameters(SCENARIO).load_settings == {}
    found = read_parameters({**SCENARIO, "LOAD": "stress", "STRESS_CPU": "8", "STRESS_VM": "", "FLOOD_CLIENTS": "7"})
    assert found.as_json()["load_settings"] == {
        "STRESS_CPU": "8", "STRESS_IO": "3", "STRESS_VM": "5", "STRESS_VM_BYTES": "128M", "STRESS_TIMEOUT": "4000s",
    }  # fmt: skip
    processors_alone = {**SCENARIO, "LOAD": "stress", "STRESS_IO": "0", "STRESS_VM": "0"}
    assert read_parameters(processors_alone).load_settings["STRESS_CPU"] == "3"
    for wrong, words in (("all", "STRESS_CPU='all'"), ("0", "STRESS_CPU=0 STRESS_IO=0 STRESS_VM=0: stress has no")):
        with pytest.raises(LabError, match=words):
            read_parameters({**processors_alone, "STRESS_CPU": wrong})


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


def test_more_than_one_run_can_hold_is_refused() -> None:
    with pytest.raises(UsageError, match="more than one run can hold") as caught:
        read_parameters({**SCENARIO, "MESSAGES": "1000000", "REPETITIONS": "6"})
    assert f"{MAX_SAMPLES:,}" in caught.value.message


def test_cells_are_in_published_order_unless_it_is_random() -> None:
    thesis, corrected = (read_parameters({**SCENARIO, "QOS": "0,1", "FIDELITY": f}) for f in ("thesis", "corrected"))
    published = [(100, 0), (50, 0), (20, 0), (10, 0), (100, 1), (50, 1), (20, 1), (10, 1)]
    assert [cell.key for cell in thesis.cells] == published
    assert [cell.key for cell in corrected.published_cells] == published
    assert sorted(cell.key for cell in corrected.cells) == sorted(published)
    assert corrected.order_seed > 0


def test_cells_that_the_broker_does_not_know_are_left_out() -> None:
    parameters = read_parameters({**SCENARIO, "BROKER": "rabbitmq", "QOS": "0 1 2"})
    assert (parameters.qos, parameters.qos_left_out) == ((0, 1), (2,))
    assert {cell.qos for cell in parameters.cells} == {0, 1}
    assert read_parameters({**SCENARIO, "QOS": "0 1 2"}).qos_left_out == ()


def test_a_run_of_what_the_broker_does_not_know_is_wrong_use() -> None:
    with pytest.raises(LabError) as caught:
        read_parameters({**SCENARIO, "BROKER": "rabbitmq", "QOS": "2"})
    assert caught.value.exit_code == 2
    assert "rabbitmq knows no QoS 2" in caught.value.message
    with pytest.raises(LabError, match="BROKER='mosqitto': expected one of mosquitto, rabbitmq, mochi"):
        read_parameters({**SCENARIO, "BROKER": "mosqitto"})
