"""Does the registry of an image answer? Asked through the engine, which has its own proxies and mirrors."""

from __future__ import annotations

from dataclasses import dataclass

from looplab.lab.programs import TIMED_OUT, Outcome, call

PATIENCE_S = 15.0
# No image has this digest: a registry that answers says so without sending anything.
NO_SUCH_DIGEST = "sha256:" + "0" * 64
_ANSWERS = ("manifest unknown", "not found", "toomanyrequests", "denied", "unauthorized", "no such manifest")
_UNREACHABLE = ("no such host", "connection refused", "timeout", "unreachable", "tls", "x509", "certificate")


@dataclass(frozen=True)
class Registry:
    """`name` is "" for the engine's default one."""

    name: str
    answers: bool
    detail: str = ""


def registry_of(reference: str) -> str:
    """The host part of an image reference, "" for the default registry."""
    first, slash, _ = reference.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else ""


def repository_of(reference: str) -> str:
    """The reference without tag and digest."""
    without_digest = reference.partition("@")[0]
    head, slash, last = without_digest.rpartition("/")
    return head + slash + last.partition(":")[0]


def ask_registry(reference: str) -> Registry:
    """Ask the registry of `reference` for a digest that nobody has."""
    outcome = call(["docker", "pull", f"{repository_of(reference)}@{NO_SUCH_DIGEST}"], timeout_s=PATIENCE_S)
    return read_registry(registry_of(reference), outcome)


def read_registry(name: str, outcome: Outcome) -> Registry:
    """A refusal is an answer, silence is none."""
    if outcome.code == TIMED_OUT:
        return Registry(name, False, f"no answer within {PATIENCE_S:g} s")
    said = outcome.said.lower()
    if any(sign in said for sign in _UNREACHABLE):
        return Registry(name, False, outcome.said.rpartition(": ")[2])
    answers = outcome.good or any(sign in said for sign in _ANSWERS)
    return Registry(name, answers, "" if answers else outcome.said)
