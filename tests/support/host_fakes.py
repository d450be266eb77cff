"""Stand-ins for the programs of the host: each answers as the real one was seen to answer."""

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Answer = tuple[str, str, int]
REAL_PATH = os.environ["PATH"]

# Recorded from Docker 28.2.2 (client) and 20.10.24 (engine); fields the lab does not read are left out.
COMPOSE_PLUGIN = {"Name": "compose", "Version": "2.26.1-4", "Path": "/usr/local/lib/docker/cli-plugins/docker-compose"}
SERVER: dict[str, Any] = {
    "ID": "3SR4:7BBZ:KJV6:ZAEQ:JVBA:67KI:IUDU:C6XJ:RZ32:CFZB:VF6N:5TJZ",
    "CgroupDriver": "cgroupfs",
    "CgroupVersion": "1",
    "KernelVersion": "6.18.44",
    "OperatingSystem": "Debian GNU/Linux 12 (bookworm)",
    "Architecture": "x86_64",
    "ServerVersion": "20.10.24+dfsg1",
    "SecurityOptions": ["name=seccomp,profile=default"],
}
NO_SERVER: dict[str, Any] = {"ID": "", "ServerVersion": "", "SecurityOptions": None}
NO_ANSWER_TEXT = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
NO_RIGHTS_TEXT = "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"
RTPRIO_REFUSED = (
    "docker: Error response from daemon: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: error setting rlimits for ready process: "
    "error setting rlimit type 14: operation not permitted: unknown\n\nRun 'docker run --help' for more information\n"
)


def client(plugins: list[dict[str, str]] | None = None) -> dict[str, Any]:
    return {"Version": "28.2.2", "Context": "default", "Plugins": [COMPOSE_PLUGIN] if plugins is None else plugins}


def good_info(**changes: Any) -> Answer:
    """What `docker info --format '{{json .}}'` prints where all is well."""
    return json.dumps({**SERVER, "ClientInfo": client(), **changes}), "", 0


def broken_info(complaint: str, **changes: Any) -> Answer:
    """Current clients complain on standard error and exit 1."""
    return json.dumps({**NO_SERVER, "ClientInfo": client(), **changes}), complaint + "\n", 1


def broken_info_20_10(complaint: str) -> Answer:
    """Clients of 20.10 exit 0 and complain inside the document."""
    document = {"ServerErrors": [complaint], "ClientInfo": {"Context": "default", "Plugins": [COMPOSE_PLUGIN]}}
    return json.dumps(document), "", 0


class Programs:
    """A folder that is the whole PATH; every call is written down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def add(self, name: str, answers: Mapping[str, Answer]) -> None:
        """`answers` maps a shell pattern over all arguments, tried in order, to stdout, stderr and exit code."""
        script = ['case "$*" in']
        for number, (pattern, (stdout, stderr, code)) in enumerate(answers.items()):
            out, err = self.folder / f".{name}.{number}.out", self.folder / f".{name}.{number}.err"
            out.write_text(stdout)
            err.write_text(stderr)
            script.append(f"{pattern}) /bin/cat {shlex.quote(str(out))}; /bin/cat {err} >&2; exit {code} ;;")
        self.script(name, *script, f'*) echo "fake {name}: not foreseen: $*" >&2; exit 99 ;;', "esac")

    def borrow(self, *names: str) -> None:
        """Take the real programs of these names."""
        for name in names:
            (self.folder / name).symlink_to(shutil.which(name, path=REAL_PATH) or name)

    def script(self, name: str, *lines: str) -> None:
        """Add a shell script that also writes down its calls."""
        path = self.folder / name
        path.write_text("\n".join(["#!/bin/sh", f'printf "%s\\n" "$*" >> {self._log(name)}', *lines, ""]))
        path.chmod(0o755)

    def calls(self, name: str) -> list[str]:
        log = self._log(name)
        return log.read_text().splitlines() if log.exists() else []

    def _log(self, name: str) -> Path:
        return self.folder / f".{name}.log"


_DOCKER = r"""
place() { printf '%s' "$here/$1/$(printf '%s' "$2" | /usr/bin/tr '/:@' '___')"; }
fails() { [ -e "$here/fails-$1" ] || return 1; /bin/cat "$here/fails-$1"; /bin/cat "$here/fails-$1" >&2; }
for last; do :; done
case "$1 $2" in
"image inspect")
    if [ "$3" = --format ]; then
        shift 4
        for name; do
            case "$name" in *:*) ;; *) name="$name:latest" ;; esac
            read -r repository tag digest id origin <"$(place images "$name")" || continue
            [ "$digest" = "<none>" ] && pulled= || pulled="\"$repository@$digest\""
            printf '["%s"]\t[%s]\t%s\t%s\tamd64\t%s\n' "$repository:$tag" "$pulled" "$origin" "$id" "$id"
        done 2>/dev/null
        exit 0
    fi
    [ -e "$(place images "$last")" ] || { echo "No such image: $last" >&2; exit 1; }
    ;;
