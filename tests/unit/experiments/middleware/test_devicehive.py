"""DeviceHive's adapter against its published API: provisioning, an expired token, posting, reading back."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.devicehive_double import DeviceHive, devicehive
from support.places import ROOT

from looplab.experiments.middleware.systems import SYSTEMS, client_of, load

CLIENT = client_of("devicehive")
Api = tuple[DeviceHive, int]


@pytest.fixture
def api() -> Iterator[Api]:
    with devicehive() as served:
        yield served


def test_a_device_posts_and_what_it_posted_is_read_back(api: Api) -> None:
    state, redis_port = api
    entries = CLIENT.provision(state.ask, "", 3, "t0")
    assert json.loads(json.dumps(entries)) == entries
    send, posted = state.send, []
    for number, entry in enumerate(entries):
        device = CLIENT.Adapter(entry)
        assert device.authorise(send) == 200
        for sequence in range(2):
            posted.append(f"t0-1-{number}-{sequence}")
            assert device.post(send, posted[-1], "x" * 36) == 201
    assert CLIENT.Adapter(entries[0]).post(send, "t0-2-0-0", "another repetition") == 201
    found = list(CLIENT.stored({"redis": "127.0.0.1"}, {}, "t0-1-", redis_port))
    assert sorted(found) == posted
    for key in [key for key in state.kept if key.startswith("notifications_lab-t0-1_")]:
        del state.kept[key]
    left = list(CLIENT.stored({"redis": "127.0.0.1"}, {}, "t0-1-", redis_port))
    assert sorted(set(posted) - set(left)) == ["t0-1-1-0", "t0-1-1-1"]


def test_what_fails_says_so(api: Api) -> None:
    state, send = api[0], api[0].send
    [entry] = CLIENT.provision(state.ask, "", 1, "t1")
    strange, expired = CLIENT.Adapter({"device": "nobody", "access": state.token()}), CLIENT.Adapter(entry)
    for device, status in ((strange, 404), (expired, 401)):
        assert device.authorise(send) == device.post(send, "n", "x") == status
        state.expire()
    with pytest.raises(OSError, match="refused"):
        list(CLIENT.stored({"redis": "127.0.0.1"}, {}, "t-", 1))


def test_a_node_gets_the_three_published_requests(api: Api) -> None:
    state, asked = api[0], list[str]()

    def counting(method: str, path: str, bearer: str, document: object) -> Any:
        asked.append(f"{method} {path}")
        return state.ask(method, path, bearer, document)

    [entry] = CLIENT.provision(state.ask, "", 1, "t2")
    assert CLIENT.warm_up(counting, state.send, entry, "warm-t2-0") == 201
    assert asked == ["PUT /api/rest/device/warm-t2-0", "DELETE /api/rest/device/warm-t2-0"]
    assert [key for key in state.kept if key.startswith("notifications_warm-t2-0_")]
    assert "warm-t2-0" not in state.devices


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_data_service_has_a_command_and_each_program_its_values(system: str) -> None:
    commands = (ROOT / "images/magistrala/start-part").read_text()
    held = load(system)
    for name in held.data:
        assert re.search(rf"^    ({system}|\*)-{name}\)", commands, re.MULTILINE), name
    secrets = dict.fromkeys(("postgres", "spicedb", "tokens", "admin"), "a secret")
    for one in held.node("/elsewhere", {name: f"host of {name}" for name in held.data}, secrets):
        assert "a secret" in " ".join([*one.command, *one.environment.values()])
