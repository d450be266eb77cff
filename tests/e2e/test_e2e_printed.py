"""The thesis's own clients, as a person types them: programs of their own, through the host's published port."""

from support.e2e_lab import Lab
from support.run_checks import treatments


def test_printed_clients_are_found_as_printed(lab: Lab) -> None:
    done = lab.run("run", "scenario1", "--quick", "--messages", "50", "--qos", "2", "--fidelity", "printed", "--json")
    run = lab.stored(done.stdout)
    assert run["valid"], run["invalid_because"]
    found = {what: treatment["found"] for what, treatment in treatments(run).items()}
    # A process of each for each repetition, and what the broker sees is the engine's proxy, or the kernel's own way.
    assert found["client processes"] == "2"
    assert found["clients path to the broker"].startswith("port")
    assert found["clients' threads"] == "2 each"
    assert (found["robot framing"], found["answer pairing"]) == ("raw", "count")
    # Python 2.7, or 3 with a note where the image has none.
    clients = treatments(run)["clients' interpreter"]
    assert clients["found"].startswith("Python 2.7") or clients["note"]
    for cell in run["cells"]:
        assert cell["client_O_us"]["n"] > 0
        assert cell["client_O_us"]["avg"] > cell["O_us"]["avg"]