"image ls")
    /bin/cat "$here"/images/* 2>/dev/null | while read -r repository tag _ id _; do echo "$repository:$tag $id"; done
    ;;
"pull "*)
    echo "layer: Pulling fs layer"
    /bin/mv "$(place registry-has "$last")" "$(place images "$last")" 2>/dev/null && exit
    /bin/cat "$here/registry" >&2
    exit 1
    ;;
"build "*)
    fails build && exit 1
    printf 'Step 1/1 : FROM x\nSuccessfully tagged %s\n' "$3"
    echo "${3%:*} ${3##*:} <none> sha256:built" >"$(place images "$3")"
    ;;
"compose "*)
    fails compose && exit 1
    case "$*" in *" config "*) /bin/cat "$here/config" ;; esac
    case "$*" in *" build"*) /bin/mv "$here"/compose-builds/* "$here/images/" 2>/dev/null ;; esac
    ;;
"load --quiet")
    fails load && exit 1
    /bin/cp "$last" "$here/loaded"
    /bin/mv "$here"/load-brings/* "$here/images/" 2>/dev/null
    ;;
"version "*) echo linux/amd64 ;;
"save "*) fails save && exit 1; /bin/cat "$here/payload" ;;
esac
exit 0
"""
SILENT = 'Error response from daemon: Get "https://registry.test/v2/": dial tcp: lookup registry.test: no such host\n'
ANSWERS = "Error response from daemon: manifest for debian@sha256:0000 not found: manifest unknown\n"


class Docker:
    """An engine that keeps images: which it has, which a registry gives, what it was asked for."""

    def __init__(self, programs: Programs) -> None:
        self.place = programs.folder / ".docker"
        self._programs = programs
        for name in ("images", "registry-has", "compose-builds", "load-brings"):
            (self.place / name).mkdir(parents=True)
        self.registry(answers=False)
        self.compose_reads({})
        programs.script("docker", f"here={self.place}", _DOCKER)

    def registry(self, *, answers: bool) -> None:
        """Whether the registries answer."""
        (self.place / "registry").write_text(ANSWERS if answers else SILENT)

    def has(self, *names: str, digest: str = "", content: str = "", origin: str = "") -> None:
        """Put images there; their id is `sha256:`, the name and `content`, `origin` their label."""
        self._put("images", names, digest, f"{content} {origin}".rstrip())

    def lost(self, name: str) -> None:
        """Remove an image."""
        self._file("images", name).unlink()

    def gives(self, *names: str) -> None:
        """Let the registry give images."""
        self.registry(answers=True)
        self._put("registry-has", names, "")

    def compose_reads(self, services: Mapping[str, Any]) -> None:
        """Let Compose read these services in its files."""
        (self.place / "config").write_text(json.dumps({"services": services}))

    def compose_builds(self, *names: str) -> None:
        """Let the next build by Compose make images."""
        self._put("compose-builds", names, "")

    def load_brings(self, *names: str) -> None:
        """Let the next load make images, whatever its file says."""
        self._put("load-brings", names, "", "loaded")

    def fails(self, command: str, said: str) -> None:
        """Let build, compose, load or save fail with these words."""
        (self.place / f"fails-{command}").write_text(said)

    def calls(self, command: str = "") -> list[str]:
        """What it was called with, of one command or all."""
        return [call for call in self._programs.calls("docker") if call.startswith(command)]

    def built(self) -> list[str]:
        """The tags of what was built by `docker build`, in the order of the calls."""
        return [call.split()[2] for call in self.calls("build")]

    def _put(self, folder: str, names: tuple[str, ...], digest: str, content: str = "") -> None:
        for name in names:
            tagged, _, pinned = name.partition("@")
            repository, _, tag = tagged.rpartition(":")
            line = f"{repository} {'<none>' if pinned else tag} {pinned or digest or '<none>'} sha256:{name}{content}\n"
            self._file(folder, name).write_text(line)

    def _file(self, folder: str, name: str) -> Path:
        return self.place / folder / re.sub("[/:@]", "_", name)
