"""The batch script, as Slurm would run it on one node."""

import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from xagents_ray.cluster.launch.folder import write

_SRUN = """#!/bin/sh
echo "$$ ${RAY_TLS_SERVER_CERT:-}" >> nodes
while case $1 in --nodelist | --*=*) ;; *) false ;; esac; do shift; done
exec "$@"
"""
_COMMAND = "train ppo --env CartPole-v1 --n-envs 2 --max-steps 2000 --name a".split()


@pytest.mark.slow
@pytest.mark.parametrize("tls", ["0", "1"])
def test_a_job_trains_and_removes_its_certificate(tls: str) -> None:
    write("slurm", _COMMAND, Path("slurm"))
    Path("srun").write_text(_SRUN)
    Path("srun").chmod(0o755)
    programs = f"{Path.cwd()}:{Path(sys.executable).parent}:{os.environ['PATH']}"
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
        head = psutil.Process(int(pid))  # Slurm ends it with the job
        for each in (*head.children(recursive=True), head):
            each.kill()
    assert done.returncode == 0, said
    assert "Maximum steps exceeded" in said
    assert "requires no token" not in said
    assert bool(certificate) == (tls == "1")
    assert not Path(certificate or "none").exists()
