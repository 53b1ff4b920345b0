"""Clusters that `launch` starts require a token, as Ray itself will from 2.61 on."""

import re
from pathlib import Path

import pytest
import yaml

from xagents_ray.cluster.launch.folder import write_folder

COMMAND = ["train", "ppo", "--env", "CartPole-v1", "--preset"]
_TALKS = re.compile(r"\bray (start|health-check|job|status|dashboard)\b")


@pytest.mark.parametrize("target", ["docker", "ray", "slurm"])
def test_whatever_talks_to_ray_sets_the_token_mode(tmp_path: Path, target: str) -> None:
    write_folder(target, COMMAND, tmp_path / "to")
    talking = []
    for path in (tmp_path / "to").rglob("*"):
        if path.is_file() and path.suffix not in (".lock", ".json"):
            lines = path.read_text().splitlines()
            code = "\n".join(
                each for each in lines if not each.lstrip().startswith("#")
            )
            if _TALKS.search(code):
                talking.append(path.name)
                assert "RAY_AUTH_MODE=token" in code, path
    assert talking


def test_kuberay_gives_each_cluster_a_token(tmp_path: Path) -> None:
    write_folder("kuberay", COMMAND, tmp_path / "to")
    for name in ("raycluster.yaml", "rayjob.yaml"):
        (spec,) = [
            document["spec"]
            for document in yaml.safe_load_all((tmp_path / "to" / name).read_text())
        ]
        cluster = spec.get("rayClusterSpec", spec)
        assert cluster["authOptions"] == {"mode": "token"}
