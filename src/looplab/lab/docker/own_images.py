"""Have the lab's own images: from the registry that .env names for them, else built from this checkout."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from looplab.lab.docker.builds import build_all, own_build_command
from looplab.lab.docker.images import Images, images_of, remove_replaced
from looplab.lab.image_names import BASE_IMAGE, STAND_INS, is_published, repository_of
from looplab.lab.settings import project_name
from looplab.system.terminal import say

# Containers run these rooms; .dockerignore keeps out the others.
IN_IMAGES = ("capture", "experiments", "exporter", "link", "metrics", "mqtt", "run", "spec", "system", "treatments")
SOURCES = {
    "src/looplab": "*.py",
    **dict.fromkeys((f"src/looplab/{room}" for room in IN_IMAGES), "**/*.py"),
    "src": "looplab/experiments/*/report/published/thesis_tables.csv",
    **dict.fromkeys(("images", "firmware"), "**/*"),
}
REPORT_SOURCES = {"src": "**/*", "images/report": "*"}
# Debian and other systems keep the trusted authorities in these files.
HOST_AUTHORITIES = "host-ca.pem"
AUTHORITIES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
STAMP = Path(".cache/images.sha256")


@dataclass(frozen=True)
class OwnImages:
    """Images, each with the service that builds it; `profiles` have these services.

    `sources` holds patterns of the files that they are built from, by folder, `wraps` the other image whose program
    one of them holds.
    """

    root: Path
    images: Mapping[str, str]
    profiles: Sequence[str]
    sources: Mapping[str, str] = field(default_factory=lambda: SOURCES)
    wraps: Mapping[str, str] = field(default_factory=dict)

    def have(self, others: Images, chosen: Mapping[str, str]) -> None:
        """Pull those that are missing, else build them, beside the stand-ins that `others` still needs.

        Compose gets the options `chosen`: they choose the broker's file, and with it what is built.
        """
        self._fetch(others)
        for note in others.notes:
            say(note)
        builds, must_build = {**others.builds}, self.must_build(others.base)
        if must_build:
            others.ensure_base()
            share_authorities(self.root)
            builds["the lab's images"] = own_build_command(self.images.values(), self.profiles)
        if builds:
            decided = {name: value for name, value in others.variables.items() if not os.environ.get(name)}
            build_all(self.root, builds, {**decided, **chosen})
        if must_build:
            self.write_stamp()
            remove_replaced(project_name(self.root))

    def _fetch(self, others: Images) -> None:
        """Pull the published images that are missing; if one is not available, all will be built."""
        published = {*filter(is_published, self.images)}
        # Without a registry the engine is not asked.
        missing = published and sorted(published - images_of(published).keys())
        for reference in missing:
            if not others.pull(reference):
                because = others.why_not(reference)
                others.notes.append(f"The lab's own images are those of this checkout, not published ones: {because}.")
                return
        if missing and not self.images.keys() - images_of(self.images.keys()).keys():
            self.write_stamp()

    def must_build(self, base: str = BASE_IMAGE) -> bool:
        """Return whether images must be built; without `base` and its stand-in, only missing ones count."""
        here = self._stamps()
        missing = len(here) < len(self.images)
        old = not here.items() <= read_stamps(self.root).items()
        return missing or (old and bool(images_of([base, STAND_INS[repository_of(BASE_IMAGE)]])))

    def write_stamp(self) -> None:
        """Record the ids of the images that are built from the sources as they are now."""
        add_stamps(self.root, self._stamps())

    def _stamps(self) -> dict[str, str]:
        """Return sources and id of each image that is here: another checkout may build other sources under its name."""
        sources = digest_of(self.root, files_of(self.root, self.sources))
        here = images_of({*self.images, *filter(None, self.wraps.values())})
        wrapped = {name: f"+{here[one].content}" for name, one in self.wraps.items() if one in here}
        return {name: f"{sources}{wrapped.get(name, '')} {here[name].id}" for name in self.images.keys() & here}


def files_of(root: Path, sources: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files of `sources`, patterns by folder."""
    for source, pattern in sources.items():
        for path in sorted((root / source).glob(pattern)):
            if path.is_file() and path.name != HOST_AUTHORITIES and "__pycache__" not in path.parts:
                yield path


def digest_of(root: Path, paths: Iterable[Path], read: Callable[[Path], bytes] = Path.read_bytes) -> str:
    """Return a digest of the names of files and of what `read` returns of each."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(str(path.relative_to(root)).encode() + b"\0" + read(path))
    return digest.hexdigest()


def share_authorities(root: Path) -> None:
    """Copy the host's certificate authorities to the images that fetch modules: a proxy may inspect TLS."""
    bundles = [Path(name) for name in (os.environ.get("SSL_CERT_FILE", ""), *AUTHORITIES) if name]
    bundle = next((path for path in bundles if path.is_file()), None)
    for modules in [*(root / "images").glob("*/modules"), *(root / "images").glob("*/go.sum")]:
        copy = modules.with_name(HOST_AUTHORITIES)
        if bundle is not None and not (copy.exists() and copy.read_bytes() == bundle.read_bytes()):
            shutil.copyfile(bundle, copy)


def read_stamps(root: Path) -> dict[str, str]:
    """Return the stamp of each image; {} where the file is missing or no such list."""
    try:
        stamps = json.loads((root / STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return stamps if isinstance(stamps, dict) else {}


def add_stamps(root: Path, stamps: Mapping[str, str]) -> None:
    """Record from which sources images were built: none is built again from the same ones."""
    (root / STAMP).parent.mkdir(exist_ok=True)
    (root / STAMP).write_text(json.dumps({**read_stamps(root), **stamps}, indent=1))
