"""What comes with a bundle: archives of the whole checkout for students and teachers."""

import os
import re
import shutil
import tarfile
from pathlib import Path

from support.places import ROOT

from looplab.lab.class_archives import ANSWERS, FOR_TEACHERS, NOTE, checkout_files, write_archives


def test_students_get_no_answers_and_teachers_get_those(tmp_path: Path) -> None:
    students, teachers = write_archives(ROOT, tmp_path / "room.bundle")
    assert (students.name, teachers.name) == ("room-students.tar.gz", "room-teachers.tar.gz")
    with tarfile.open(students) as archive:
        archive.extractall(tmp_path / "s")
    with tarfile.open(teachers) as archive:
        archive.extractall(tmp_path / "t")
    place = tmp_path / "s/looplab"
    hidden = [name for name in checkout_files(ROOT) if Path(name).name == ANSWERS]
    assert len(hidden) > 20
    assert [name for name in checkout_files(ROOT) if not (place / name).is_file()] == hidden
    assert {(place / path).read_text() for path in FOR_TEACHERS} == {NOTE}
    assert (place / ".students").is_file()
    assert not any(re.search(r"^ +right:", path.read_text(), re.MULTILINE) for path in place.rglob("expected.yaml"))
    assert os.access(place / "lab", os.X_OK)
    shutil.copytree(tmp_path / "t", tmp_path / "s", dirs_exist_ok=True)
    assert all((place / name).read_bytes() == (ROOT / name).read_bytes() for name in checkout_files(ROOT))
