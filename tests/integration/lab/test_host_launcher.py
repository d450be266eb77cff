"""./lab itself: it finds its folder and a Python, and never spoils standard output."""

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pip
import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab.lab import virtual_environment

CLI = """import os, sys
print("arguments", sys.argv[1:])
print("python", sys.executable)
print("path", os.environ["PYTHONPATH"])
raise SystemExit(7)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout whose cli prints how it was started."""
    root = tmp_path / "a folder"
    (root / "src/looplab/lab").mkdir(parents=True)
    shutil.copy(ROOT / "lab", root / "lab")
    shutil.copy(ROOT / "pyproject.toml", root / "pyproject.toml")
    source = ROOT / "src/looplab/lab/virtual_environment.py"
    shutil.copy(source, root / "src/looplab/lab/virtual_environment.py")
    (root / "src/looplab/__init__.py").touch()
    (root / "src/looplab/lab/cli.py").write_text(CLI)
    return root


@pytest.fixture(scope="module")
def plain_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python environment with this one's pip and no package, made once."""
    place = tmp_path_factory.mktemp("environment") / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, capture_output=True)
    (packages,) = place.glob("lib/python*/site-packages")
    shutil.copytree(Path(pip.__file__).parent, packages / "pip")
    return place


@pytest.fixture
def begun_checkout(checkout: Path, plain_environment: Path) -> Path:
    """A checkout whose environment has no package yet, as an interrupted first use leaves it."""
    shutil.copytree(plain_environment, checkout / ".venv", symlinks=True, copy_function=os.link)
    return checkout


def surroundings() -> dict[str, str]:
    """The environment of a user whose package index is out of reach: nothing here may depend on it."""
    # This Python itself: a version manager's wrapper takes longer than what ./lab does.
    path = f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name != "PIP_FIND_LINKS"}
    return {**kept, "PATH": path, "PIP_NO_INDEX": "1"}


def launch(command: list[str], **changes: str) -> subprocess.CompletedProcess[str]:
    environment = {**surroundings(), "PIP_INDEX_URL": "http://127.0.0.1:9/simple", **changes}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd="/", timeout=120)


@pytest.mark.parametrize("command", ["run", "setup", "doctor", "down", "load", "test"])
def test_most_commands_need_no_package_and_make_no_environment(checkout: Path, command: str) -> None:
    link = checkout.parent / "link"
    link.symlink_to(checkout / "lab")
    done = launch([str(link), command, "two words"])
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout.splitlines()[0] == f"arguments ['{command}', 'two words']"
    assert f"path {checkout / 'src'}" in done.stdout
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize(("command", "package"), [("watch", "rich"), ("report", "matplotlib"), ("check", "pandas")])
def test_without_an_index_what_needs_packages_says_which(begun_checkout: Path, command: str, package: str) -> None:
    done = launch([str(begun_checkout / "lab"), command])
    assert done.returncode == 3
    assert done.stdout == ""
    assert f"./lab {command} cannot start" in done.stderr
    assert f"{package}==" in done.stderr


def put_wheel(place: Path, tag: str) -> None:
    """Write a wheel of the one package that ./lab watch needs, with nothing in it but its name."""
    name, _, version = virtual_environment.requirements("watch")[0].partition("==")
    place.mkdir(parents=True)
    with zipfile.ZipFile(place / f"{name}-{version}-{tag}.whl", "w") as wheel:
        described = f"{name}-{version}.dist-info"
        wheel.writestr(f"{name}.py", "bundled = True\n")
        wheel.writestr(f"{described}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{described}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        wheel.writestr(f"{described}/RECORD", "")


def test_the_packages_of_a_bundle_are_taken_where_they_fit(begun_checkout: Path) -> None:
    checkout = begun_checkout
    wheels = checkout / ".cache/wheels"
    put_wheel(wheels, "py3-none-any")
    done = launch([str(checkout / "lab"), "watch"])
    assert f"python {checkout}/.venv/bin/python" in done.stdout, done.stderr
    held = launch([str(checkout / ".venv/bin/python"), "-c", "import rich; print(rich.bundled)"])
    assert held.stdout == "True\n"
    shutil.rmtree(wheels)
    put_wheel(wheels, "cp27-cp27m-win32")
    refused = launch([str(checkout / "lab"), "report"])
    assert refused.returncode == 3
    assert "packages do not fit this Python" in refused.stderr


def test_many_first_uses_at_once(begun_checkout: Path) -> None:
    checkout = begun_checkout
    put_wheel(checkout / ".cache/wheels", "py3-none-any")
    command = [str(checkout / "lab"), "watch"]
    running = [subprocess.Popen(command, env=surroundings(), stdout=-1, stderr=-1, text=True) for _ in range(3)]
    ended = [(process.communicate(timeout=120), process.returncode) for process in running]
    assert [code for _, code in ended] == [7, 7, 7]
    assert sum("getting the Python packages" in err for (_, err), _ in ended) == 1


def test_no_python(checkout: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("head", "grep", "printf", "dirname", "readlink"):
        (tools / name).symlink_to(str(shutil.which(name)))
    for found in ("none", "Python 3.10.12"):
        done = launch(["/bin/sh", str(checkout / "lab")], PATH=str(tools))
        assert (done.returncode, done.stdout) == (3, "")
        assert f"Python 3.11 or later is needed; {found} was found." in done.stderr
        assert "Ubuntu 22.04: sudo apt-get install python3.11 python3.11-venv" in done.stderr
        assert max(map(len, done.stderr.splitlines())) <= 80
        # Ubuntu 22.04's own.
        old = tools / "python3"
        old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.10.12\n')
        old.chmod(0o755)


def test_windows_line_ends_are_named(checkout: Path) -> None:
    lab = checkout / "lab"
    lab.write_bytes(lab.read_bytes().replace(b"\n", b"\r\n"))
    done = launch(["sh", str(lab)])
    assert done.returncode == 3
    assert "Windows line ends" in done.stderr


@pytest.fixture
def copied(checkout: Path) -> ModuleType:
    """Return the module of that name as its checkout imports it, with a Python in `.venv`."""
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/bin/python").symlink_to(sys.executable)
    spec = spec_from_file_location("copied", checkout / "src/looplab/lab/virtual_environment.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_ready_environment_is_used_until_a_pin_changes(
    copied: ModuleType, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(kind: str) -> None:
        copied.stamp(kind).write_text(copied.fingerprint(kind))

    make("watch")
    assert copied.ensure_environment("watch") == ""
    assert capsys.readouterr().err == ""
    assert not copied.is_ready("test")
    text = (checkout / "pyproject.toml").read_text()
    (checkout / "pyproject.toml").write_text(text + "\n# a remark\n")
    assert copied.is_ready("watch")
    (checkout / "pyproject.toml").write_text(text.replace("rich==", "rich==0."))
    assert not copied.is_ready("watch")
    # The largest one serves every command.
    make("test")
    assert copied.is_ready("watch")
    assert set(copied.requirements("report")) < set(copied.requirements("test"))


def test_debians_incomplete_venv_is_named_where_it_cannot_be_installed(
    copied: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = fakes.Programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(programs.folder))
    for module in ("pip", "ensurepip"):
        (tmp_path / f"{module}.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    # Not root's host: scripts/install-packages refuses.
    programs.borrow("dirname", "sh")
    programs.script("apt-get")
    programs.add("id", {"-u": ("1000\n", "", 0)})
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    wanted = f"Python's venv module is incomplete: sudo apt-get install python{version}-venv"
    assert copied.make_environment("watch") == wanted
    assert (programs.calls("id"), programs.calls("apt-get")) == (["-u"], [])
