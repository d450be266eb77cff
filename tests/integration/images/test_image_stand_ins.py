"""The stand-ins keep the upstream images' conventions, so that the same Compose service runs with either."""

import json
from typing import Any

import pytest
from support.containers import docker
from support.image_harness import Starter, build

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def prometheus_image() -> str:
    return build("looplab-test/prometheus", "images/prometheus")


def settings(image: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(docker("image", "inspect", "--format", "{{json .Config}}", image))
    return found


def test_mosquitto_conventions(mosquitto_image: str, start: Starter) -> None:
    config = settings(mosquitto_image)
    assert config["Labels"] == {"looplab.origin": "built", "looplab.stands-for": "eclipse-mosquitto"}
    assert config["User"] == "1883:1883"
    assert config["Cmd"] == ["/usr/sbin/mosquitto", "-c", "/mosquitto/config/mosquitto.conf"]
    assert config["Volumes"] == {"/mosquitto/data": {}, "/mosquitto/log": {}}
    container = start(mosquitto_image)
    assert container.execute("id").startswith("uid=1883(mosquitto) gid=1883(mosquitto)")
    container.execute("sh", "-c", "touch /mosquitto/data/x /mosquitto/log/x")
    for tool in ("mosquitto_pub", "mosquitto_sub", "mosquitto_rr"):
        container.execute("which", tool)


def test_prometheus_conventions(prometheus_image: str, start: Starter) -> None:
    config = settings(prometheus_image)
    assert config["Labels"]["looplab.stands-for"] == "prom/prometheus"
    assert config["Entrypoint"] == ["/bin/prometheus"]
    assert config["Cmd"] == ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
    assert config["Volumes"] == {"/prometheus": {}}
    assert config["WorkingDir"] == "/prometheus"
    assert "9090/tcp" in config["ExposedPorts"]
    container = start(prometheus_image)
    assert "uid=65534(nobody)" in container.execute("id")
    assert "SUCCESS" in container.execute("/bin/promtool", "check", "config", "/etc/prometheus/prometheus.yml")
