"""The other ways into the lab: a bare up, a scenario of one's own behind a link, the corrected fidelity, balance."""

import json

from support.e2e_lab import Lab
from support.run_checks import check_run, total, treatments

# The wifi model's two ways at their least (the table ends at four deviations); the loop's own part comes on top.
LEAST_O_US = 2 * (4.2 - 4 * 0.25) * 1000
# Of 60 messages 20 and 100 ms apart; a robot that nobody holds lies after a second.
MESSAGES, STANDS_S, LIES_S = 60, 1.1, 3.0


def test_a_new_scenario_is_listed_and_runnable(own_lab: Lab) -> None:
    """A bare up lists it and starts the core services; its files may have the line ends of Windows.

    The link that it runs behind is there and recorded.
    """
    made = own_lab.run("new", "scenario91", code=0)
    assert "./lab run scenario91" in made.stdout
    for name in (".env", "compose/scenarios/scenario91/params.env", "compose/loop.yaml", "compose/observe.yaml"):
        path = own_lab.root / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    up = own_lab.compose("up", timeout_s=60, code=0)
    for number in (*range(9), 91):
        assert f"scenario{number}," in up.stdout
    assert "Stop all: docker compose --profile '*' down" in up.stdout
    core = {"treatments", "exporter", "prometheus"}
    assert core <= own_lab.containers().keys() <= core | {"pages", "grafana"}

    words = ("--quick", "--messages", "25", "--link", "wifi", "--fidelity", "corrected")
    ran = own_lab.run("run", "scenario91", *words, code=0)
    folder, run = own_lab.newest()
    check_run(folder, run)
    assert run["scenario"] == "scenario91"
    assert "VALID" in ran.stdout
    link = treatments(run)["link"]
    assert link["wanted"].startswith("wifi: egress 4.2 ms, normal 0.25 ms")
    assert link["found"].partition(":")[0] in ("nfqueue", "netem")
    assert [way["settings"]["direction"] for way in run["link"]["links"]] == ["egress", "ingress"]
    assert run["link"]["rtt_ms"]["broker"]["n"]
    assert run["cells"][0]["O_us"]["min"] > LEAST_O_US
    assert "link" not in own_lab.containers(running=False)


# Stress takes the processors on purpose: a message may come later than its deadline.
def test_corrected_runs_with_priority_and_without_nagle(lab: Lab) -> None:
    ran = lab.run("run", "scenario5", "--quick", "--fidelity", "corrected")
    # Another code would mean that there is no run of it.
    assert ran.returncode in (0, 1), ran.stderr
    folder, run = lab.newest()
    check_run(folder, run)
    found = treatments(run)
    for part in ("broker", "controller", "bridge"):
        assert found[f"{part} TCP_NODELAY"]["found"] == "on"
    assert found["robot framing"]["found"] == "line"
    assert run["bridge"]["counts"]["merged"] == 0
    assert total(run, "lost") == 0
    assert run["fidelity"] == "corrected"
    checks = {check["name"]: check["state"] for check in json.loads(lab.run("doctor", "--json").stdout)["checks"]}
    if checks["SCHED_FIFO"] != "ok":
        # The treatment did not take: the run must not pretend that it did.
        assert (ran.returncode, run["valid"]) == (1, False)
        return
    assert ran.returncode == 0, ran.stderr
    for part in ("broker", "controller"):
        assert found[f"{part} may use real-time priority"]["found"].startswith("granted")
    assert found["broker scheduling policy"]["found"] == "SCHED_FIFO 90"
    assert found["controller scheduling policy"]["found"] == "SCHED_FIFO 99"


def test_a_robot_stands_at_20_ms_and_falls_at_100_ms(lab: Lab) -> None:
    """With the parts and treatments of scenario5, whose stress may let it fall at 20 ms as well."""
    words = ("run", "balance", "--as", "scenario5", "--fidelity", "corrected", "--gains=-3.4,-10,-11.9,-1", "--json")
    sweep = ("--intervals", "100,20", "--messages", str(MESSAGES), "--order", "published")
    # Not every engine lets a container have the priority, and the other tests may leave the stress too little.
    found = lab.stored(lab.run(*words, *sweep, "--allow-invalid", code=0, APPLY_PRIORITY="off").stdout)
    assert (found["experiment"], found["scenario"]) == ("balance", "balance-scenario5")
    assert found["parameters"]["gains"] == [-3.4, -10, -11.9, -1]
    assert treatments(found)["stress load"]["found"] == "running"
    assert (found["parameters"]["priority_broker"], found["parameters"]["priority_controller"]) == (90, 99)
    long, short = found["cells"]
    assert (long["interval_ms"], short["interval_ms"]) == (100, 20)
    assert long["upright_s"] < LIES_S
    # A pause of the machine lets it fall as well: the newest angle is then as old.
    held = short["age_us"]["max"] < 60_000
    assert short["upright_s"] > STANDS_S or not held
    assert short["angle_rms_rad"] < 0.17 or not held
    assert 0 < short["age_ms"] < short["age_us"]["max"] / 1000
    assert short["upright_s"] <= short["seconds"]
