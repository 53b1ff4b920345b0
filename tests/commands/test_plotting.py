"""Curves of histories: what is drawn, where it is saved, what is refused."""

import os
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from disks import as_nobody
from matplotlib.figure import Figure

from xagents_ray.commands import cli
from xagents_ray.commands.plot import plot_history, plot_seeds
from xagents_ray.commands.report import report
from xagents_ray.core.errors import UserError
from xagents_ray.storage.history import History


def make(path: Path, rewards: list[float], seconds: float = 1.0) -> Path:
    """Write a history: 10 env steps and `seconds` per game."""
    made = History(path)
    for n, reward in enumerate(rewards):
        made.add(10 * n, seconds * n, reward, reward / 2, 9.0)
    made.flush()
    return path


def axes(figure: Figure) -> Any:
    (only,) = figure.axes
    return only


def curves(figure: Figure) -> list[tuple[list[float], list[float]]]:
    lines = axes(figure).get_lines()
    return [(list(x), list(y)) for x, y in (line.get_data() for line in lines)]


def labels(figure: Figure) -> list[str]:
    return [text.get_text() for text in axes(figure).get_legend().get_texts()]


def test_last_is_the_newest_run(tmp_path: Path) -> None:
    """What `last` is to `--run` and `--resume`: by its start, whatever its agent."""
    for name, reward, started in (
        ("ppo/b", 3.0, 2),
        ("a2c/c", 4.0, 3),
        ("ppo/d", 5.0, 1),
    ):
        agent, run = name.split("/")
        made = make(tmp_path / "runs" / agent / "E" / run / "history.parquet", [reward])
        start = made.with_name("run.json")
        start.write_text("[]", "utf-8")
        os.utime(start, (started, started))
    nothing = tmp_path / "runs/ppo/E/failed/run.json"  # its environment was refused
    nothing.parent.mkdir()
    nothing.write_text("[]", "utf-8")
    figure = plot_history("last", plot="episode_reward")
    assert (curves(figure), labels(figure)) == ([([0], [4])], ["c"])
    with pytest.raises(UserError, match=r"failed has no history yet, .*: let it train"):
        plot_history(nothing.parent)
    shutil.move("runs", "others")
    words = ["plot", "last", "--column", "episode_reward", "--run-dir", "others"]
    assert cli.run([*words, "--output", "last.png"]) == 0 and Path("last.png").exists()
    figure = plot_history("last", plot="episode_reward", run_dir="others")
    assert curves(figure) == [([0], [4])]


def ticks(figure: Figure) -> list[str]:
    figure.canvas.draw()
    return [tick.get_text() for tick in axes(figure).get_xticklabels()]


def test_one_curve_per_history(tmp_path: Path) -> None:
    paths = [
        make(tmp_path / "dqn.parquet", [1.0, 2.0, 4.0]),
        make(tmp_path / "ppo.parquet", [5.0, 3.0]),
    ]
    figure = plot_history(paths, env="CartPole-v1", plot="episode_reward")
    assert curves(figure) == [([0, 10, 20], [1, 2, 4]), ([0, 10], [5, 3])]
    assert labels(figure) == ["dqn", "ppo"]
    assert axes(figure).get_title() == "CartPole-v1"
    assert axes(figure).get_xlabel() == "Env steps"
    assert axes(figure).get_ylabel() == "Episode reward"
    figure = plot_history(paths, agents=["A", "B"])
    assert curves(figure) == [([0, 10, 20], [0.5, 1, 2]), ([0, 10], [2.5, 1.5])]
    assert labels(figure) == ["A", "B"]
    assert axes(figure).get_title() == ""
    one = plot_history(str(paths[0]))
    assert curves(one) == curves(figure)[:1]
    colors = {line.get_color() for line in axes(figure).get_lines()}
    assert len(colors) == 2


@pytest.mark.parametrize(
    ("last", "given", "unit", "shown"),
    [
        (90.0, None, "second", 90.0),
        (600.0, None, "minute", 10.0),
        (9_000.0, None, "hour", 2.5),
        (9_000.0, "second", "second", 9_000.0),
        (9_000.0, "minute", "minute", 150.0),
        (9_000.0, "hour", "hour", 2.5),
    ],
)
def test_time_in_the_unit_that_fits_or_is_asked_for(
    tmp_path: Path, last: float, given: str | None, unit: str, shown: float
) -> None:
    path = make(tmp_path / "h.parquet", [1.0, 2.0, 3.0], last / 2)
    figure = plot_history([path], benchmark="time", time_unit=given)
    assert curves(figure)[0][0] == [0.0, shown / 2, shown]
    assert axes(figure).get_xlabel() == f"Time ({unit}s)"


