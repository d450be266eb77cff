"""./lab new: make a scenario of your own, listed and runnable at once; or an application from a template."""

import re
import shutil
from pathlib import Path

from looplab.errors import EXIT_GOOD, UsageError
from looplab.lab.scenarios import ALIASES, FOLDER, LOOP_FILE, TEMPLATE, scenarios

# Git ignores this folder.
APPLICATIONS = "my"
# A new scenario starts the parts of this one unless another is named: no load, no priority.
PLAIN = "scenario1"
# These overlays list every controller; a new one gets the anchor that is named beside the file.
ALIKE = {
    "compose/printed.yaml": "printed",
    "compose/port.yaml": "port",
    "compose/own-client.lab.yaml": "own",
    "compose/own-client.image.lab.yaml": "own",
}
_NAME = re.compile(r"[a-z][a-z0-9-]{1,30}")
_LINE = "  {name}: {{<<: {parts}, profiles: [{name}], env_file: [*default, scenarios/{name}/params.env]}}\n"


def new(root: Path, name: str, source: str = PLAIN) -> Path:
    """Make compose/scenarios/<name>, which starts and asks what the scenario `source` does; return the folder.

    Raises LabError (exit code 2) if the name is taken or not one that Compose accepts, or if there is no such source.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a scenario's name.", "Use 2 to 31 lower-case letters, digits and -, a letter first."
        )
    known = scenarios(root)
    if source not in known:
        raise UsageError(f"There is no scenario {source!r}.", f"Known are: {', '.join(known)}.")
    folder, loop = root / FOLDER / name, root / LOOP_FILE
    paths = [*(root / "compose").glob("*.yaml"), *(root / "compose/experiments").glob("*/compose.yaml")]
    files = {path: path.read_text(encoding="utf-8") for path in paths}
    if (
        folder.exists()
        or name in ALIASES
        or any(re.search(rf"^  {name}:", text, re.MULTILINE) for text in files.values())
    ):
        raise UsageError(f"There is a scenario or a part {name} already.", "Choose another name, or edit that one.")
    # Compute all changes before writing any: a failure leaves the lab as it was.
    changed = {path: _started(text, source, name) for path, text in files.items()}
    changed[loop] = _listed(changed.get(loop, ""), source, name)
    for file, anchor in ALIKE.items():
        if root / file in changed:
            changed[root / file] += f"  {name}: *{anchor}\n"
    folder.mkdir(parents=True)
    for path in sorted((root / FOLDER / TEMPLATE).iterdir()):
        text = path.read_text(encoding="utf-8").replace("@NAME@", name).replace("@TITLE@", name)
        (folder / path.name).write_text(text, encoding="utf-8")
    own = (root / FOLDER / source / "params.env").read_text(encoding="utf-8").splitlines()
    asked = [line for line in own if line and line.partition("=")[0] not in ("SCENARIO", "TITLE", "PUBLISHED")]
    with (folder / "params.env").open("a", encoding="utf-8") as params:
        params.writelines(f"{line}\n" for line in asked)
    for path, text in changed.items():
        if text != files[path]:
            path.write_text(text, encoding="utf-8")
    return folder


def _started(text: str, source: str, name: str) -> str:
    """Return a Compose file in which `name` starts all that the profile `source` starts, except its controller."""
    listed = rf"^(?!  {source}:)(.*profiles: (?:&\S+ )?\[(?:[^\]]*[ ,])?{source})(?![\w-])"
    return re.sub(listed, rf"\1, {name}", text, flags=re.MULTILINE)


def _listed(text: str, source: str, name: str) -> str:
    """Return loop.yaml with the new controller's line behind that of `source`."""
    like = re.search(rf"^  {source}: \{{<<: (.+?), profiles: .*params\.env\]\}}\n", text, re.MULTILINE)
    if like is None:
        raise UsageError(f"{LOOP_FILE} has no line of {source} to follow.", f"Restore it: git checkout {LOOP_FILE}")
    return text[: like.end()] + _LINE.format(name=name, parts=like[1]) + text[like.end() :]


def new_application(root: Path, experiment: str, name: str) -> Path:
    """Copy the template of an experiment to my/<name>; return the folder. Raises LabError (exit code 2)."""
    template, folder = root / f"compose/experiments/{experiment}/template", root / APPLICATIONS / name
    if not _NAME.fullmatch(experiment) or not template.is_dir():
        raise UsageError(f"{experiment!r} has no template of an application.", "Leave out one of both names.")
    if not _NAME.fullmatch(name) or folder.exists():
        why = "is there already" if folder.exists() else "cannot be its name"
        raise UsageError(
            f"{APPLICATIONS}/{name} {why}.", "Use 2 to 31 lower-case letters, digits and -, a letter first."
        )
    return Path(shutil.copytree(template, folder))


def command(root: Path, name: str, application: str = "", source: str = PLAIN) -> int:
    """Make a scenario or an application and print what comes next; return the exit code."""
    if application:
        folder = new_application(root, name, application).relative_to(root)
        variable = f"{name.upper()}_APPLICATION={folder}/compose.yaml"
        print(f"{folder} is there. Put your services into it, then: {variable} ./lab run {name}")
        return EXIT_GOOD
    folder = new(root, name, source)
    print(
        f"{folder.relative_to(root)} is there, and its name in {LOOP_FILE}.\n"
        f"Edit its files, then scripts/make-handouts and ./lab run {name}. Another load: move its name in\n"
        f"{LOOP_FILE}, and set LOAD in params.env."
    )
    return EXIT_GOOD
