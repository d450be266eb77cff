"""The digital twin on the engine: its parts and their rights, its files, and plain Compose without a set-up."""

import json
import time

import psycopg
import pytest
from support.containers import docker
from support.e2e_lab import Lab
from support.hardening import judge_container
from support.run_checks import treatments
from support.tables import rows

from looplab.experiments.registry import EXPERIMENTS
from looplab.report.stored import StoredRun, read_run

MESSAGES = 60
PARTS = {"twin-broker", "twin-instance", "twin", "twin-database"}


def test_a_run_with_least_rights_stores_every_message(lab: Lab) -> None:
    lab.forget_runs()
    running = lab.start(
        "run", "twin", "--intervals", "20", "--messages", str(MESSAGES), "--write-mode", "prototype,copy", "--json"
    )
    running.wait_for("prototype")
    containers = lab.containers()
    assert containers.keys() >= PARTS
    for service, container in containers.items():
        judge_container(service, container)
    database = containers["twin-database"]
    assert json.loads(docker("inspect", database))[0]["NetworkSettings"]["Ports"].get("5432/tcp") is None
    code, output, progress = running.finish()
    (run,) = json.loads(output)["runs"]
    assert code == 0, (run["invalid_because"], progress)
    folder, _ = lab.newest()
    assert isinstance(read_run(folder, EXPERIMENTS), StoredRun)
    samples = rows(folder / "samples.csv")
    for cell in run["cells"]:
        mine = [row for row in samples if row["write_mode"] == cell["write_mode"]]
        assert [row["outcome"] for row in mine] == ["stored"] * MESSAGES
        assert (cell["sent"], cell["stored"], cell["lost"], cell["refused"]) == (MESSAGES, MESSAGES, 0, 0)
    # The published event loop sleeps 50 ms a message; no message of COPY waits for that.
    published, copy = run["cells"]
    assert published["rate_out_per_s"] < min(20, copy["rate_out_per_s"])
    # The table outlives the run.
    address = docker(
        "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", database
    ).strip()
    password = lab.password("database/reader")
    with psycopg.connect(host=address, dbname="twin", user="twin_reader", password=password) as reader:
        assert reader.execute("SELECT count(*) FROM message").fetchone() == (2 * MESSAGES,)
        assert reader.execute("SELECT device FROM twin_state").fetchall() == [(1,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("DELETE FROM message")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(host=address, dbname="twin", user="twin_reader", password="guessed")


def test_a_link_delays_what_the_device_sends(lab: Lab) -> None:
    """20 ms and 2 % loss each way: TCP brings back what is lost, and every message is stored, later."""
    lab.forget_runs()
    variables = {"TWIN_LINK": "on", "LINK_DELAY_MS": "20", "LINK_JITTER_MS": "2", "LINK_LOSS_PERCENT": "2"}
    words = ("run", "twin", "--intervals", "50", "--messages", "100", "--write-mode", "row", "--json")
    running = lab.start(*words, **variables)
    running.wait_for("row")
    judge_container("twin-link", lab.containers()["twin-link"])
    code, output, progress = running.finish()
    (run,) = json.loads(output)["runs"]
    assert code == 0, (run["invalid_because"], progress)
    judged = treatments(run)
    assert judged["link delay"]["verified"], judged["link delay"]
    assert judged["link emulation"]["found"] in ("netem", "nfqueue")
    (cell,) = run["cells"]
    assert (cell["sent"], cell["stored"], cell["lost"]) == (100, 100, 0)
    # One way at its least: the table of the normal distribution ends at four deviations.
    assert cell["storage_delay_us"]["min"] > (20 - 4 * 2) * 1000
    ways = {way["settings"]["direction"]: way for way in cell["links"]["ways"]}
    assert ways.keys() == {"egress", "ingress"}


def test_a_killed_central_machine_takes_both_brokers(own_lab: Lab) -> None:
    """200 messages in 2 s through two brokers of 15 a second: the machine is killed while both hold a queue."""
    own_lab.forget_runs()
    words = ("run", "twin-brokers", "--messages", "200", "--repetitions", "1", "--json", "--allow-invalid")
    # Nothing comes after the kill: the run need not wait long for it.
    parameters = own_lab.root / "compose/experiments/twin-brokers/params.env"
    parameters.write_text(parameters.read_text().replace("DRAIN_TIMEOUT_S=300", "DRAIN_TIMEOUT_S=5"))
    running = own_lab.start(*words, BROKERS="2", PLACEMENTS="central")
    running.wait_for("brokers central")
    time.sleep(2)
    docker("kill", own_lab.containers()["twin-brokers-central-2"])
    _code, output, _progress = running.finish(240)
    (run,) = json.loads(output)["runs"]
    (cell,) = run["cells"]
    assert not run["valid"]
    assert cell["sent"] == 200 == cell["stored"] + cell["lost"]
    assert all(0 < one["stored"] < one["sent"] - 20 for one in cell["per_broker"]), cell["per_broker"]


def test_plain_compose_runs_it_and_down_forgets_its_rows(lab: Lab) -> None:
    """Without a set-up: `prepare` makes the passwords."""
    lab.forget_runs()
    variables = {
        "INTERVALS_MS": "10", "MESSAGES": "50", "WRITE_MODE": "row",
        "PERSISTENCE": "on", "FIDELITY": "corrected",
    }  # fmt: skip
    lab.compose("--profile", "*", "down", code=0)
    lab.compose("--profile", "twin", "up", "--detach", code=0, **variables)
    lab.wait_for_end("twin")
    _, run = lab.newest()
    assert run["valid"], run["invalid_because"]
    assert run["cells"][0]["stored"] == 50
    mounts = docker("inspect", "--format", "{{range .Mounts}}{{.Name}} {{end}}", lab.containers()["twin-database"])
    (files,) = [name for name in mounts.split() if len(name) == 64]
    lab.run("down", code=0)
    assert files not in docker("volume", "ls", "--quiet")