def test_thousands_of_steps(tmp_path: Path) -> None:
    path = make(tmp_path / "h.parquet", [0.0] * 25_001)
    assert {"50k", "250k"} <= set(ticks(plot_history([path])))


def test_one_episode_in_so_many_and_the_last(tmp_path: Path) -> None:
    path = make(tmp_path / "h.parquet", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    figure = plot_history([path], plot="episode_reward", history_interval=2)
    assert curves(figure)[0][1] == [1.0, 3.0, 5.0, 6.0]
    figure = plot_history([path], plot="episode_reward", history_interval=99)
    assert curves(figure)[0][1] == [1.0, 6.0]


def test_arguments_in_the_references_order(tmp_path: Path) -> None:
    """Of its own plot_history, xagents 1.0.1."""
    path = make(tmp_path / "h.parquet", [1.0, 2.0], 3_600.0)
    figure = plot_history([path], ["a"], "env", "mean_reward", "time", 1, "hour")
    assert axes(figure).get_xlabel() == "Time (hours)"


def test_smoothing_is_a_trailing_mean(tmp_path: Path) -> None:
    path = make(tmp_path / "h.parquet", [2.0, 4.0, 9.0, 2.0, 1.0])
    figure = plot_history([path], plot="episode_reward", smoothing=3)
    assert curves(figure)[0][1] == [2.0, 3.0, 5.0, 5.0, 4.0]
    figure = plot_history([path], plot="episode_reward", smoothing=99)
    assert curves(figure)[0][1][-1] == pytest.approx(18 / 5)


def test_rows_without_a_value_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    made = History(path)
    for n in range(6):
        made.add(n, n, 1.0, 1.0, 1.0)
        if n in (1, 4):
            made.evaluated(n * 100.0)
    made.flush()
    figure = plot_history([path], plot="evaluation_reward")
    assert curves(figure) == [([1, 4], [100, 400])]
    assert axes(figure).get_lines()[0].get_marker() == "o"


def test_thinning_keeps_the_peaks(tmp_path: Path) -> None:
    rewards = np.random.default_rng(0).normal(size=50_000)
    rewards[[777, 31_234]] = [50.0, -50.0]
    path = make(tmp_path / "h.parquet", rewards.tolist())
    ((x, y),) = curves(plot_history([path], plot="episode_reward"))
    assert 1_000 < len(x) <= 3_000
    assert x == sorted(x)
    assert (x[0], x[-1]) == (0, 499_990)
    drawn = dict(zip(x, y, strict=True))
    assert (drawn[7_770], drawn[312_340]) == (50.0, -50.0)
    assert all(rewards[int(step) // 10] == value for step, value in drawn.items())


def test_files_in_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    make(home / "runs/seeds/a/ppo/E/seed-0/history.parquet", [1.0])
    plot_history(["~/runs/seeds/a/ppo/E/seed-0"], output="~/one.png")
    plot_seeds("~/runs/seeds/a", output="~/all.png")
    assert {path.name for path in home.glob("*.png")} == {"one.png", "all.png"}
    assert not Path("~").exists()


def test_labels_tell_the_files_apart(tmp_path: Path) -> None:
    a = make(tmp_path / "dqn" / "Pong-v5.1" / "history.parquet", [1.0])
    b = make(tmp_path / "ppo" / "Pong-v5.1" / "history.parquet", [1.0])
    c = make(tmp_path / "_$x$_$.parquet", [1.0])
    assert labels(plot_history([a])) == ["history"]
    assert labels(plot_history([a, b])) == [
        "dqn/Pong-v5.1/history",
        "ppo/Pong-v5.1/history",
    ]
    assert labels(plot_history([b, b])) == ["history (1)", "history (2)"]
    assert [each.strip() for each in labels(plot_history([a, c]))] == [
        "history",
        "_$x$_$",
    ]


def test_dollars_are_not_mathematics(tmp_path: Path) -> None:
    path = make(tmp_path / "$\\x$.parquet", [1.0])
    plot_history([path], agents=["$\\y$"], env="$\\z$", output=tmp_path / "o.png")
    plot_history([path], output=tmp_path / "o.svg")
    assert "<!-- $\\x$ -->" in (tmp_path / "o.svg").read_text(encoding="utf-8")


def test_png(tmp_path: Path) -> None:
    path = make(tmp_path / "h.parquet", [1.0, 5.0, 2.0])
    output = tmp_path / "new" / "out.PNG"
    plot_history([path], output=output)
    image = cv2.imread(str(output))
    assert image is not None and image.shape == (825, 1350, 3)
    blue = (image == (0xB2, 0x72, 0x00)).all(axis=2)
    assert blue.sum() > 1_000
    assert (image == 255).mean() > 0.9


def test_svg(tmp_path: Path) -> None:
    path = make(tmp_path / "h.parquet", [1.0, 5.0, 2.0])
    plot_history([path], output=str(tmp_path / "out.svg"))
    text = (tmp_path / "out.svg").read_text(encoding="utf-8")
    assert "<svg" in text and "#0072b2" in text.lower()


def test_an_old_directory_is_drawn(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    for name, n in (("b", 0), ("a", 1)):
        make(folder / f"{name}.parquet", [0.0] * n + [float(n)])
    assert curves(plot_history([folder], plot="episode_reward"))[0][1] == [0, 0, 1]


def test_matplotlib_keeps_its_state(tmp_path: Path) -> None:
    import matplotlib

    path = make(tmp_path / "h.parquet", [1.0])
    before = dict(matplotlib.rcParams)
    plot_history([path], output=tmp_path / "out.png")
    assert dict(matplotlib.rcParams) == before


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"paths": [3]}, "plot takes a path, got 3: give a text or a Path, as a result's"),
    ({"paths": 3.5}, "plot takes a path, got 3.5"),
    ({"paths": []}, "There is nothing to plot; name one history or more"),
    ({"paths": ["none.parquet"]}, "none.parquet doesn't exist"),
    ({"paths": ["s3://a/h.parquet"]}, "plot s3://a/h.parquet: URLs are not supported"),
    ({"output": "s3://a/h.png"}, "output s3://a/h.png: URLs are not supported"),
    (
        {"paths": ["last"]},
        r"There is no run in runs: name its directory, or the right --run",
    ),
    ({"plot": "mean_rewards"}, "no column 'mean_rewards'; did you mean mean_reward"),
    ({"plot": "zzz"}, "no column 'zzz'; choose from mean_reward, best_reward"),
    ({"benchmark": "steps"}, "no benchmark 'steps'; did you mean step?"),
    ({"agents": ["a", "b"]}, "2 labels do not fit 1 histories; give one label"),
    ({"smoothing": 0}, "smoothing is 0 episodes; it must be 1 or more"),
    ({"history_interval": 0}, "history_interval is 0 episodes; it must be 1 or more"),
    ({"time_unit": "days"}, "no time unit 'days'; choose from second, minute, hour"),
    (
        {"output": "out.jpg"},
        "out.jpg doesn't name a pict.*end its name in .png or .svg",
    ),
    ({"output": "h.parquet/o.png"}, "h.parquet/o.png cannot be written"),
    ({"output": "folder.png"}, "folder.png cannot be written .*name another output"),
    ({"plot": ["mean_rewards"]}, r"plot takes one name, got \['mean_rewards'\]: call"),
    ({"plot": None}, "plot takes one name, got None"),
    ({"benchmark": ["step"]}, "benchmark takes one name, got .*: call once for each"),
    ({"time_unit": 60}, "time_unit takes one name, got 60"),
    ({"agents": "a"}, r"agents takes a list of labels, got 'a': write agents=\['a'\]"),
    ({"smoothing": "3"}, "smoothing takes a whole number, got '3'"),
    ({"history_interval": 1.5}, "history_interval takes a whole number, got 1.5"),
    ({"plot": "evaluation_reward"}, "evaluation_reward of h.parquet has no values"),
]


def test_a_result_is_not_a_path() -> None:
    with pytest.raises(UserError, match="plot_seeds takes a directory or histories"):
        plot_seeds(object())  # type: ignore[arg-type]
    for given in (object(), [object()]):
        with pytest.raises(UserError, match="report takes a path, got <object"):
            report(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_mistakes(tmp_path: Path, wrong: Any, message: str) -> None:
    make(tmp_path / "h.parquet", [1.0])
    (tmp_path / "folder.png").mkdir()
    before = sorted(os.listdir())
    with pytest.raises(UserError, match=message):
        plot_history(**{"paths": ["h.parquet"], **wrong})
    assert sorted(os.listdir()) == before


def test_an_empty_history(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    made = History(path)
    made.add(1, 1.0, 1.0, 1.0, 1.0)
    made.flush()
    made.cut(0)
    made.flush()
    with pytest.raises(UserError, match="has no values"):
        plot_history([path])


def test_no_permission(tmp_path: Path) -> None:
    path = make(tmp_path / "h.parquet", [1.0])
    tmp_path.chmod(0o555)
    plot_history([path])  # imports what another one may not read
    try:
        with as_nobody():
            for output in ("out.png", "new/out.svg"):
                with pytest.raises(UserError, match="Permission denied"):
                    plot_history(["h.parquet"], output=output)
    finally:
        tmp_path.chmod(0o755)
