"""What reads bytes from a network, a wire or somebody's file refuses damaged ones in the way it promises."""

import gzip
import io
import json
import os
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from support.places import ROOT

from looplab.errors import LabError
from looplab.exercises.hand_in import hand_ins, read_form
from looplab.experiments.asip.board import LineBuffer
from looplab.experiments.loop.bridge.robot_answers import Answers, Faults, parse_numbered
from looplab.experiments.loop.bridge_news import BridgeNews
from looplab.experiments.loop.protocol import merged_payload, parse_answer, parse_merged, parse_request
from looplab.experiments.registry import EXPERIMENTS
from looplab.experiments.twin import message
from looplab.lab.bundle_file import read_bundle
from looplab.link.settings import both_ways, parse_links
from looplab.mqtt.packets import PacketBuffer, parse_publish, publish_packet
from looplab.mqtt.pairing import read_pairing
from looplab.report.study_file import read_studies
from looplab.run.samples import MAGIC, store_columns
from looplab.system.env_files import read_env

# A night's worth is LOOPLAB_FUZZ_FILES=10000: a file takes as long as ten inputs.
FILES = int(os.environ.get("LOOPLAB_FUZZ_FILES") or 200)
INPUTS = 10 * FILES
RUN = b"0a1b2c3d"
REPEATED = b"T,-0=[{\"'\\\n\0\xff\x80"


def damaged(sound: Sequence[bytes], dice: random.Random, count: int) -> Iterator[bytes]:
    """Yield what becomes of sound inputs when a few bytes change, go, come or change places."""
    for _ in range(count):
        data = bytearray(dice.choice(sound))
        for _ in range(dice.choice([1, 1, 2, 4, 16])):
            at, end = (dice.randrange(len(data) + 1) for _ in range(2))
            change = dice.randrange(5)
            if change == 0:
                data[at : at + 1] = dice.randbytes(1)
            elif change == 1:
                data[at:at] = bytes([dice.choice(REPEATED)]) * dice.choice([1, 1, 3, 300])
            elif change == 2:
                del data[at : at + dice.choice([1, 4, 1000])]
            elif change == 3:
                data[at:at] = data[min(at, end) : max(at, end)][:1000]
            else:
                data += dice.choice(sound)[at:]
        yield bytes(data)


def take_news(data: bytes) -> None:
    news = BridgeNews(RUN.decode(), 100)
    for topic in (b"lab/bridge/info", b"lab/bridge/status", b"lab/bridge/merged", data[:20]):
        news.take(topic, data)
    json.dumps(news.document(broker_restarted=False))


def cut_packets(data: bytes) -> None:
    buffer = PacketBuffer()
    for at in range(0, len(data), 97):
        for packet in buffer.packets(data[at : at + 97]):
            parse_publish(packet)


def hear_robot(data: bytes) -> None:
    for framing in ("burst", "line"):
        answers = Answers(framing, Faults())
        for _ in range(3):
            answers.ask(b"T")
        for at in range(0, len(data), 5):
            answers.cut(data[at : at + 5])
        answers.saw_reset(data)
        answers.identity(data, asked=True)
    for line in data.split(b"\n"):
        parse_numbered(line)


Parser = tuple[Callable[[bytes], object], Sequence[bytes], tuple[type[Exception], ...]]
INFO = json.dumps({"token": "a", "connects": 3, "versions": {"paho": "2"}, "counts": {"requests": 1}}).encode()
LINKS = json.dumps([one.as_json() for one in both_ways("broker", 12.5, loss_percent=1.0)]).encode()
PACKETS = [publish_packet(b"request/", bytes(size), False) for size in (9, 300)]
# Of each parser: sound inputs, and what it promises to raise.
PARSERS: dict[str, Parser] = {
    "request": (parse_request, [b"T-%b-17" % RUN, b"B120-%b-99999999" % RUN], ()),
    "answer": (parse_answer, [b"%b,17,ok,4200000,21.5" % RUN, b"%b,1,ok,42,21,0,41,1,,3" % RUN], ()),
    "merged": (parse_merged, [merged_payload(RUN, [1, 22, 333])], ()),
    "bridge news": (take_news, [INFO, b"online", merged_payload(RUN, [1, 2])], ()),
    "packets": (cut_packets, PACKETS, (ValueError, IndexError)),
    "robot": (hear_robot, [b"21.50\r\n", b"#1=21.50*4\r\n", b"looplab 1.2 ready\r\n", b"err\r\n"], ()),
    "store": (store_columns, [MAGIC + struct.pack("<Q", 3) + b"due_ns state\n"], (ValueError,)),
    "links": (lambda data: parse_links(json.loads(data)), [LINKS], (ValueError, LabError)),
    "twin": (lambda data: message.parse(RUN, data), [message.payload(RUN, 3, 17, 10**18, 100)], ()),
    "board": (LineBuffer().whole, [b"@I,p,2,{1:3}\n", b"#,R\n"], (LabError,)),
}  # fmt: skip


