"""DeviceHive's adapter against its published API: provisioning, an expired token, posting, reading back."""

import http.client
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import yaml
from support.devicehive_double import DeviceHive, Redis, devicehive
from support.places import ROOT

from looplab.experiments.middleware.systems import SYSTEMS, MiddlewareAnswer, client_of, load
from looplab.system.json_client import Service

SYSTEM = load("devicehive")
CLIENT = client_of("devicehive")
Api = tuple[DeviceHive, Redis, int, int]


@pytest.fixture
def api() -> Iterator[Api]:
    with devicehive() as served:
        yield served


class Plain:
    """A device's connections: one request at a time, a connection each."""

    def __init__(self, port: int) -> None:
        self._port = port

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def asking(port: int) -> Callable[[str, str, str, object], Any]:
    service = Service("DeviceHive", "")
    return lambda method, path, bearer, document: service.ask(
        f"http://127.0.0.1:{port}{path}", method, document, 5.0, bearer
    )


def test_a_device_posts_and_what_it_posted_is_read_back(api: Api) -> None:
    _state, redis, port, redis_port = api
    entries = CLIENT.provision(asking(port), "", 3, "t0")
    assert json.loads(json.dumps(entries)) == entries
    client, posted = Plain(port), []
    for number, entry in enumerate(entries):
        device = CLIENT.Adapter(entry)
        assert device.authorise(client) == MiddlewareAnswer(200, True)
        for sequence in range(2):
            posted.append(f"t0-1-{number}-{sequence}")
            assert device.post(client, posted[-1], "x" * 36) == MiddlewareAnswer(201, True)
    assert CLIENT.Adapter(entries[0]).post(client, "t0-2-0-0", "another repetition").good
    # The scan of this Redis names a key twice: that is no duplicate.
    found = list(CLIENT.stored({"redis": "127.0.0.1"}, {}, "t0-1-", redis_port))
    assert sorted(found) == posted
    for key in [key for key in redis.values if key.startswith("notifications_lab-t0-1_")]:
        del redis.values[key]
    left = list(CLIENT.stored({"redis": "127.0.0.1"}, {}, "t0-1-", redis_port))
    assert sorted(set(posted) - set(left)) == ["t0-1-1-0", "t0-1-1-1"]


def test_what_fails_says_so(api: Api) -> None:
    state, _redis, port, _redis_port = api
    client = Plain(port)
    [entry] = CLIENT.provision(asking(port), "", 1, "t1")
    strange, expired = CLIENT.Adapter({"device": "nobody", "access": state.token()}), CLIENT.Adapter(entry)
    for device, status in ((strange, 404), (expired, 401)):
        assert device.authorise(client) == device.post(client, "n", "x") == MiddlewareAnswer(status, False)
        state.expire()
    with pytest.raises(OSError, match="refused"):
        list(CLIENT.stored({"redis": "127.0.0.1"}, {}, "t-", 1))


def test_a_node_gets_the_three_published_requests(api: Api) -> None:
    _state, redis, port, _redis_port = api
    ask, asked = asking(port), list[str]()

    def counting(method: str, path: str, bearer: str, document: object) -> Any:
        asked.append(f"{method} {path}")
        return ask(method, path, bearer, document)

    [entry] = CLIENT.provision(ask, "", 1, "t2")
    assert CLIENT.warm_up(counting, Plain(port), entry, "warm-t2-0") == MiddlewareAnswer(201, True)
    assert asked == ["PUT /api/rest/device/warm-t2-0", "DELETE /api/rest/device/warm-t2-0"]
    assert [key for key in redis.values if key.startswith("notifications_warm-t2-0_")]
    assert not redis.values["device warm-t2-0"]


def test_its_programs_have_what_the_real_ones_need() -> None:
    hosts = {name: f"10.0.0.{at}" for at, name in enumerate(SYSTEM.data)}
    programs = SYSTEM.node("/elsewhere", hosts, {"postgres": "p", "tokens": "t"})
    for one in programs:
        assert f"-Dbootstrap.servers={hosts['kafka']}:9092" in one.command
        assert one.environment["REDIS_MASTER_HOST"] == hosts["redis"]
        assert one.command[-1].startswith("/elsewhere/")
    backend, auth, _frontend = (one.command for one in programs)
    assert "-Dspring.main.allow-bean-definition-overriding=true" in auth
    assert "-Djwt.access-token-max-age=2592000000" in auth
    assert "-Ddevicehive.cache.notifications.ttl.seconds=86400" in backend


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_data_service_has_a_command(system: str) -> None:
    commands = (ROOT / "images/magistrala/start-part").read_text()
    for name in load(system).data:
        assert re.search(rf"^    ({system}|\*)-{name}\)", commands, re.MULTILINE), name


def test_a_build_never_takes_the_name_of_another_image() -> None:
    shared = yaml.safe_load((ROOT / "compose/experiments/middleware/compose.yaml").read_text())["services"]
    built = {name: one for name, one in shared.items() if "build" in one and "magistrala" in one["image"]}
    assert [("MIDDLEWARE_IMAGE" in one["image"], one["scale"]) for one in built.values()] == [(False, 0)]
    assert "MIDDLEWARE_IMAGE" in shared["middleware-node-1"]["image"]
