"""Check that the wheel holds the package alone and that the source archive holds every file of the repository.

Run: python .ci/archive_contents.py dist/*
"""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
# What the repository needs and an unpacked source archive does not.
REPOSITORY_ONLY = (".github/", ".gitignore", ".pre-commit-config.yaml")


def tracked_files():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    return {name for name in listed.split("\0") if name and (PROJECT / name).exists()}


def wheel_files(path):
    """Names in the wheel, without its metadata."""
    with zipfile.ZipFile(path) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def source_files(path):
    """Names in the source archive, without its top folder and without what the build adds."""
    with tarfile.open(path) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    return {name for name in names if name != "PKG-INFO" and ".egg-info/" not in name}


def expected_in(path, tracked):
    if path.suffix == ".whl":
        return wheel_files(path), {name for name in tracked if name.startswith("smoothcert/")}
    return source_files(path), {name for name in tracked if not name.startswith(REPOSITORY_ONLY)}


def main(paths):
    tracked = tracked_files()
    if {path.suffix for path in paths} != {".whl", ".gz"}:
        sys.exit(f"One wheel and one source archive are needed, got {[path.name for path in paths]}.")
    if "smoothcert/py.typed" not in tracked:
        sys.exit("smoothcert/py.typed is missing: without it type checkers ignore the annotations.")
    wrong = False
    for path in paths:
        held, expected = expected_in(path, tracked)
        for name in sorted(expected - held):
            print(f"{path.name} lacks {name}")
        for name in sorted(held - expected):
            print(f"{path.name} must not hold {name}")
        wrong |= held != expected
        print(f"{path.name}: {len(held)} files, {path.stat().st_size / 1024:.0f} KB")
    sys.exit(wrong)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
