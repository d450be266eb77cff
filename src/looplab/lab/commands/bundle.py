"""./lab bundle and ./lab load: all images in one archive, for a room without a network."""

from collections.abc import Sequence
from pathlib import Path

from looplab import __version__
from looplab.errors import EXIT_GOOD, LabError, MachineError, UsageError
from looplab.lab.bundle_file import load_bundle, sha256_of, write_bundle
from looplab.lab.checkout import Lab
from looplab.lab.class_archives import write_archives
from looplab.lab.docker.engine import find_engine, require_compose
from looplab.lab.docker.images import images_of, in_place
from looplab.lab.docker.own_images import add_stamps, read_stamps
from looplab.lab.image_names import is_pinned, without_digest
from looplab.lab.programs import call
from looplab.lab.scenarios import chosen, every
from looplab.lab.settings import read_machine_file, write_machine_file
from looplab.system.terminal import say


def bundle(root: Path, file: Path, scenarios: Sequence[str], *, students: bool = False) -> int:
    """Write the images of `scenarios` (none: of all) to `file`.

    For a class (`students`), write two archives of this checkout beside it: one without answers and marking.
    """
    named = chosen(root, scenarios)
    if file.is_dir() or not file.parent.is_dir():
        raise UsageError(f"{file} cannot be written.", "Name a file in a folder that exists.")
    wanted = named or list(every(root).values())
    lab = Lab(root, scenarios=wanted)
    lab.make_ready()
    ours, upstream = lab.images()
    references = tag_pinned([*ours, *upstream.values(), lab.ready_report()])
    facts = {
        "lab": __version__,
        "profiles": [scenario.name for scenario in named] or ["all"],
        "stamps": {name: stamp for name, stamp in read_stamps(root).items() if name in references},
    }
    manifest = write_bundle(file, references, facts)
    say(f"{file}: {len(manifest['images'])} images, {file.stat().st_size / 1e6:.0f} MB.")
    say(f"Images for {manifest['architecture']}. On the other machine:")
    say(f"./lab load {file.name} --sha256 {sha256_of(file)}")
    if students:
        for_students, for_teachers = write_archives(root, file)
        say(f"{for_students}: this checkout without answers and marking. {for_teachers}: only those.")
    return EXIT_GOOD


def load(root: Path, file: Path, sha256: str = "") -> int:
    """Load an undamaged bundle of this kind of machine; return the exit code.

    With `sha256` the file must be the one of that digest.
    """
    require_compose(find_engine())
    digest = sha256_of(file)
    say(f"SHA-256 {digest}")
    if sha256 and sha256.strip().lower() != digest:
        raise LabError(f"{file} is not the bundle of that SHA-256. Nothing was loaded.", "Get it from its maker again.")
    known = every(root)
    (root / "results").mkdir(exist_ok=True)
    lab = Lab(root, scenarios=list(known.values()), ask_again=True)
    _, upstream = lab.images()
    manifest = load_bundle(file, {*map(without_digest, upstream.values())})
    machine = {name: value for name, value in read_machine_file(root).items() if name not in {"GRAFANA", *upstream}}
    write_machine_file(root, {**machine, **in_place(upstream)})
    sources = {name: str(stamp).split(" ")[0] for name, stamp in manifest.get("stamps", {}).items()}
    loaded = images_of(manifest["images"])
    add_stamps(root, {name: f"{sources[name]} {image.id}" for name, image in loaded.items() if name in sources})
    named = [known[name] for name in manifest.get("profiles", []) if name in known]
    wanted, _ = Lab(root, scenarios=named).images()
    if missing := sorted(wanted.keys() - images_of(wanted).keys()):
        say(f"This checkout also needs {', '.join(missing)}: the bundle is of lab {manifest['lab']}.")
    example = named[0].name if named else "scenario5"
    say(f"{len(manifest['images'])} images are here. No network is needed from now on: ./lab run {example}")
    return EXIT_GOOD


def tag_pinned(references: Sequence[str]) -> list[str]:
    """Return the names to save images under; a pinned one gets a tag, for an engine would save it without a name."""
    for pinned in filter(is_pinned, references):
        tagged = call(["docker", "tag", pinned, without_digest(pinned)])
        if not tagged.good:
            raise MachineError(f"{pinned} cannot be saved: {tagged.reason}", "Run ./lab setup first.")
    return sorted({without_digest(reference) for reference in references})
