"""Each trouble of a machine has one sentence with its remedy, wherever it shows."""

import pytest

from looplab.system.remedies import remedy_of

# As engines and programs print them.
SAID = {
    "Error response from daemon: driver failed programming external connectivity: Bind for 127.0.0.1:1883 "
    "failed: port is already allocated": "LAB_BROKER_PORT",
    "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network": "VPN",
    "all predefined address pools have been fully subnetted": "default-address-pools",
    "toomanyrequests: You have reached your pull rate limit.": "./lab load FILE",
    "429 Too Many Requests - Server message: denied": "docker login",
    "dial tcp: lookup registry-1.docker.io on 10.0.0.53:53: no such host": "reaches no registry",
    "ModuleNotFoundError: No module named 'looplab.run.prepare'": "older than this checkout",
    "write /var/lib/docker/tmp/x: no space left on device": "docker system df",
    "fork/exec /usr/bin/runc: cannot allocate memory": "STRESS_VM",
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?": "Start it",
    "error setting rlimit type 14: operation not permitted": "LAB_RTPRIO",
    "manifest for looplab/bridge:0.1.0 not found": "an image is missing",
}


@pytest.mark.parametrize(("said", "words"), SAID.items())
def test_what_a_program_prints_has_its_remedy(said: str, words: str) -> None:
    assert words in remedy_of(f"some line\n{said}\n", "")
