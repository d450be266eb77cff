"""The command line of the Docker engine."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from looplab.lab.checkout import Lab
from looplab.lab.image_names import BASE, BASE_IMAGE
from support.places import ROOT
from support.wire import call


def docker(*words: str, timeout_s: float = 120.0, given: str = "") -> str:
    """Return the stripped standard output of a docker command that must succeed; `given` is its input."""
    return call("docker", *words, timeout_s=timeout_s, cwd=ROOT, input=given)


def compose_services(*files: str, **variables: str) -> dict[str, dict[str, Any]]:
    """Return the services of every profile as Compose reads them with these variables."""
    command = ("docker", "compose", *files, "--profile", "*", "config", "--format", "json")
    environment = {**os.environ, "COMPOSE_ENV_FILES": ".env", **variables}
    return dict(json.loads(call(*command, cwd=ROOT, env=environment))["services"])


def base_image() -> str:
    """What this machine's images are built upon: Debian's own base, or what stands in for it."""
    return Lab(ROOT).settings().get(BASE) or BASE_IMAGE


def logs(container: str) -> str:
    """Return standard output and error together."""
    command = ["docker", "logs", container]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout


def copy_out(image: str, folder: Path, *paths: str) -> None:
    """Copy files of an image into `folder`."""
    container = docker("create", image)
    try:
        for path in paths:
            docker("cp", f"{container}:{path}", str(folder))
    finally:
        docker("rm", container)


def own_image(name: str, **options: str) -> str:
    """What .env and the shell call one of the lab's own images: the one that ./lab test's set-up made."""
    return Lab(ROOT, options).own_image(name)
