"""Each kind of parameter: what it takes, what it refuses, and the sentence that says so."""

from collections.abc import Callable
from typing import Any

import pytest

from looplab.errors import UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.spec.parameters import choice, host, integer, listed, matching, number, numbers, switch, words
from looplab.spec.reader import Reader, read_qos

KINDS: dict[str, Any] = {
    "integer": integer(7, 1, 100),
    "number": number(0.5, 0, 10),
    "switch": switch({"thesis": False, "corrected": True}),
    "choice": choice("a", ("a", "b")),
    "words": words("a", ("a", "b")),
    "numbers": numbers("20", 0.5, 60_000),
    "qos": listed("0", read_qos, "0, 1 or 2"),
    "host": host("broker"),
    "matching": matching(None, r"[a-z]+", "lower-case letters"),
}


def read(kind: str, text: str, **more: str) -> Any:
    reading: Callable[[Reader, str], Any] = KINDS[kind].metadata["param"].read
    return reading(Reader({"NAME": text, **more}, "compose/x"), "NAME")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("integer", "100", 100), ("integer", "", 7), ("integer", " 5\r", 5), ("number", "2.50", 2.5),
        ("number", "2.0", 2), ("switch", "", False), ("switch", "ON", True), ("choice", "b", "b"),
        ("words", "b,a", ("b", "a")),
        ("numbers", "100, 0.5", (100, 0.5)), ("numbers", "20 10\r", (20, 10)), ("qos", "0 2", (0, 2)),
        ("host", "192.0.2.1", "192.0.2.1"), ("matching", "abc", "abc"),
    ],
)  # fmt: skip
def test_what_each_kind_takes(kind: str, text: str, value: object) -> None:
    assert read(kind, text) == value


def test_a_default_may_be_one_by_fidelity() -> None:
    assert read("switch", "", FIDELITY="corrected") is True
    # Which has the thesis's where it has none of its own.
    assert read("switch", "", FIDELITY="printed") is False


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != EXPERIMENTS.default])
def test_the_loop_alone_has_printed_clients(name: str) -> None:
    why = "hears no answer" if name == "balance" else "only the control loop"
    with pytest.raises(UsageError, match=why):
        EXPERIMENTS[name].read_parameters({"FIDELITY": "printed"})


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        *(("integer", text, "a whole number from 1 to 100") for text in ("0", "101", "1e1", "-1", "٣", "many", "1.0")),
        *(("number", text, "a number from 0 to 10") for text in ("-1", "11", "nan", "inf", "1e1", "half")),
        *(("switch", text, "on or off") for text in ("yes", "1")),
        ("choice", "c", "one of a, b"),
        ("words", "a,c", "one or more of a, b"),
        *(
            ("numbers", text, "numbers from 0.5 to 60000")
            for text in ("fast", "0", "-20", "nan", "inf", "20,", "60001")
        ),
        ("numbers", "20,20", "each value once"),
        *(("qos", text, "0, 1 or 2") for text in ("3", "0;1", "+1")),
        *(("host", text, "a host name or an address") for text in ("a b", "http://a", "a:1")),
        ("matching", "ABC", "lower-case letters"),
    ],
)
def test_what_each_kind_refuses(kind: str, text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(kind, text)
    assert caught.value.message.startswith(f"NAME={text!r}: expected {expected}")
    assert "NAME in compose/x/params.env" in caught.value.remedy


def test_what_has_no_default_must_be_set() -> None:
    with pytest.raises(UsageError, match="NAME is not set"):
        read("matching", "")
