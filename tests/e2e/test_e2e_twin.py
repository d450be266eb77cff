"""The digital twin on the engine: its parts and their rights, its files, its table and the end of that."""

import json

import psycopg
import pytest
from support.containers import docker
from support.e2e_lab import Lab
from support.hardening import judge_container

from looplab.experiments.registry import EXPERIMENTS
from looplab.report.stored import StoredRun, read_run

MESSAGES = 60
PARTS = {"twin-broker", "twin-instance", "twin", "twin-database"}


def test_a_run_with_least_rights_stores_every_message_until_the_lab_is_down(lab: Lab) -> None:
    lab.forget_runs()
    words = ("run", "twin", "--intervals", "20", "--messages", str(MESSAGES), "--write-mode", "prototype,copy")
    running = lab.start(*words, "--json", PERSISTENCE="on")
    running.wait_for("prototype")
    containers = lab.containers()
    assert containers.keys() >= PARTS
    for service, container in containers.items():
        judge_container(service, container)
    database = containers["twin-database"]
    assert json.loads(docker("inspect", database))[0]["NetworkSettings"]["Ports"].get("5432/tcp") is None
    run = running.ended()
    folder, _ = lab.newest()
    assert isinstance(read_run(folder, EXPERIMENTS), StoredRun)
    for cell in run["cells"]:
        assert (cell["sent"], cell["stored"], cell["lost"], cell["refused"]) == (MESSAGES, MESSAGES, 0, 0)
    # The table outlives the run.
    address = docker(
        "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", database
    ).strip()
    password = lab.password("database/reader")
    with psycopg.connect(host=address, dbname="twin", user="twin_reader", password=password) as reader:
        assert reader.execute("SELECT count(*) FROM message").fetchone() == (2 * MESSAGES,)
        assert reader.execute("SELECT device FROM twin_state").fetchall() == [(1,)]
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(host=address, dbname="twin", user="twin_reader", password="guessed")
    mounts = docker("inspect", "--format", "{{range .Mounts}}{{.Name}} {{end}}", database)
    (files,) = [name for name in mounts.split() if len(name) == 64]
    lab.run("down", code=0)
    assert files not in docker("volume", "ls", "--quiet")
