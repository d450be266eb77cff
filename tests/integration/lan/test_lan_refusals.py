"""What the access list refuses is logged, all of it and nothing else, by a plugin that decides nothing."""

import random
import re
import signal
import subprocess
from pathlib import Path

import pytest
from support.lan_broker import LanBroker, Visit, Visitor
from support.parts import HOST, LIMIT_S, Child, until
from support.places import ROOT
from support.tools import program

from looplab.experiments.loop.protocol import TOPIC_ANSWER, TOPIC_REQUEST
from looplab.lab.credentials import identities

SOURCES = ROOT / "images/refusals"
SEED = 5
# What the plugin may ask of the process it is loaded into, whichever C library that has.
OF_C = "__errno_location calloc clock_gettime close free malloc memcpy memset open read strchr strcmp strerror strlen"
REFUSED = re.compile(
    r"Refused (?:(\d+) more )?PUBLISH,? (?:the last )?to '(.*?)' by user '(.*?)', client '(.*?)', (.*)"
)


def refusals(lan: LanBroker) -> list[tuple[int, str, str, str, str]]:
    """(how many, topic, user, client, address) of each line about them."""
    return [(int(line[1] or 1), *line.groups()[1:]) for line in REFUSED.finditer(lan.said())]


def count(lan: LanBroker) -> int:
    return sum(number for number, *_ in refusals(lan))


def reload(lan: LanBroker, text: str) -> None:
    """Another access list, read by the running broker."""
    before = lan.said().count("Reloading config")
    (lan.root / identities.LAN / "broker/acl").write_text(text)
    lan.child.signal(signal.SIGHUP)
    # The broker's answer to anybody comes after the reload.
    until(lambda: lan.said().count("Reloading config") > before, "the broker reads its files again")
    visitor = Visitor(lan.port)
    assert visitor.verdict() == "Success"
    visitor.close()


def random_list(dice: random.Random) -> str:
    """Lines most of which mosquitto takes: all forms of access, wildcards, blanks where it allows them, users twice."""
    names = ["bridge", "controller", "somebody"]
    topics = ["request/", "answer/", "lab/#", "+/", "#", "lab/+/status", "a b", "$other/#", "+/x/#"]
    lines = [f"topic {dice.choice(topics)}"] if dice.random() < 0.5 else []
    for _ in range(dice.randrange(1, 5)):
        lines.append(f"user {' ' * dice.randrange(3)}{dice.choice(names)}")
        for _ in range(dice.randrange(4)):
            access = dice.choice(["read ", "write ", "readwrite ", "deny ", "write  ", ""])
            lines.append(
                f"{' ' * dice.randrange(2)}topic {access}{dice.choice(topics)}{dice.choice(['', ' ', chr(9)])}"
            )
        lines.append(dice.choice(["", "# user bridge", "   "]))
    return dice.choice(["\n", "\r\n"]).join(lines) + dice.choice(["", "\n"])


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_list_each_message_is_either_heard_or_logged(
    lan: LanBroker, insider: Visitor, visit: Visit, seed: int
) -> None:
    """mosquitto's own reading of lists at random, each taken by SIGHUP, is the plugin's. No more refusals than are
    told at once."""
    dice = random.Random(seed)
    topics = ["request/", "answer/", "lab/bridge/status", "lab", "a b", "$other/x", "x/x/y", "/"]
    insider.subscribe("$other/#")
    for index in range(8):
        reload(lan, random_list(dice))
        insider.messages.clear()
        visitor = visit(("bridge", "controller")[index % 2])
        for topic in topics:
            visitor.say(topic, "x")
        insider.say("the/end", "")
        until(lambda: ("the/end", b"") in insider.messages, "the last message")
        told = [topic for _, topic, _, client, _ in refusals(lan) if client == visitor.id]
        assert sorted([*told, *insider.heard() - {"the/end"}]) == sorted(topics)
        # What the one does not take the other does not take either.
        assert lan.said().count("Error: access list") == lan.said().count("Error opening acl file")


BROKEN = ("user bridge\ntopic wirte answer/\n", "topics answer/\n", "user\n", "topic a/#/b\n", "missing")


