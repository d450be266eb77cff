"""Wrong use and a machine that lacks something: one clear message with its remedy, the right code, nothing left.

An engine that does not answer: tests/unit/lab/test_engine.py.
"""

import socket
from pathlib import Path

from support.e2e_lab import Lab, free_port


def check_refused(lab: Lab, code: int, *words: str, **variables: str) -> None:
    """Check that ./lab run says these words, ends with this code and starts nothing."""
    done = lab.run("run", "scenario0", "--quick", **variables)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert [word for word in words if word not in done.stderr] == [], done.stderr
    assert lab.containers(running=False) == {}
    assert not list((lab.root / "results").glob("*scenario*"))


def append(path: Path, line: str) -> None:
    path.write_text(path.read_text() + line)


def test_a_slip_in_a_file_names_variable_and_file(own_lab: Lab) -> None:
    """Every variable's own check: tests/integration/contract."""
    append(own_lab.root / ".env", "\nDEADLINE_MS=abc\n")
    check_refused(own_lab, 2, "DEADLINE_MS='abc'", ".env")


def test_yaml_that_cannot_be_read_is_named_with_its_line(own_lab: Lab) -> None:
    append(own_lab.root / "compose/observe.yaml", "  broken: [unclosed\n")
    check_refused(own_lab, 2, "The Compose files do not fit together: ", "yaml: line ", "`git diff .env compose`")


def test_a_port_in_use_is_named_with_its_variable(own_lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as holder:
        port = str(holder.getsockname()[1])
        check_refused(own_lab, 3, f"Port {port} is in use", "LAB_PROMETHEUS_PORT", LAB_PROMETHEUS_PORT=port)
