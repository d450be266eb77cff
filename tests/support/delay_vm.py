"""The processes of qos-delay in a virtual machine whose kernel has netem: two network namespaces, no containers."""

import json
import shlex

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
