"""What images and nodes install was built here, or has a known hash.

An index of a stranger offers the same names and versions, with tags that fit better.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.tags import sys_tags

from xagents_ray import __version__
from xagents_ray.cluster.launch.folder import write_folder

_COMMAND = ["train", "ppo", "--env", "CartPole-v1", "--preset"]
_BEST_TAG = str(next(iter(sys_tags())))
_UV = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
_ONE_UV = f"""#!/bin/sh
if [ "$1" = venv ]; then
    for folder; do :; done
    exec {_UV} venv --quiet --python {sys.executable} "$folder"
fi
exec {_UV} "$@"
"""
"""A uv that takes the Python of these tests for that of a node."""


def write_wheel(
    folder: Path, name: str, version: str, tag: str, files: Mapping[str, str]
) -> Path:
    """Write a wheel, as anybody can."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    parts = {
        **files,
        f"{info}/METADATA": about,
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(f"{part},,\n" for part in (*parts, f"{info}/RECORD"))
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as file:
        for part, text in {**parts, f"{info}/RECORD": record}.items():
            file.writestr(part, text)
    return path


def publish(*wheels: Path) -> dict[str, str]:
    """Publish wheels on an index of a stranger; return the environment that uses it."""
    for wheel in wheels:
        name = wheel.name.partition("-")[0].replace("_", "-")
        page = Path("index", name, "index.html")
        page.parent.mkdir(parents=True)
        shutil.copy(wheel, page.parent)
        page.write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    path = f"{Path(_UV).parent}{os.pathsep}{os.environ['PATH']}"
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(("UV_", "PIP_"))},
        "PATH": path,
        "HOME": str(Path.cwd()),
        "UV_DEFAULT_INDEX": Path("index").resolve().as_uri(),
        "UV_CACHE_DIR": str(Path("cache").resolve()),
        "UV_NO_CONFIG": "1",
    }


def own_wheel(folder: Path) -> None:
    files = {"xagents_ray/whose.py": "mine"}
    write_wheel(folder, "xagents_ray", __version__, "py3-none-any", files)


def strangers_wheel() -> Path:
    files = {"xagents_ray/whose.py": "a stranger's"}
    return write_wheel(Path("away"), "xagents_ray", __version__, _BEST_TAG, files)


def installed(environment: Path) -> str:
    """Return whose package is installed; "" without one."""
    found = list(environment.rglob("site-packages/xagents_ray/whose.py"))
    return found[0].read_text() if found else ""


@pytest.mark.parametrize("is_built", [True, False])
def test_an_image_has_the_wheel_that_was_built(is_built: bool) -> None:
    write_folder("docker", _COMMAND, Path("docker"))
    if is_built:
        own_wheel(Path("docker/wheels"))
    environment = publish(strangers_wheel())
    venv = ["venv", "--quiet", "--python", sys.executable, "env"]
    subprocess.run([_UV, *venv], check=True, env=environment)
    text = Path("docker/Dockerfile").read_text().replace("\\\n", "")
    (command,) = re.findall(r"^RUN (.*/build/wheels/xagents_ray.*)$", text, re.M)
    command = command.replace("/build/wheels", str(Path("docker/wheels").resolve()))
    environment["VIRTUAL_ENV"] = str(Path("env").resolve())
    done = subprocess.run(
        ["sh", "-c", command], env=environment, capture_output=True, text=True
    )
    assert (done.returncode == 0) == is_built, done.stderr
    assert installed(Path("env")) == ("mine" if is_built else "")
    assert is_built or "wheels/ holds no xagents_ray-" in done.stderr


@pytest.mark.parametrize("case", ["all is well", "another file", "no wheel"])
def test_a_node_has_the_wheel_that_was_built(case: str) -> None:
    """A package of the index, which the lock names, is another file in one case."""
    write_folder("ray", _COMMAND, Path("ray"))
    wheels = Path("ray/wheels")
    tag = f"py3-none-manylinux_2_17_{platform.machine()}"
    write_wheel(wheels, "uv", "0", tag, {"uv-0.data/scripts/uv": _ONE_UV})
    if case != "no wheel":
        own_wheel(wheels)
    needed = write_wheel(Path("away"), "needed", "1", "py3-none-any", {"needed.py": ""})
    known = hashlib.sha256(needed.read_bytes()).hexdigest()
    Path("ray/cpu.lock").write_text(f"needed==1 --hash=sha256:{known}\n")
    if case == "another file":
        write_wheel(Path("away"), "needed", "1", "py3-none-any", {"needed.py": "1 / 0"})
    environment = publish(strangers_wheel(), needed)
    command = ["sh", "ray/setup.sh"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode == 0) == (case == "all is well"), done.stderr
    assert installed(Path("xagents-ray")) == ("mine" if case == "all is well" else "")
    assert "Hash mismatch" in done.stderr or case != "another file"
    assert "wheels/ needs one file for" in done.stderr or case != "no wheel"
    has_needed = any(Path("xagents-ray").rglob("site-packages/needed.py"))
    assert has_needed == (case != "another file")


def test_everything_else_is_named_by_its_hash() -> None:
    for target in ("docker", "kuberay", "ray"):
        write_folder(target, _COMMAND, Path(target))
    text = Path("docker/Dockerfile").read_text().replace("\\\n", "")
    bases = re.findall(r"^FROM (\S+)", text, re.M)
    assert len(bases) == 2
    assert all(re.search(r"@sha256:[0-9a-f]{64}$", base) for base in bases)
    scripts = [text, Path("ray/setup.sh").read_text()]
    installs = [
        words
        for script in scripts
        for words in re.split(r"&&|\n", script)
        if "pip install" in words
    ]
    assert len(installs) == 5
    for words in installs:
        assert "--require-hashes" in words or "--no-index" in words, words
    for path in sorted(Path().glob("*/*.*")):
        lines = path.read_text().splitlines()
        code = [line for line in lines if not line.startswith("#")]
        assert not re.search(r"curl|wget|\| *sh\b", "\n".join(code)), path
