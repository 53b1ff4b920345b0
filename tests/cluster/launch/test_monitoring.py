"""The dashboard and the scrape file that `launch` writes fit what a run publishes."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from fake_driver import FakeDriver

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.cluster.launch.folder import write_folder
from xagents_ray.cluster.ray.calls import FailureLog
from xagents_ray.cluster.run import supervision as supervisions
from xagents_ray.settings.config import Config
from xagents_ray.watch.telemetry import Telemetry

COMMAND = ["train", "ppo", "--env", "CartPole-v1", "--preset"]
TARGETS = ("docker", "kuberay", "ray", "slurm")


class _Gauge:
    """Ray's gauge, which notes its names."""

    names: set[str]

    def __init__(self, name: str, description: str, tag_keys: tuple[str, ...]) -> None:
        assert tag_keys == ("agent", "of")
        self.names.add(name)

    def set(self, value: float, tags: Mapping[str, str]) -> None:
        assert set(tags) == {"agent", "of"}


def _published(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names of all metrics that a run's telemetry publishes on Ray."""
    _Gauge.names = set()
    metrics = SimpleNamespace(Gauge=_Gauge)
    modules = SimpleNamespace(import_module=lambda name: metrics)
    monkeypatch.setattr(supervisions, "importlib", modules)
    driver, log, fleet = FakeDriver(), FailureLog(), SimpleNamespace(versions=[3, 4])
    log.count("env actors")
    parts: Any = fleet, SimpleNamespace(age=1.5)
    supervision: Any = supervisions.RaySupervision("ppo", log, *parts)
    driver.supervision = supervision
    given = {"env": "CartPole-v1", "max_steps": 10, "n_envs": 1}
    config = Config.of(find_algorithm("ppo").config, given)
    progress: Any = SimpleNamespace(
        env_steps=1,
        steps_per_second=2.0,
        mean_reward=3.0,
        success_rate=0.5,
        policy_lag={"mean": 1.0},
    )
    display: Any = SimpleNamespace(warn=lambda text: None)
    none: Any = None
    telemetry = Telemetry(config, driver, progress, none, display, None, none)
    telemetry.report_failures()
    return _Gauge.names


@pytest.mark.parametrize("target", TARGETS)
def test_the_dashboard_shows_exactly_the_metrics_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """Ray puts its name before that of each metric."""
    written = write_folder(target, COMMAND, tmp_path / "to")
    assert "monitoring/grafana.json" in written
    board = json.loads((tmp_path / "to" / "monitoring" / "grafana.json").read_text())
    queries = [t["expr"] for panel in board["panels"] for t in panel["targets"]]
    shown = {re.match(r"\w+", query)[0] for query in queries}  # type: ignore[index]
    assert shown == {f"ray_{name}" for name in _published(monkeypatch)}
    (agents,) = [v for v in board["templating"]["list"] if v["name"] == "agent"]
    assert re.search(r"\((\w+), agent\)", agents["query"])[1] in shown  # type: ignore[index]


@pytest.mark.parametrize("target", TARGETS)
def test_the_scrape_file_finds_the_nodes(tmp_path: Path, target: str) -> None:
    write_folder(target, COMMAND, tmp_path / "to")
    path = tmp_path / "to" / "monitoring" / "prometheus.yaml"
    (job,) = yaml.safe_load(path.read_text())["scrape_configs"]
    if target == "kuberay":
        assert job["kubernetes_sd_configs"][0]["role"] == "pod"
        return
    (nodes,) = job["http_sd_configs"]
    assert nodes["url"].endswith(":8265/api/prometheus/sd")
    token = Path(nodes["authorization"]["credentials_file"])
    assert target != "docker" or (path.parent / token).is_file()
