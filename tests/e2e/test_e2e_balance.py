"""The robot balances over the whole lab: it stands at 20 ms, falls at 100 ms, and takes another scenario's load."""

from support.e2e_lab import Lab
from support.run_checks import treatments

# Of 60 messages 20 and 100 ms apart; a robot that nobody holds lies after a second.
MESSAGES, STANDS_S, LIES_S = 60, 1.1, 3.0


def test_it_stands_at_20_ms_and_falls_at_100_ms(lab: Lab) -> None:
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