def refuses(read: Callable[[bytes], object], data: bytes, promised: tuple[type[Exception], ...]) -> None:
    try:
        read(data)
    except promised:
        pass
    except Exception as error:
        raise AssertionError(f"{error!r} for {data[:200]!r}") from error


@pytest.mark.parametrize("name", PARSERS)
def test_damaged_bytes_are_refused(name: str) -> None:
    read, sound, promised = PARSERS[name]
    for data in sound:
        read(data)
    for data in damaged(sound, random.Random(name), INPUTS):
        refuses(read, data, promised)


def bundle() -> bytes:
    """The bundle before it is packed: gzip alone would find each damage."""
    file = io.BytesIO()
    manifest = {"schema": 3, "architecture": "linux/arm64", "images": {"a:1": "b"}, "lab": "1", "profiles": ["a"]}
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, text in (("bundle.json", json.dumps(manifest)), ("manifest.json", '[{"RepoTags": ["a:1"]}]')):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return file.getvalue()


def archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in (ROOT / "tests/support/stored_runs").rglob("interrupted.json"):
            packed.write(path, f"scenario0/{path.parent.name}/run.json")
        packed.writestr("scenario1/scenario1.yaml", "prediction: a\n")
    return file.getvalue()


PAIRING = "BROKER_HOST=10.0.0.1\nBROKER_PORT=8883\nBROKER_USER=bridge\nBROKER_PASSWORD=x\nBROKER_CA_BASE64=none\n"
STUDY = {"schema": 1, "study": "s", "names": ["a"], "seed": 1, "rounds": 1, "arms": {"a": "a"}, "blocks": [["a"]]}
STUDY |= {"options": {}, "where": {}, "runs": [{"block": 0, "arm": "a", "run_id": "r", "valid": True}]}


def read_packed(path: Path) -> None:
    path.write_bytes(gzip.compress(path.read_bytes(), 1))
    read_bundle(path)


def read_hand_in(path: Path) -> None:
    assert len([*hand_ins([path], path.parent / "unpacked", EXPERIMENTS)]) == 1


# Of each reader of a file: its name, a sound one, and what it promises to raise.
READERS: dict[str, tuple[Callable[[Path], object], bytes, tuple[type[Exception], ...]]] = {
    "pairing.env": (read_pairing, PAIRING.encode(), (LabError,)),
    ".env": (read_env, b"A=1\nB='two words'  # why\n\nexport C=${A}\n", (LabError,)),
    "scenario1.yaml": (read_form, b"# why\nprediction: a\nnumber: 4.5\nruns: [a, b]\n", (LabError,)),
    "s.study.json": (lambda path: read_studies(path.parent), json.dumps(STUDY).encode(), ()),
    "lab.bundle": (read_packed, bundle(), (LabError,)),
    "ada.zip": (read_hand_in, archive(), ()),
}


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_refused(name: str, tmp_path: Path) -> None:
    read, sound, promised = READERS[name]
    path = tmp_path / name

    def write_and_read(data: bytes) -> None:
        path.write_bytes(data)
        read(path)

    write_and_read(sound)
    for data in damaged([sound], random.Random(name), FILES):
        refuses(write_and_read, data, promised)
