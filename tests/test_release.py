"""What is released installs into empty environments and trains; habits hold."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from configparser import ConfigParser
from pathlib import Path

import pytest
from checkout import ROOT
from packaging.requirements import Requirement

from xagents_ray import __version__

_SOURCES = (
    *("pyproject.toml", "setup.cfg", "README.md", "LICENSE"),
    *("actors", "cluster", "learners", "xagents_ray"),
)
_PROGRAMS = Path(sys.executable).parent
_PATH = f"{_PROGRAMS}{os.pathsep}{os.environ['PATH']}"
_RULES = "document-start: disable, line-length: {max: 100}, truthy: {check-keys: false}"
_LINT = f"{{extends: default, rules: {{{_RULES}}}}}"


def run(*words: str | Path) -> str:
    """Run a program of this environment, or another; it must succeed."""
    command = [shutil.which(words[0], path=_PATH) or words[0], *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that is built from it."""
    source = tmp_path_factory.mktemp("source")
    for name in _SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source)
    run("uv", "build", "--quiet", source)
    return source / "dist"


def test_a_package_index_takes_both(dist: Path) -> None:
    files = sorted(dist.glob(f"xagents_ray-{__version__}*"))
    assert len(files) == 2
    run("twine", "check", "--strict", *files)


def test_the_readme_and_the_metadata_say_where_to_turn() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    contact = text.partition("## Contact\n")[2].partition("\n## ")[0]
    for link in ("../../issues", "../../pulls", "SECURITY.md", "CONTRIBUTING.md"):
        assert f"]({link})" in contact
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    pictures += re.findall(r'\bsrc(?:set)?="([^"]+)"', text)
    assert {"docs/logo.svg", "docs/pong.gif", "docs/terminal.svg"} <= {*pictures}
    assert all((ROOT / each).is_file() for each in pictures)
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    urls = setup["metadata"]["project_urls"].strip().splitlines()
    assert urls and all(re.fullmatch(r"[^=]{1,32} = https://\S+", url) for url in urls)
    assert "https://github.com/schissmantics/xagents" in contact
    assert setup["metadata"]["author"]


def test_the_wheel_holds_every_module(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        held = {name for name in file.namelist() if name.startswith("xagents_ray/")}
    modules = {
        p.relative_to(ROOT).as_posix()
        for room in _SOURCES[4:]
        for p in (ROOT / room).rglob("*.py")
    }
    expected = {f"xagents_ray/{m.removeprefix('xagents_ray/')}" for m in modules}
    assert len(expected) > 150
    assert expected <= held, expected - held


def interpreter(version: str) -> str:
    """Return one, of pyenv or on the path; skip the test where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    own = sorted((pyenv / "versions").glob(f"{version}.*/bin/python"))
    found = str(own[-1]) if own else shutil.which(f"python{version}")
    if found is None:
        pytest.skip(f"there is no Python {version} here, of pyenv or on the path")
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("version", "file"), [("3.10", "*.whl"), ("3.13", "*.tar.gz")])
def test_it_installs_into_an_empty_environment(
    version: str, file: str, dist: Path
) -> None:
    (package,) = dist.glob(file)
    run("uv", "venv", "--quiet", "--python", interpreter(version), "env")
    run("uv", "pip", "install", "--quiet", "--python", "env", package)
    program = Path("env/bin/xagents-ray").resolve()
    assert run(program, "--version").strip().endswith(__version__)
    words = "--env CartPole-v1 --n-envs 2 --max-steps 600 --local --jit off".split()
    assert "environment" in run(program, "doctor", "ppo", *words)
    assert "Reached --max-steps" in run(program, "train", "ppo", *words)


def requirements(*extras: str) -> Sequence[Requirement]:
    """Return what setup.cfg requires, of the package itself and of extras."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    texts = [setup["options"]["install_requires"]]
    texts += [setup["options.extras_require"][extra] for extra in extras]
    return [Requirement(line) for text in texts for line in text.split("\n") if line]


def test_the_lock_of_ci_has_what_setup_cfg_requires() -> None:
    lock = (ROOT / ".ci" / "requirements.lock").read_text(encoding="utf-8")
    pins = dict[str, list[str]]()
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE):
        pins.setdefault(name, []).append(version)
    for each in requirements("test", "docs"):
        name = re.sub(r"[-_.]+", "-", each.name).lower()
        if name != "xagents-ray":
            assert all(each.specifier.contains(v) for v in pins[name]), each


LOCKS = (
    ROOT / ".ci" / "requirements.lock",
    *sorted((ROOT / "cluster" / "launch" / "image").glob("*.lock")),
)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_locks_name_each_file_by_its_hash(lock: Path) -> None:
    pins = re.split(r"^(?=[\w.-]+==)", lock.read_text(encoding="utf-8"), flags=re.M)
    assert pins[1:]
    assert all("--hash=sha256:" in pin for pin in pins[1:])


@pytest.mark.parametrize("constrains", ["UV_CONSTRAINT", "UV_BUILD_CONSTRAINT"])
def test_ci_refuses_another_file_of_a_pinned_version(
    constrains: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that a stranger puts on an index, for a run or for a package's build."""
    lock = ROOT / ".ci" / "requirements.lock"
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert f"{constrains}=$PWD/.ci/requirements.lock" in ci
    (version,) = re.findall(r"^setuptools==(\S+)", lock.read_text("utf-8"), re.M)
    name = f"setuptools-{version}"
    with zipfile.ZipFile(f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("setuptools/build_meta.py", "1 / 0")
        about = f"Metadata-Version: 2.1\nName: setuptools\nVersion: {version}\n"
        wheel.writestr(f"{name}.dist-info/METADATA", about)
        form = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{name}.dist-info/WHEEL", form)
        wheel.writestr(f"{name}.dist-info/RECORD", "")
    Path("package").mkdir()
    Path("package/pyproject.toml").write_text('[project]\nname = "p"\nversion = "1"\n')
    for each in ("UV_CONSTRAINT", "UV_BUILD_CONSTRAINT", "UV_FIND_LINKS"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv(constrains, str(lock))
    asked = "setuptools" if constrains == "UV_CONSTRAINT" else "./package"
    words = ["pip", "install", "--no-index", "--find-links", ".", "--target", "into"]
    program = shutil.which("uv", path=_PATH) or "uv"
    command = [program, *words, "--no-cache", "--python", sys.executable, asked]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and "ash mismatch" in done.stderr, done.stderr


def test_the_workflow_names_actions_by_commit() -> None:
    for path in (ROOT / ".github" / "workflows").iterdir():
        used = re.findall(r"uses: *(\S+)", path.read_text(encoding="utf-8"))
        assert used
        assert all(re.search("@[0-9a-f]{40}$", each) for each in used), used


def test_the_files_of_the_repository_are_what_its_host_takes() -> None:
    for schema, pattern in (
        ("github-issue-forms", "ISSUE_TEMPLATE/[!c]*.yml"),
        ("github-issue-config", "ISSUE_TEMPLATE/config.yml"),
        ("github-workflows", "workflows/*.yml"),
    ):
        files = sorted((ROOT / ".github").glob(pattern))
        run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *files)
    run("yamllint", "--strict", "-d", _LINT, ROOT / ".github")
    run("shellcheck", *(ROOT / ".ci" / name for name in ("run", "weekly")))
