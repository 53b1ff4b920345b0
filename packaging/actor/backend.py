"""Builds `xagents-ray-actor` as setuptools builds `xagents-ray`, to require less.

Both hold the whole package, so a node has all modules that a driver's pickles name.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from configparser import RawConfigParser
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setuptools import build_meta

ROOT = Path(__file__).resolve().parents[2]
# What only learning, sweeps and reports need. All else in setup.cfg is required, so
# nothing that acting comes to need is missing unless it is named here.
LEFT_OUT = {
    *("h5py", "keras", "matplotlib", "optuna", "pyarrow", "sqlalchemy"),
    *("tensorboardX", "tensorflow", "wandb"),
}
EXTRAS = {"gym", "envpool", "robotics"}  # kinds of environments
SUMMARY = "What a node of a cluster needs to act for xagents-ray, without TensorFlow."


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None
) -> str:
    """Build a wheel, as PEP 517 says."""
    folder = os.path.abspath(wheel_directory)
    with _sources():
        return build_meta.build_wheel(folder, config_settings)


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """Build a source distribution, which setuptools alone builds further."""
    folder = os.path.abspath(sdist_directory)
    with _sources():
        return build_meta.build_sdist(folder, config_settings)


@contextmanager
def _sources() -> Iterator[None]:
    """Work in a copy of the sources with a `setup.cfg` of its own."""
    config = RawConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    folders = re.findall(r"= *(\S+)", config["options"]["package_dir"])
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for each in (*folders, "pyproject.toml", "README.md", "LICENSE"):
            path, ignored = ROOT / each, shutil.ignore_patterns("__pycache__")
            if path.is_dir():
                shutil.copytree(path, copy / each, ignore=ignored)
            else:
                shutil.copy(path, copy)
        _require_less(config)
        with (copy / "setup.cfg").open("w", encoding="utf-8") as file:
            config.write(file)
        os.chdir(copy)
        try:
            yield
        finally:
            os.chdir(before)


def _require_less(config: RawConfigParser) -> None:
    config["metadata"].update(name="xagents-ray-actor", description=SUMMARY)
    lines = config["options"]["install_requires"].strip().splitlines()
    names = {line: re.split(r"[^\w-]", line)[0] for line in lines}
    unknown = LEFT_OUT - {*names.values()}
    assert not unknown, f"setup.cfg doesn't require {unknown}"
    kept = [line for line in lines if names[line] not in LEFT_OUT]
    requires = "\n".join(["", *kept]).replace("ray[default,tune]", "ray[default]")
    config["options"]["install_requires"] = requires
    for extra in {*config["options.extras_require"]} - EXTRAS:
        del config["options.extras_require"][extra]
