#!/usr/bin/env python3
"""Who delivers a packet between two containers, at which priority: the bridge's answers as seen by the broker's kernel.

Two network namespaces, joined as an engine joins containers (two veth pairs and a bridge). One sends a datagram every
20 ms under SCHED_FIFO 95 (as the lab's bridge does) or SCHED_OTHER, idle or beside busy processes; the other stamps it
in the kernel (SO_TIMESTAMPNS). Printed: from the call of send to the kernel's stamp (the way), and from there to the
receiver's return from recv (its wake-up); and whose context took the packet. Needs root:

    sudo python3 bench/softirq.py [--packets 250] [--keep FOLDER]
"""

import argparse
import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kept import keeping, options, write_rows

SENDER, RECEIVER, SWITCH = "lab-si-a", "lab-si-b", "lab-si-sw"
ADDRESS, PORT = "10.213.77.2", 9999
INTERVAL_S = 0.02
FIFO = 95
# Busy processes a processor: as many as the published stress has CPU and memory workers on two.
WORKERS = 4
SO_TIMESTAMPNS = 35
EVENT = "events/net/netif_receive_skb"


def ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)


@contextlib.contextmanager
def network() -> Iterator[None]:
    """Two namespaces on one bridge, which has a namespace of its own."""
    try:
        for name in (SENDER, RECEIVER, SWITCH):
            ip(f"netns add {name}")
        ip(f"-n {SWITCH} link add br0 type bridge")
        ip(f"-n {SWITCH} link set br0 up")
        for number, name in enumerate((SENDER, RECEIVER), 1):
            ip(f"-n {SWITCH} link add port{number} type veth peer name eth0 netns {name}")
            ip(f"-n {SWITCH} link set port{number} master br0 up")
            ip(f"-n {name} addr add 10.213.77.{number}/24 dev eth0")
            ip(f"-n {name} link set eth0 up")
        yield
    finally:
        for name in (SENDER, RECEIVER, SWITCH):
            subprocess.run(["ip", "netns", "del", name], check=False)


def send(fifo: int, packets: int) -> None:
    if fifo:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(fifo))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((ADDRESS, PORT))
        due_s = time.monotonic()
        for _ in range(packets):
            due_s += INTERVAL_S
            time.sleep(max(0.0, due_s - time.monotonic()))
            sock.send(struct.pack("<q", time.clock_gettime_ns(time.CLOCK_REALTIME)))


def receive(packets: int) -> None:
    """Print (way, wake-up) in ns of each packet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        sock.bind((ADDRESS, PORT))
        sock.settimeout(10)
        print("ready", flush=True)
        found = []
        for _ in range(packets):
            data, ancillary, _flags, _peer = sock.recvmsg(64, 64)
            now_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
            seconds, nanoseconds = struct.unpack("<qq", ancillary[0][2][:16])
            stamp_ns = seconds * 1_000_000_000 + nanoseconds
            found.append((stamp_ns - struct.unpack("<q", data)[0], now_ns - stamp_ns))
    print(json.dumps(found))


def inside(namespace: str, *words: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, sys.executable, __file__, *words]


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    workers = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(1 if count else 0)
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


@contextlib.contextmanager
def traced(contexts: Counter[str]) -> Iterator[None]:
    """Count in whose context the receiver's interface took its packets, in a trace buffer of our own."""
    with tempfile.TemporaryDirectory() as mounted:
        subprocess.run(["mount", "-t", "tracefs", "nodev", mounted], check=True)
        ours = Path(mounted) / "instances" / f"lab-softirq-{os.getpid()}"
        try:
            ours.mkdir()
            (ours / EVENT / "enable").write_text("1")
            yield
            (ours / EVENT / "enable").write_text("0")
            # 8 bytes and the headers of UDP and IP; the bridge's ports have another device.
            lines = re.findall(r"^\s*(.+)-(\d+)\s+\[.*dev=eth0 .*len=36", (ours / "trace").read_text(), re.MULTILINE)
            contexts.update("ksoftirqd" if name.startswith("ksoftirqd") else f"process {pid}" for name, pid in lines)
        finally:
            ours.rmdir()
            subprocess.run(["umount", mounted], check=True)


def measure(fifo: int, load: int, packets: int) -> dict[str, object]:
    contexts: Counter[str] = Counter()
    with busy(load):
        receiver = subprocess.Popen(
            inside(RECEIVER, "--receive", "--packets", str(packets)), stdout=subprocess.PIPE, text=True
        )
        assert receiver.stdout is not None
        receiver.stdout.readline()
        with traced(contexts):
            sender = subprocess.Popen(inside(SENDER, "--send", str(fifo), "--packets", str(packets)))
            pairs = json.loads(receiver.communicate(timeout=300)[0])
            sender.wait()
    by = Counter({"sender": contexts.pop(f"process {sender.pid}", 0), "ksoftirqd": contexts.pop("ksoftirqd", 0)})
    by["others"] = contexts.total()
    return {
        "sender": f"SCHED_FIFO {fifo}" if fifo else "SCHED_OTHER",
        "busy": load,
        "way_ns": [way for way, _wake in pairs],
        "wake_up_ns": [wake for _way, wake in pairs],
        "delivered_by": dict(by),
    }


def main() -> int:
    """Measure the four cases; print their figures."""
    parser = options(__doc__)
    parser.add_argument("--packets", type=int, default=250)
    parser.add_argument("--send", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--receive", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.receive:
        receive(given.packets)
        return 0
    if given.send is not None:
        send(given.send, given.packets)
        return 0
    load = WORKERS * (os.cpu_count() or 1)
    with network(), keeping("softirq", given.keep) as folder:
        cases = [measure(fifo, count, given.packets) for count in (0, load) for fifo in (FIFO, 0)]
        write_rows(folder / "cases.jsonl", cases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
