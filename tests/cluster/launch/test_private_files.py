"""The token and Ray's folder, which launch files create, are for one user only."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from xagents_ray.cluster.launch.folder import write_folder

_COMMAND = "train ppo --env CartPole-v1 --max-steps 100".split()
# `ray start` notes who may enter the folder above --temp-dir; as Ray's own, it lets all
# write there. `ray get-auth-token --generate` writes with the umask, as Ray's own.
_RAY = """\
case $1 in
start)
    while [ "$1" != --temp-dir ]; do shift; done
    mkdir -m 777 "$2"
    stat -c %a "$(dirname "$2")" >> "$HOME/modes"
    ;;
get-auth-token)
    mkdir -p ~/.ray
    [ -e ~/.ray/auth_token ] || echo secret > ~/.ray/auth_token
    ;;
health-check) exit 1 ;;
esac
"""
_PROGRAMS = {
    "ray": _RAY,
    "xagents-ray": "exit 0",
    "hostname": 'if [ "$1" = -I ]; then echo 192.0.2.7; else echo node1; fi',
    "srun": "while case $1 in --*) ;; *) false ;; esac; do shift; done\n"
    'case $1 in sh) exec "$@" ;; esac',
}


def run(command: Sequence[str], **more: str) -> "subprocess.CompletedProcess[str]":
    """Run a command whose home, Ray and Slurm lie here, under the usual umask."""
    bins = Path("xagents-ray/bin")
    bins.mkdir(parents=True, exist_ok=True)
    for name, text in _PROGRAMS.items():
        (bins / name).write_text(f"#!/bin/sh\n{text}\n")
        (bins / name).chmod(0o755)
    Path("temporary").mkdir(exist_ok=True)
    folders = f"{bins.resolve()}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("RAY_")},
        "PATH": folders,
        "HOME": str(Path.cwd()),
        "TMPDIR": str(Path("temporary").resolve()),
        "RAY_TMPDIR": str(Path("temporary").resolve()),
        **more,
    }
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, umask=0o022
    )


def mode(path: str) -> int:
    return Path(path).stat().st_mode & 0o777


def start_commands(folder: Path) -> list[str]:
    """Return the commands of Ray's launcher that start a node, for a folder here."""
    config = yaml.safe_load(folder.read_text())
    names = ("head_start_ray_commands", "worker_start_ray_commands")
    found = [line for name in names for line in config[name] if "ray start" in line]
    return [each.replace("/tmp/", "$TMPDIR/") for each in found]


@pytest.mark.parametrize("name", ["on-prem", "aws"])
def test_nodes_of_rays_launcher_have_a_folder_of_their_own(name: str) -> None:
    write_folder("ray", _COMMAND, Path("ray"))
    commands = start_commands(Path(f"ray/{name}.yaml"))
    assert len(commands) == 2
    for command in commands:
        done = run(["sh", "-c", command.replace("ulimit -n 65536;", "")])
        assert done.returncode == 0, done.stderr
    assert Path("modes").read_text() == "700\n700\n"


@pytest.mark.parametrize("role", ["head", "worker", "train"])
def test_nodes_in_a_container_have_a_folder_of_their_own(role: str) -> None:
    write_folder("docker", _COMMAND, Path("docker"))
    given = {"RAY_AUTH_TOKEN": "secret", "HEAD": "a:1"}
    done = run(["sh", "docker/entrypoint.sh", role], **given)
    assert done.returncode == 0, done.stderr
    assert Path("modes").read_text() == "700\n"


@pytest.mark.parametrize("before", [None, 0o644])
def test_a_job_of_slurm_lets_nobody_else_in(before: int | None) -> None:
    """It removes the folder at the end."""
    write_folder("slurm", _COMMAND, Path("slurm"))
    if before is not None:  # of an earlier day
        Path(".ray").mkdir()
        Path(".ray/auth_token").write_text("secret")
        Path(".ray/auth_token").chmod(before)
    given = {"SLURM_JOB_ID": "42", "SLURM_JOB_NUM_NODES": "1"}
    done = run(["sh", "slurm/train.sbatch"], **given)
    assert "0 of 1 nodes joined" in done.stderr  # as this Ray ends at once
    assert Path("modes").read_text() == "700\n"
    assert list(Path("temporary").iterdir()) == []
    assert mode(".ray/auth_token") == 0o600


@pytest.mark.parametrize("before", [None, 0o644])
@pytest.mark.parametrize("name", ["on-prem", "aws"])
def test_the_token_that_the_first_lines_make_is_private(
    name: str, before: int | None
) -> None:
    write_folder("ray", _COMMAND, Path("ray"))
    if before is not None:
        Path(".ray").mkdir()
        Path(".ray/auth_token").write_text("secret")
        Path(".ray/auth_token").chmod(before)
    text = Path(f"ray/{name}.yaml").read_text()
    (command,) = re.findall(r"^# +(.*get-auth-token.*)$", text, re.MULTILINE)
    done = run(["sh", "-c", command])
    assert done.returncode == 0, done.stderr
    assert mode(".ray/auth_token") == 0o600
    assert yaml.safe_load(text)["setup_commands"][0] == "chmod 600 ~/.ray/auth_token"