def test_a_list_that_breaks_refuses_everything_and_says_so_until_it_is_mended(
    lan: LanBroker, insider: Visitor, visit: Visit
) -> None:
    good = (lan.root / identities.LAN / "broker/acl").read_text()
    visitor = visit("bridge")
    for number, text in enumerate(BROKEN, start=1):
        if text == "missing":
            (lan.root / identities.LAN / "broker/acl").unlink()
            lan.child.signal(signal.SIGHUP)
        else:
            reload(lan, text)
        until(lambda number=number: lan.said().count("Everything is refused until") == number, f"{text!r} is told")
        visitor.say(TOPIC_ANSWER, "refused")
        reload(lan, good)
        visitor.say(TOPIC_ANSWER, f"mended {number}")
    until(lambda: (TOPIC_ANSWER, b"mended 5") in insider.messages, f"all is well again: {lan.said()}")
    assert [payload for _, payload in insider.messages] == [b"mended %d" % number for number in range(1, 6)]
    assert len(re.findall(r"Error: access list .*/acl(?:, line \d)?: .+\.\n", lan.said())) == len(BROKEN)
    visitor.close()
    until(lambda: count(lan) == len(BROKEN), lan.said())
    assert refusals(lan)[0] == (1, TOPIC_ANSWER, "bridge", visitor.id, HOST)


def test_a_list_that_only_mosquitto_understands_is_said_to_be_so(
    lan: LanBroker, insider: Visitor, visit: Visit
) -> None:
    reload(lan, "user bridge\ntopic write answer/\npattern write of/%u\n")
    assert re.search(r"Error: access list .*, line 3: `pattern` is not understood here\.\n", lan.said())
    assert "Refusals are not logged until it is mended" in lan.said()
    visitor = visit("bridge")
    visitor.say("of/bridge", "mosquitto's own")
    visitor.say(TOPIC_REQUEST, "refused")
    visitor.say(TOPIC_ANSWER, "last")
    until(lambda: (TOPIC_ANSWER, b"last") in insider.messages, "what is allowed")
    assert insider.heard() == {"of/bridge", TOPIC_ANSWER}
    assert refusals(lan) == []


def test_a_broker_that_cannot_log_refusals_says_why_and_ends(lan: LanBroker) -> None:
    acl = lan.root / identities.LAN / "broker/acl"
    text = lan.configuration.read_text()
    lan.stop()
    for name, configuration, rules, words in (
        (
            "broken",
            text,
            "user bridge\n\ttopic write answer/\n",
            r"access list .*/acl, line 2: neither user nor topic\.",
        ),
        ("missing list", text.replace(str(acl), f"{acl}s"), "", r"access list .*/acls: No such file or directory\."),
        ("no option", re.sub("plugin_opt_.*", "", text), "", r"takes one option: plugin_opt_access_list FILE\."),
        ("no plugin", text.replace("refusals.so", "x.so"), "", r'Unable to load auth plugin ".*"\.\n.*No such file'),
    ):
        lan.configuration.write_text(configuration)
        acl.write_text(rules)
        broker = Child([program("mosquitto"), "-c", str(lan.configuration)], lan.root / f"{name}.log")
        assert broker.wait() != 0, name
        assert re.search(words, broker.said()), broker.said()
        assert " running" not in broker.said()


def test_a_last_will_that_is_refused_is_logged(lan: LanBroker, insider: Visitor) -> None:
    client = Visitor.known(lan, "controller", client_id="dying", will="lab/bridge/status").client
    client.loop_stop()
    # No goodbye.
    client.socket().close()
    until(lambda: (1, "lab/bridge/status", "controller", "dying", HOST) in refusals(lan), lan.said())
    assert not insider.messages


def test_a_retained_message_whose_sender_may_no_longer_say_it_is_logged(lan: LanBroker, visit: Visit) -> None:
    """With an option that is off by default the broker asks so for each retained message."""
    lan.configuration.write_text(f"{lan.configuration.read_text()}check_retain_source true\n")
    lan.restart()
    visitor = visit("bridge")
    visitor.client.publish("lab/bridge/status", "online", 1, retain=True).wait_for_publish(LIMIT_S)
    visitor.close()
    reload(lan, "user controller\ntopic read lab/#\n")
    visit("controller").subscribe("lab/bridge/status")
    until(lambda: refusals(lan), "the retained message is kept back")
    assert refusals(lan) == [(1, "lab/bridge/status", "bridge", visitor.id, "retained from before")]


