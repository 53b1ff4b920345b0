"""The batch script, as Slurm would run it on one node."""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from processes import kill_with_children

from xagents_ray.cluster.launch.folder import write_folder

_SRUN = """\
echo "$$ ${RAY_TLS_SERVER_CERT:-}" >> nodes
while case $1 in --nodelist | --*=*) ;; *) false ;; esac; do shift; done
exec "$@"
"""
_COMMAND = "train ppo --env CartPole-v1 --n-envs 2 --max-steps 2000 --name a".split()
# Its clock is 100 s later whenever it is asked.
_RAY = """
import itertools, time
time.monotonic = itertools.count(step=100).__next__
time.sleep = init = lambda *_, **__: None
nodes = lambda: [{"Alive": True}, {"Alive": False}]
"""
_PROGRAMS = {
    "hostname": 'if [ "$1" = -I ]; then echo 192.0.2.7 10.1.2.3; else echo node1; fi',
    "srun": 'exec sleep "${HEAD_SECONDS:-0}"',
    "ray": '[ "$1" != health-check ] || exit "${HEALTH:-1}"',
    "date": 'cat clock; echo "${LATER:-0}" > clock',
    "sleep": f'exec {shutil.which("sleep")} "$(echo "$1" | sed s/^1$/0.01/)"',
    "xagents-ray": "touch trained",
}
"""What the script calls, as a cluster that doesn't start."""


def _write_programs(programs: Mapping[str, str]) -> str:
    """Write shell scripts here; return a path on which they come first."""
    for name, text in programs.items():
        Path(name).write_text(f"#!/bin/sh\n{text}\n")
        Path(name).chmod(0o755)
    return f"{Path.cwd()}:{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "0 of 3 nodes joined: Ray's head at 192.0.2.7:20042 has ended, or was"),
        ({"HEAD_SECONDS": "5", "LATER": "301"}, "was silent for 300 s"),
        ({"HEALTH": "0"}, "1 of 3 nodes joined Ray's head at 192.0.2.7:20042 in 300 s"),
    ],
    ids=["the head ends", "the head is silent", "nodes are missing"],
)
def test_a_cluster_that_does_not_start_ends_the_job(
    given: dict[str, str], sentence: str
) -> None:
    write_folder("slurm", _COMMAND, Path("slurm"))
    Path("clock").write_text("0\n")
    Path("ray.py").write_text(_RAY)
    environment = {
        **os.environ,
        "PATH": _write_programs(_PROGRAMS),
        "PYTHONPATH": str(Path.cwd()),
        "SLURM_JOB_ID": "42",
        "SLURM_JOB_NUM_NODES": "3",
        **given,
    }
    with Path("output").open("w") as output:  # what still sleeps would keep a pipe open
        streams = {"stdout": output, "stderr": subprocess.STDOUT}
        command = ["sh", "slurm/train.sbatch"]
        done = subprocess.run(command, env=environment, timeout=60, **streams)
    said = Path("output").read_text()
    assert done.returncode == 1 and sentence in said, said
    assert "Traceback" not in said and not Path("trained").exists()


@pytest.mark.slow
@pytest.mark.parametrize("tls", ["0", "1"])
def test_a_job_trains_and_removes_its_certificate(tls: str) -> None:
    write_folder("slurm", _COMMAND, Path("slurm"))
    programs = _write_programs({"srun": _SRUN})
    with tempfile.TemporaryDirectory(prefix="ray-") as session:
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("RAY_")},
            "PATH": programs,
            "HOME": str(Path.cwd()),
            "RAY_TMPDIR": session,  # names of sockets are short
            "RAY_USE_TLS": tls,
            "SLURM_JOB_ID": str(secrets.randbelow(10_000)),
            "SLURM_JOB_NUM_NODES": "1",
        }
        command = ["sh", "slurm/train.sbatch"]
        with Path("output").open("w") as output:  # the head would keep a pipe open
            streams = {"stdout": output, "stderr": subprocess.STDOUT}
            done = subprocess.run(command, env=environment, timeout=300, **streams)
        said = Path("output").read_text()
        *_, (pid, certificate) = (
            line.split(" ") for line in Path("nodes").read_text().splitlines()
        )
        kill_with_children(int(pid))  # Slurm ends the head with the job
    assert done.returncode == 0, said
    assert "Reached --max-steps" in said
    assert "requires no token" not in said
    assert bool(certificate) == (tls == "1")
    assert not Path(certificate or "none").exists()
