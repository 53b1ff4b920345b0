"""Packages of others, installed into a folder as pip does without its isolation."""

import shutil
import zipfile
from pathlib import Path

from processes import python

_BUILD = "from setuptools import build_meta; print(build_meta.build_wheel('..'))"


def install(source: Path, into: Path) -> Path:
    """Build a package's wheel and unpack it; return the folder for PYTHONPATH."""
    work = into / "build"
    shutil.copytree(source, work / "source")
    done = python("-c", _BUILD, cwd=work / "source")
    assert done.returncode == 0, done.stderr
    (wheel,) = work.glob("*.whl")
    site = into / "site"
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)
    return site


def describe(site: Path, name: str, group: str, **entries: str) -> None:
    """Write what an installed package says of its entry points."""
    info = site / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    lines = [f"{key} = {value}\n" for key, value in entries.items()]
    (info / "entry_points.txt").write_text(f"[{group}]\n{''.join(lines)}")
