"""Grafana's administrator: made once, kept, a secret to Compose; and nobody at all where set-up never ran."""

from pathlib import Path
from typing import Any

import yaml
from support.places import ROOT

from looplab.lab.secret_files import GRAFANA_PASSWORD_FILE as PASSWORD_FILE
from looplab.lab.secret_files import ensure_grafana_password
from looplab.system.env_files import expand

COMPOSE_FILE = ROOT / "compose" / "observe.yaml"


def composed(settings: dict[str, str]) -> dict[str, Any]:
    """What Grafana is told, with `settings` as variables."""
    document = yaml.safe_load(COMPOSE_FILE.read_text())
    service = document["services"]["grafana"]
    told = {
        "disabled": service["environment"]["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"],
        "file": document["secrets"]["grafana_admin_password"]["file"],
    }
    assert service["secrets"][0] == "grafana_admin_password"
    assert service["environment"]["GF_SECURITY_ADMIN_PASSWORD__FILE"] == "/run/secrets/grafana_admin_password"
    return expand(told, settings)


def test_the_password_is_made_once_and_kept(tmp_path: Path) -> None:
    ensure_grafana_password(tmp_path)
    path = tmp_path / PASSWORD_FILE
    first = path.read_text()
    assert len(first) >= 24
    ensure_grafana_password(tmp_path)
    assert path.read_text() == first
    path.chmod(0o600)
    path.write_text("")
    ensure_grafana_password(tmp_path)
    assert len(path.read_text()) >= 24
    assert path.read_text() != first


def test_the_folder_keeps_other_users_of_the_machine_out(tmp_path: Path) -> None:
    ensure_grafana_password(tmp_path)
    path = tmp_path / PASSWORD_FILE
    # Grafana's own user reads the file; no container has the folder.
    assert path.stat().st_mode & 0o777 == 0o444
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_set_up_names_a_file_that_compose_finds(tmp_path: Path) -> None:
    told = composed(ensure_grafana_password(tmp_path))
    assert (tmp_path / "compose" / told["file"]).resolve() == tmp_path / PASSWORD_FILE
    assert told["disabled"] == "false"


def test_without_set_up_there_is_no_administrator() -> None:
    told = composed({})
    assert told["disabled"] == "true"
    no_password = COMPOSE_FILE.parent / told["file"]
    # Grafana takes an empty password for none given; Compose wants a file there.
    assert no_password.read_bytes() == b""