def test_a_flood_of_refusals_is_counted_in_a_few_lines(lan: LanBroker, visit: Visit) -> None:
    """All of one kind, then each of another: no more lines than the plugin has of them, and none is lost."""
    visitor, number = visit("observer"), 3000
    for _ in range(number):
        visitor.client.publish(TOPIC_REQUEST, "x")
    visitor.say(TOPIC_REQUEST, "x")
    for index in range(number):
        visitor.client.publish(f"request/{index}", "x")
    visitor.say(TOPIC_REQUEST, "x")
    visitor.close()
    until(lambda: count(lan) == 2 * number + 2, f"{count(lan)} of {2 * number + 2}")
    seconds = {int(line.split(":")[0]) for line in lan.said().splitlines() if "Refused" in line}
    # 64 at once, then each second one new and one count; the last count comes with the visitor's end.
    assert len(refusals(lan)) <= 64 + 2 * (max(seconds) - min(seconds) + 1) + 1


STRANGE = (
    ("request/é", "naïve", r"'request/\xc3\xa9'", r"'na\xc3\xafve'"),
    ("a' by user 'controller", "b'", r"'a\x27 by user \x27controller'", r"'b\x27'"),
    ("back\\slash\u202e", "%s%n%p", r"'back\x5cslash\xe2\x80\xae'", "'%s%n%p'"),
    ("t" * 30_000, "c" * 20_000, f"'{'t' * 157}'...", f"'{'c' * 77}'..."),
)


def test_what_a_stranger_calls_himself_stays_within_one_printable_line(lan: LanBroker) -> None:
    for topic, client, *_ in STRANGE:
        stranger = Visitor.known(lan, "bridge", client_id=client)
        stranger.say(topic, "x")
        stranger.close()
    lines = [line.partition(": ")[2] for line in lan.said().splitlines() if "Refused" in line]
    assert lines == [
        f"Refused PUBLISH to {topic} by user 'bridge', client {client}, {HOST}" for _, _, topic, client in STRANGE
    ]
    assert all(line.isascii() and line.isprintable() for line in lines)


def test_the_plugin_fits_any_c_library(plugin: Path) -> None:
    """It names no library, and of those that are there it asks for what each has, in no certain version."""
    dynamic = subprocess.run(["readelf", "-Wd", plugin], check=True, capture_output=True, text=True).stdout
    assert "(NEEDED)" not in dynamic
    assert "VERNEED" not in dynamic
    symbols = subprocess.run(["nm", "-D", "-u", plugin], check=True, capture_output=True, text=True).stdout
    wanted = {line.split()[-1] for line in symbols.splitlines()}
    assert {name for name in wanted if not name.startswith("mosquitto_")} <= set(OF_C.split())


def test_no_file_breaks_the_reader(tmp_path: Path) -> None:
    """Compiled with sanitizers, over files made of an access list's words, blanks and any bytes."""
    program = tmp_path / "read"
    command = ["gcc", "-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]
    files = [str(SOURCES / "access_list.c"), str(ROOT / "tests/integration/lan/access_list_reader.c")]
    command += ["-fno-sanitize-recover", f"-I{SOURCES}", *files, "-lmosquitto", "-o", str(program)]
    subprocess.run(command, check=True)
    dice = random.Random(SEED)
    words = [*b"user topic pattern read write deny # +/# a".split(), b" ", b" ", b"\t", b"\n", b"\n"]
    paths = []
    for index in range(400):
        pieces = [dice.choice(words) if dice.random() < 0.95 else dice.randbytes(2) for _ in range(dice.randrange(60))]
        paths.append(tmp_path / f"list-{index}")
        paths[-1].write_bytes(b"".join(pieces))
    for index, content in enumerate(
        [b"", b"topic a\n" * 8192, b"topic a\n" * 8193, b"topic a\0", b"user " + b"u" * 65531]
    ):
        paths.append(tmp_path / f"edge-{index}")
        paths[-1].write_bytes(content)
    done = subprocess.run([program, *paths, tmp_path, tmp_path / "none"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    *of_words, empty, longest, too_long, zero, long_name, folder, none = done.stdout.splitlines()
    assert {line.split()[0] for line in of_words} == {"read", "broken", "foreign"}
    assert (empty, longest, long_name) == ("read 0", "read 8192", "read 0")
    assert too_long == "foreign 0: longer than 65536 bytes"
    assert zero == "foreign 0: a zero byte"
    assert folder == "broken 0: Is a directory"
    assert none == "broken 0: No such file or directory"
