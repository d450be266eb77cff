"""Requests and answers in words, for `./lab listen`."""

from looplab.experiments.loop.protocol import TOPIC_ANSWER, TOPIC_REQUEST, parse_answer, parse_request

TOPICS = (TOPIC_REQUEST, TOPIC_ANSWER)
COMMANDS = {b"T": "temperature?", b"E": "an emulated answer?"}


def decode(payload: bytes) -> tuple[object, bool, str] | None:
    """Return what a request has in common with its answer, whether this is the answer, and its words; else None."""
    if request := parse_request(payload):
        asked = f"{request.sequence}: {COMMANDS[request.command]} of run {request.run.decode()}"
        return (request.run, request.sequence), False, asked
    if answer := parse_answer(payload):
        value = f"{answer.status.decode()} {answer.value.decode()}"
        return (answer.run, answer.sequence), True, f"{answer.sequence}: {value}, R {answer.robot_ns / 1e6:.3f} ms"
    return None
