"""One cell of qos-delay over the kernel's netem: its own processes under Debian's own kernel in a virtual machine.

Some minutes of software emulation: only where LAB_NETEM_VM=1 says so.
"""

import json
import shlex
from typing import Any

import pytest
from support import virtual_machine
from support.compose_files import mosquitto_conf
from support.containers import docker, own_image

# As the qos-delay of FIDELITY=corrected has it.
CONFIGURATION = {"set_tcp_nodelay": "true", "max_inflight_messages": "0", "max_queued_messages": "0"}
# Compose's networks: in each, the controller's end is .1 and the broker's .2.
NETWORKS = {
    "default": ("controller", "broker"),
    "pb": ("controller-pb", "broker-pb"),
    "bs": ("controller-bs", "broker-bs"),
}
# The machine's processor is slow: a message every 50 ms leaves it time.
DELAY_MS, MESSAGES, INTERVAL_MS = 20, 50, 50
SETTINGS = {
    "DELAYS_MS": DELAY_MS, "QOS": 0, "MESSAGES": MESSAGES, "REPETITIONS": 1, "INTERVAL_MS": INTERVAL_MS,
    "WARMUP_MESSAGES": 5,
}  # fmt: skip

INIT = """
ip netns add controller; ip netns add broker
at=1
for net in @NETWORKS@; do
    ip link add c-$net netns controller type veth peer name b-$net netns broker
    ip -n controller address add 10.9.$at.1/24 dev c-$net; ip -n broker address add 10.9.$at.2/24 dev b-$net
    ip -n controller link set c-$net up; ip -n broker link set b-$net up
    at=$((at + 1))
done
for end in controller broker; do ip -n $end link set lo up; done
in_controller() { ip netns exec controller "$@"; }
in_broker() { ip netns exec broker "$@"; }
in_broker busybox chroot /broker mosquitto -c /mosquitto/config/mosquitto.conf >/run/mosquitto.log 2>&1 &
export LINK_RTO_MIN_MS=10000 LINK_BACKEND=netem
in_controller link-entry >/run/link.log 2>&1 &
LINK_BIND=0.0.0.0 LINK_CONTROL=controller in_broker link-entry >/run/link-broker.log 2>&1 &
for end in controller broker; do ip netns exec $end busybox sysctl -qw net.ipv4.ping_group_range="0 65535"; done
# As its image: tcpdump as root wants a user of its own.
in_controller @CAPTURE@ >/run/capture.log 2>&1 &
TREATMENTS_BIND=treatments-control in_controller python3 -m looplab.experiments.treatments >/run/treatments.log 2>&1 &
for log in link link-broker; do await /run/$log.log "0 links" 60; done
export FIDELITY=corrected RESULTS_DIR=/results @SETTINGS@
in_controller python3 -m looplab.experiments qos-delay
echo "RESULT exit_code {\\"code\\": $?}"
for end in controller broker; do
    echo "RESULT $end {\\"left\\": \\"$(queues_left $end)\\"}"
done
"""


def images() -> list[str]:
    return virtual_machine.images_of_experiment("controller", "capture", "link")


def run() -> virtual_machine.Results:
    """(what, document): the experiment's exit code, the queues it left at either end, its run.json."""
    words = [f"{name}={value}" for name, value in SETTINGS.items()]
    capture = json.loads(docker("image", "inspect", "--format", "{{json .Config.Entrypoint}}", own_image("capture")))
    values = {"NETWORKS": " ".join(NETWORKS), "SETTINGS": shlex.join(words), "CAPTURE": shlex.join(capture)}
    return virtual_machine.run_experiment(images(), INIT, values, _hosts(), mosquitto_conf(**CONFIGURATION))


def _hosts() -> str:
    ends = [
        f"10.9.{net}.{end} {name}\n"
        for net, names in enumerate(NETWORKS.values(), 1)
        for end, name in enumerate(names, 1)
    ]
    return "".join(["127.0.0.1 localhost\n", "10.9.1.1 treatments-control\n", *ends])


pytestmark = [pytest.mark.flag("LAB_NETEM_VM"), pytest.mark.timeout(2400), pytest.mark.engine]


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    """By what they tell of."""
    return dict(virtual_machine.whole(images(), run))


@pytest.fixture
def cell(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    (found,) = results["run"]["cells"]
    assert isinstance(found, dict)
    return found


def test_the_run_is_valid_with_every_treatment(results: dict[str, dict[str, Any]]) -> None:
    run = results["run"]
    assert results["exit_code"]["code"] == 0, run["invalid_because"]
    assert run["valid"], run["invalid_because"]
    found = {treatment["what"]: treatment["found"] for treatment in run["treatments"]}
    assert found["link emulation"] == "netem"
    assert found["link delay"] == "in 1 of 1 cells"
    for role in ("broker", "controller"):
        assert found[f"{role} TCP_NODELAY"] == "on"
        # Verified as every treatment of a valid run: RTO_MIN_MS and the round trip's own share.
        assert found[f"{role} retransmission time-out"].endswith("ms at least")
    assert found["capture"] == "1 of 1 cells, 0 packets lost"


def test_the_cell_has_its_delay_and_every_message(cell: dict[str, Any]) -> None:
    assert (cell["sent"], cell["answered"], cell["lost"]) == (MESSAGES, MESSAGES, 0)
    assert cell["links"]["backend"] == "netem"
    assert len(cell["links"]["ways"]) == 4
    # Each way carried the echoes, and its share of the messages or their acknowledgements.
    assert all(way["packets"] > 40 for way in cell["links"]["ways"])
    # Mean of 40 echoes with a deviation of 2 ms a way, and the slow machine's own time.
    assert cell["end_to_end_ms"]["total"] == pytest.approx(2 * DELAY_MS, abs=4)
    assert 0.95 < cell["L_over_delay"] < 1.3
    assert cell["packets_per_message"] == {"PUBLISH": 2}
    for way in cell["segments"].values():
        assert (way["mqtt_packets"], way["sent_again"]) == (MESSAGES, 0)


@pytest.mark.parametrize("end", ["controller", "broker"])
def test_the_run_leaves_no_delay_behind(results: dict[str, dict[str, Any]], end: str) -> None:
    assert "qdisc" in results[end]["left"]
    assert "netem" not in results[end]["left"]
