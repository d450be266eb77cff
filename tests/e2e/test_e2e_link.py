"""The loop behind an emulated link: recorded as wanted and made, and missed when its emulator dies."""

from support.e2e_lab import Lab, needs_root
from support.run_checks import treatments

# The wifi model's two ways at their least (the table ends at four deviations); the loop's own part comes on top.
LEAST_O_US = 2 * (4.2 - 4 * 0.25) * 1000


def test_the_wifi_link_is_there_and_recorded(lab: Lab) -> None:
    done = lab.run(
        "run", "scenario0", "--quick", "--messages", "50", "--link", "wifi", "--fidelity", "corrected", "--json"
    )
    run = lab.stored(done.stdout)
    link = treatments(run)["link"]
    assert run["valid"], run["invalid_because"]
    assert done.returncode == 0
    assert link["wanted"].startswith("wifi: egress 4.2 ms, normal 0.25 ms")
    assert link["found"].partition(":")[0] in ("nfqueue", "netem")
    assert [way["settings"]["direction"] for way in run["link"]["links"]] == ["egress", "ingress"]
    assert run["link"]["rtt_ms"]["broker"]["n"]
    assert run["cells"][0]["O_us"]["min"] > LEAST_O_US
    assert "link" not in lab.containers(running=False)


@needs_root
def test_a_killed_emulator_makes_the_run_invalid(lab: Lab) -> None:
    running = lab.start(
        "run", "scenario0", "--intervals", "20", "--messages", "50", "--repetitions", "3", "--link", "wifi", "--json",
        "--allow-invalid",
    )  # fmt: skip
    running.wait_for("20 ms, QoS 0")
    lab.kill_process("link")
    code, output, _said = running.finish()
    run = lab.stored(output)
    # Who allows it gets 0, and the run is invalid all the same.
    assert (code, run["valid"]) == (0, False)
    assert run["invalid_because"] == ["link: wanted wifi, found not emulated to the end"]
    assert run["cells"][0]["answered"] + run["cells"][0]["late"] == 150
