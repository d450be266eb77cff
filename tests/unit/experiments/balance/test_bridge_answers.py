"""What the bridge makes of the lines of a robot on two wheels, framed as published and by lines."""

from looplab.experiments.loop.bridge.robot_answers import Answers, Faults, check_letter

STATE, LEVEL = b"-12 340 5 -87", b"\xc5"


def numbered(request: bytes, body: bytes) -> bytes:
    return (text := bytes([request[0] + 96]) + body) + bytes([check_letter(text)]) + b"\n"


def test_as_published_a_state_has_no_number() -> None:
    robot = Answers("burst", Faults())
    assert robot.ask(LEVEL) == LEVEL
    assert robot.cut(STATE[:5]) == ([], b"")
    for lines, found in ((STATE[5:], (STATE, 1)), (b"ERR tilt", (b"", 1)), (STATE + b"\r\n" + STATE, (STATE, 2))):
        (reply,), _ = robot.cut(lines + b"\r\n")
        assert (reply.value, reply.stands_for) == found


def test_by_lines_a_lost_state_shifts_no_other() -> None:
    robot = Answers("line", Faults())
    first, _, third, last = (robot.ask(command) for command in (b"U", LEVEL, LEVEL, LEVEL))
    (reply,), _ = robot.cut(numbered(first, STATE))
    assert (reply.value, reply.skipped) == (STATE, 0)
    # The second answer is lost, the third one damaged.
    assert robot.cut(numbered(third, STATE).replace(b"0", b"1")) == ([], b"")
    (reply,), _ = robot.cut(numbered(last, b"E"))
    assert (reply.value, reply.skipped, reply.garbled) == (b"", 2, True)
