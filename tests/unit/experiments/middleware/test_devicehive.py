"""DeviceHive's adapter against its published API: provisioning, an expired token, posting, reading back."""

import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from support.compose_files import LOADER
from support.devicehive_double import DeviceHive, Redis, devicehive
from support.places import ROOT

from looplab.errors import LabError
from looplab.experiments.middleware.systems import SYSTEMS, MiddlewareAnswer, NodePlace, load, part

SYSTEM = load("devicehive")
CLIENT, PROGRAMS = part("devicehive", "client"), part("devicehive", "programs")
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


def asking(port: int) -> Any:
    def ask(method: str, path: str, bearer: str, document: object) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        data = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=5) as reply:
                text = reply.read()
        except urllib.error.HTTPError as error:
            raise LabError(f"{method} {path}: {error.code}", "", 3) from error
        return json.loads(text) if text else {}

    return ask


def test_every_system_has_the_same_modules() -> None:
    for name in SYSTEMS:
        assert load(name).name == name
        for module, members in (("client", "Adapter provision stored"), ("programs", "node")):
            assert set(members.split()) <= set(vars(part(name, module))), f"{name}.{module}"


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


def test_an_expired_token_is_refused(api: Api) -> None:
    state, _redis, port, _redis_port = api
    [entry] = CLIENT.provision(asking(port), "", 1, "t1")
    device, client = CLIENT.Adapter(entry), Plain(port)
    state.expire()
    assert device.authorise(client) == MiddlewareAnswer(401, False)
    assert device.post(client, "t1-0-0-0", "x") == MiddlewareAnswer(401, False)


def test_what_fails_says_so(api: Api) -> None:
    state, _redis, port, _redis_port = api
    client = Plain(port)
    device = CLIENT.Adapter({"device": "nobody", "access": state.token()})
    assert device.authorise(client) == MiddlewareAnswer(404, False)
    assert device.post(client, "n", "x") == MiddlewareAnswer(404, False)
    with pytest.raises(OSError, match="refused"):
        list(CLIENT.stored({"redis": "127.0.0.1"}, {}, "t-", 1))


def test_a_node_gets_the_three_published_requests(api: Api) -> None:
    _state, redis, port, _redis_port = api
    ask = asking(port)
    asked: list[str] = []

    def counting(method: str, path: str, bearer: str, document: object) -> dict[str, Any]:
        asked.append(f"{method} {path}")
        found: dict[str, Any] = ask(method, path, bearer, document)
        return found

    [entry] = CLIENT.provision(ask, "", 1, "t2")
    assert CLIENT.warm_up(counting, Plain(port), entry, "warm-t2-0") == MiddlewareAnswer(201, True)
    assert asked == ["PUT /api/rest/device/warm-t2-0", "DELETE /api/rest/device/warm-t2-0"]
    assert [key for key in redis.values if key.startswith("notifications_warm-t2-0_")]
    assert not redis.values["device warm-t2-0"]


def test_its_programs_know_where_their_data_are() -> None:
    hosts = {name: f"10.0.0.{at}" for at, name in enumerate(SYSTEM.data)}
    place = NodePlace("/opt/devicehive", hosts, {"postgres": "p", "tokens": "t", "spicedb": "s", "admin": "a"})
    programs = PROGRAMS.node(place)
    assert tuple(one.name for one in programs) == SYSTEM.services
    for one in programs:
        assert f"-Dbootstrap.servers={hosts['kafka']}:9092" in one.command
        assert one.environment["REDIS_MASTER_HOST"] == hosts["redis"]


def test_its_programs_have_what_the_real_ones_need() -> None:
    hosts = dict.fromkeys(SYSTEM.data, "10.0.0.9")
    place = NodePlace("/elsewhere", hosts, {"postgres": "p", "tokens": "t"})
    backend, auth, frontend = (one.command for one in PROGRAMS.node(place))
    assert "-Dspring.main.allow-bean-definition-overriding=true" in auth
    assert "-Djwt.access-token-max-age=2592000000" in auth
    assert "-Ddevicehive.cache.notifications.ttl.seconds=86400" in backend
    assert [command[-1].startswith("/elsewhere/") for command in (backend, auth, frontend)] == [True] * 3
    assert SYSTEM.start_s >= 60
    assert SYSTEM.start_timeout_s > 2 * SYSTEM.start_s


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_data_service_has_a_command(system: str) -> None:
    commands = (ROOT / "images/magistrala/start-part").read_text()
    for name in load(system).data:
        assert re.search(rf"^    ({system}|\*)-{name}\)", commands, re.MULTILINE), name


def test_each_of_its_data_services_has_a_container() -> None:
    own = yaml.load((ROOT / "src/looplab/experiments/middleware/systems/devicehive/compose.yaml").read_text(), LOADER)
    shared = yaml.safe_load((ROOT / "compose/experiments/middleware/compose.yaml").read_text())
    services = {**shared["services"], **own["services"]}
    assert {f"middleware-{name}" for name in SYSTEM.data} <= services.keys()
    for service in own["services"].values():
        # Paths of a second Compose file are those of the first one's folder.
        assert (ROOT / service["extends"]["file"]).is_file()


def test_a_build_never_takes_the_name_of_another_image() -> None:
    shared = yaml.safe_load((ROOT / "compose/experiments/middleware/compose.yaml").read_text())["services"]
    built = {name: one for name, one in shared.items() if "build" in one and "magistrala" in one["image"]}
    assert [("MIDDLEWARE_IMAGE" in one["image"], one["scale"]) for one in built.values()] == [(False, 0)]
    assert "MIDDLEWARE_IMAGE" in shared["middleware-node-1"]["image"]
