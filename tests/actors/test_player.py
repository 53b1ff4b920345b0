"""Playing: the games, their videos, frames and window, and what is said of them."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import av
import cv2
import gymnasium as gym
import numpy as np
import pytest
from acting import FIXED, SHORT_ATARI, actors_games, run_of, setup_of, weights_of
from disks import full_disk, names
from processes import python, start
from stepping import Stepping

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.player import Player
from xagents_ray.core.errors import Stopped, UserError
from xagents_ray.core.trajectory import Episode
from xagents_ray.policy.episodes import (
    Evaluation,
    episode_line,
    evaluate_policy,
    show_episodes,
)
from xagents_ray.settings.episodes import EvaluateConfig, PlayConfig

pytestmark = pytest.mark.usefixtures("short_atari")
SEED = 5
SUPPORT = Path(__file__).parents[1] / "support"
HERE: dict[str, Any] = {
    "cwd": Path(__file__).parent,
    "env": {**os.environ, "PYTHONPATH": str(SUPPORT)},
}
"""Where a process can import this module."""
PONG = {"env": "PongNoFrameskip-v4", "preprocess": True}


class Painted(Stepping):
    """Episodes of 6 steps whose pictures of odd size show the step's number."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12.5}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def render(self) -> Any:
        return painting(self.steps)


def painting(number: int) -> Any:
    """Return 45x67 of red and blue, brighter with the number."""
    picture = np.zeros((45, 67, 3), np.uint8)
    picture[:, :33, 0] = picture[:, 33:, 2] = 40 + 30 * number
    return picture


class Blind(Painted):
    """Says that it gives pictures, and can't."""

    def __init__(self) -> None:
        super().__init__("rgb_array")

    def render(self) -> Any:
        raise NotImplementedError


class Speechless(Painted):
    """Takes the render mode and yet gives nothing."""

    def render(self) -> Any:
        return None


class Growing(Painted):
    """Pictures that change their size."""

    def render(self) -> Any:
        return np.zeros((40 + 2 * self.steps, 40, 3), np.uint8)


class Noisy(Painted):
    """Pictures that no codec can make small."""

    def render(self) -> Any:
        return self.np_random.integers(256, size=(200, 300, 3), dtype=np.uint8)


class Interrupted(Painted):
    """Its player is stopped in the middle of a game."""

    player: Any

    def step(self, action: Any) -> Any:
        if self.steps == 3:
            self.player.stop()
        return super().step(action)


def painted_by_itself() -> Painted:
    return Painted("rgb_array")


def painted_without_pictures() -> Painted:
    return Painted()


def games_of(
    settings: dict[str, Any], agent: str = "ppo", **config: Any
) -> list[Episode]:
    setup = setup_of(agent, 1, vectorization="sync", **settings)
    with contextlib.closing(Player(setup, PlayConfig(**config))) as player:
        return list(player.play(weights_of(setup), SEED))


def read_video(path: Path) -> tuple[Any, float]:
    """Return uint8 [T, H, W, 3], RGB, and the frames a second."""
    reader = cv2.VideoCapture(str(path))
    fps, frames = reader.get(cv2.CAP_PROP_FPS), []
    while True:
        found, frame = reader.read()
        if not found:
            break
        frames.append(frame[..., ::-1])
    assert len(frames) == reader.get(cv2.CAP_PROP_FRAME_COUNT)
    reader.release()
    return np.stack(frames), fps


@pytest.mark.parametrize(
    ("agent", "settings", "games"),
    [
        ("ppo", {"env": "CartPole-v1"}, 3),
        ("dqn", {"env": "CartPole-v1", **FIXED}, 3),
        ("ppo", {"env": "Pendulum-v1"}, 1),
        ("ppo", {**SHORT_ATARI, "max_frame": True}, 3),
    ],
)
def test_games_are_those_of_training(
    agent: str, settings: dict[str, Any], games: int
) -> None:
    """Frame skip, stack, resets and noise are an env actor's."""
    setup = setup_of(agent, 1, vectorization="sync", **settings)
    expected = actors_games(setup, games)
    assert games_of(settings, agent, sample=True, episodes=games) == expected


def test_pictures_change_no_game(tmp_path: Path) -> None:
    settings = {"env": "CartPole-v1"}
    seen = games_of(settings, episodes=3, video_dir=str(tmp_path))
    assert seen == games_of(settings, episodes=3)
    assert len({game.length for game in seen}) > 1


def test_a_stopped_player_leaves_no_part_of_a_video(tmp_path: Path) -> None:
    setup = setup_of("ppo", 1, env="test_player:Interrupted")
    player = Player(setup, PlayConfig(video_dir=str(tmp_path)))
    Interrupted.player = player
    with pytest.raises(Stopped):
        next(player.play(weights_of(setup), SEED))
    assert names(tmp_path) == [".game-1.partial.mp4"]
    player.close()
    assert names(tmp_path) == []


def test_only_the_last_frame_of_each_episode(tmp_path: Path) -> None:
    """A video has all of them even so."""
    frames = str(tmp_path / "frames")
    own = {"frame_dir": frames, "video_dir": str(tmp_path), "render_end": True}
    games_of({"env": "test_player:Painted"}, episodes=2, frame_frequency=5, **own)
    assert names(Path(frames)) == ["game-1-000006.jpg", "game-2-000006.jpg"]
    assert len(read_video(tmp_path / "game-2.mp4")[0]) == 7


def test_the_video_and_the_frames_show_every_step(tmp_path: Path) -> None:
    videos, frames = tmp_path / "a" / "videos", tmp_path / "frames"
    games_of(
        {"env": "test_player:Painted"},
        episodes=10,
        video_dir=str(videos),
        frame_dir=str(frames),
        frame_frequency=3,
    )
    assert names(videos) == [f"game-{i:02}.mp4" for i in range(1, 11)]
    pictures, fps = read_video(videos / "game-10.mp4")
    # The codec takes even sides only: a row and a column are repeated.
    assert (pictures.shape, fps) == ((7, 46, 68, 3), 12.5)
    expected = np.stack([painting(number) for number in range(7)]).astype(int)
    assert np.abs(pictures[:, :45, :67] - expected)[:, :, [5, 20, 45, 60]].max() < 12
    np.testing.assert_array_equal(pictures[:, 45], pictures[:, 44])
    assert names(frames)[:4] == [
        "game-01-000000.jpg",
        "game-01-000003.jpg",
        "game-01-000006.jpg",
        "game-02-000000.jpg",
    ]
    assert len(names(frames)) == 30
    picture = cv2.imread(str(frames / "game-02-000003.jpg"))[..., ::-1].astype(int)
    assert picture.shape == (45, 67, 3)
    assert np.abs(picture - painting(3))[:, [5, 20, 45, 60]].max() < 12


@pytest.mark.parametrize(
    ("settings", "shape", "fps"),
    [
        ({"env": "CartPole-v1"}, (400, 600, 3), 50),
        ({"env": "Pendulum-v1"}, (500, 500, 3), 30),
        (PONG, (210, 160, 3), 30),
        ({"env": "test_player:painted_by_itself"}, (46, 68, 3), 12.5),
        ({"env": "gym:CartPole-v1"}, (400, 600, 3), 50),
    ],
)
def test_videos_are_as_long_and_large_as_the_game(
    settings: dict[str, Any], shape: tuple[int, ...], fps: float, tmp_path: Path
) -> None:
    (game,) = games_of(settings, video_dir=str(tmp_path))
    pictures, found = read_video(tmp_path / "game-1.mp4")
    assert pictures.shape == (game.length + 1, *shape)
    assert found == fps
    assert (pictures[0] != pictures[-1]).any()
    if settings == PONG:  # in colour: the right bat is green, whoever plays it
        right = pictures[:, 34:194, 140:144].reshape(-1, 3).astype(int)
        assert (right[:, 1] - right[:, 0] > 60).any()


def test_browsers_can_play_the_videos(tmp_path: Path) -> None:
    """A new game takes the place of an old video."""
    path = tmp_path / "game-1.mp4"
    path.write_text("old")
    games_of({"env": "test_player:Painted"}, video_dir=str(tmp_path))
    assert names(tmp_path) == ["game-1.mp4"] and len(read_video(path)[0]) == 7
    with av.open(str(path)) as file:
        (stream,) = file.streams
        context = stream.codec_context
        assert (context.name, context.pix_fmt) == ("h264", "yuv420p")
        assert (context.width, context.height, stream.average_rate) == (68, 46, 12.5)
    data = path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")  # they play it while it comes


def test_without_pictures_nothing_is_drawn() -> None:
    games = games_of({"env": "test_player:Blind"}, episodes=2)
    assert [game.length for game in games] == [6, 6]


gym.register("player/Blind-v0", Blind)
MAKE_IT = 'must make it with render_mode="rgb_array"'


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("test_player:Blind", MAKE_IT),
        ("test_player:Speechless", MAKE_IT),
        ("test_player:painted_without_pictures", MAKE_IT),
        ("player/Blind-v0", "player/Blind-v0 gives no pictures"),
    ],
)
def test_an_environment_without_pictures(env: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        games_of({"env": env}, frame_dir=str(tmp_path))
    assert names(tmp_path) == []


def test_pictures_that_change_their_size(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="use --frame-dir"):
        games_of({"env": "test_player:Growing"}, video_dir=str(tmp_path))
    assert names(tmp_path) == []
    games_of({"env": "test_player:Growing"}, frame_dir=str(tmp_path))
    assert len(names(tmp_path)) == 7


@pytest.mark.parametrize("flag", ["video_dir", "frame_dir"])
def test_a_folder_that_cannot_be_made(flag: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = str(tmp_path / "file" / "folder")
    with pytest.raises(UserError, match=f"--{flag.replace('_', '-')} .* can't be made"):
        games_of({"env": "test_player:Painted"}, **{flag: path})


@pytest.mark.parametrize(
    ("flag", "blocked"),
    [("video_dir", ".game-1.partial.mp4"), ("frame_dir", "game-1-000000.jpg")],
)
def test_a_file_that_cannot_be_written(flag: str, blocked: str, tmp_path: Path) -> None:
    (tmp_path / blocked).mkdir()
    with pytest.raises(UserError, match="can't be written"):
        games_of({"env": "test_player:Painted"}, **{flag: str(tmp_path)})


@pytest.mark.parametrize("flag", ["video_dir", "frame_dir"])
def test_a_disk_without_space(flag: str, tmp_path: Path) -> None:
    """A limit on files' sizes stands for it."""
    with full_disk(20_000), pytest.raises(UserError, match="disk"):
        games_of({"env": "test_player:Noisy"}, **{flag: str(tmp_path)})
    assert "game-1.mp4" not in names(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="only there is DISPLAY needed")
@pytest.mark.parametrize("display", [None, ":12345"])
def test_no_display(display: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    if display is not None:
        monkeypatch.setenv("DISPLAY", display)
    with pytest.raises(UserError, match="use --video-dir or --frame-dir"):
        games_of({"env": "CartPole-v1"}, render=True)


_WATCH = """
import sys, pygame
from test_player import PlayConfig, Player, Stopped, setup_of, weights_of
setup = setup_of("ppo", 1, env="test_player:Painted")
player = Player(setup, PlayConfig(render=True, episodes=2, video_dir=sys.argv[1]))
games = player.play(weights_of(setup), 5)
next(games)
print(pygame.surfarray.array3d(pygame.display.get_surface())[[20, 50], 20].tolist())
pygame.event.post(pygame.event.Event(pygame.QUIT))
try:
    next(games)
except Stopped:
    print("closed")
player.close()
"""


@pytest.mark.skipif(shutil.which("Xvfb") is None, reason="needs Xvfb")
def test_a_window_shows_the_game_until_it_is_closed(tmp_path: Path) -> None:
    read, write = os.pipe()
    command = ["Xvfb", "-displayfd", str(write), "-screen", "0", "640x480x24"]
    with subprocess.Popen(command, pass_fds=[write], stderr=subprocess.DEVNULL) as x:
        try:
            os.close(write)
            with os.fdopen(read) as answer:
                display = f":{answer.readline().strip()}"
            environment = {**HERE["env"], "DISPLAY": display}
            settings = {**HERE, "env": environment, "timeout": 60}
            done = python("-c", _WATCH, str(tmp_path), **settings)
        finally:
            x.terminate()
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["[[220, 0, 0], [0, 0, 220]]", "closed"]
    assert names(tmp_path) == ["game-1.mp4"]


def front_door(function: Any, config: Any, *more: Any, **settings: Any) -> Evaluation:
    run = run_of("ppo", settings.pop("n_envs", 1), **settings)
    weights = weights_of(ActorSetup.of(run, 1))
    result: Evaluation = function(run, weights, config, *more)
    return result


_LOADED = """
import sys
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.policy.loading import load_policy

def main():
    for path in sys.argv[1:]:
        given = {"env": "CartPole-v1", "weights": (path,)}
        try:
            print(sorted(load_policy(find_algorithm("a2c"), given).weights.arrays))
        except UserError as error:
            print(error)
    print("tensorflow" in sys.modules)

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_weights_are_read_without_tensorflow_beside_the_window(tmp_path: Path) -> None:
    """It and the window's renderer end in a segmentation fault in one process."""
    data = Path(__file__).parents[1] / "data" / "xagents-1.0.1" / "a2c-cartpole.tf"
    broken, script = tmp_path / "a.weights.h5", tmp_path / "loaded.py"
    broken.write_bytes(b"no HDF5")
    script.write_text(_LOADED)
    done = python(str(script), str(data), str(broken))
    assert done.stderr == ""
    arrays, complaint, has_tensorflow = done.stdout.splitlines()
    assert "dense-0/kernel" in arrays
    assert complaint.startswith(f"{broken}: not a .weights.h5 weights file")
    assert has_tensorflow == "False"


def test_play_prints_a_line_for_each_game() -> None:
    said: list[str] = []
    config = PlayConfig(episodes=2, seed=SEED)
    games = front_door(show_episodes, config, said.append, env="test_player:Blind")
    assert said == [f"episode {i}: reward 6.00, 6 env steps" for i in (1, 2)]
    assert (games.seed, games.signal, len(games.episodes)) == (SEED, None, 2)


def test_a_seed_is_drawn_and_returned() -> None:
    config = PlayConfig(episodes=3)
    first = front_door(show_episodes, config, print, env="CartPole-v1")
    again = PlayConfig(episodes=3, seed=first.seed)
    assert front_door(show_episodes, again, print, env="CartPole-v1") == first


@pytest.mark.parametrize(
    ("index", "message"),
    [(1, "1 units and the environment's actions need 2"), (2, "has 2 outputs")],
)
def test_an_output_that_holds_no_action(index: int, message: str) -> None:
    with pytest.raises(UserError, match=f"--action-idx {index}: .*{message}.*; use 0"):
        config = PlayConfig(action_idx=index)
        front_door(show_episodes, config, print, env="CartPole-v1")


def test_action_idx_takes_the_action_from_another_output() -> None:
    """Pendulum's value is as wide as its action, so it can stand for one."""
    settings = {"env": "Pendulum-v1"}
    games = [
        front_door(
            show_episodes, PlayConfig(seed=SEED, action_idx=i), print, **settings
        )
        for i in (0, 1)
    ]
    setup = setup_of("ppo", 1, vectorization="sync", **settings)
    arrays = dict(weights_of(setup).arrays)
    layers = [setup.layout.layers[i].name for i in setup.layout.outputs]
    for part in ("kernel", "bias"):
        names = [f"{name}/{part}" for name in layers]
        arrays[names[0]], arrays[names[1]] = arrays[names[1]], arrays[names[0]]
    with contextlib.closing(Player(setup, PlayConfig())) as player:
        swapped = player.play(weights_of(setup)._replace(arrays=arrays), SEED)
        assert games[1].episodes == tuple(swapped) != games[0].episodes


@pytest.mark.parametrize("n_envs", [1, 4, 9])
def test_evaluate(n_envs: int) -> None:
    config = EvaluateConfig(episodes=6, seed=SEED)
    settings = {"env": "CartPole-v1", "n_envs": n_envs}
    games = front_door(evaluate_policy, config, **settings)
    assert games == front_door(evaluate_policy, config, **settings)
    assert len(games.episodes) == 6
    assert max(episode.env for episode in games.episodes) == min(n_envs, 6) - 1
    sampled = EvaluateConfig(episodes=6, seed=SEED, sample=True)
    assert games.episodes != front_door(evaluate_policy, sampled, **settings).episodes


_SIGNALLED = """
from test_player import EvaluateConfig, evaluate_policy, front_door
config = EvaluateConfig(episodes=10**6, seed=1)
print("playing", flush=True)
games = front_door(evaluate_policy, config, env="test_player:Painted")
print(games, games.signal)
"""


def test_a_signal_ends_an_evaluation() -> None:
    with start("-c", _SIGNALLED, **HERE) as process:
        process.stdout.readline()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "0 episodes, seed 1 15\n"
    assert process.returncode == 0


THREE = Episode(0, 3, 2.0, 4), Episode(0, 9, 4.0, 5), Episode(1, 7, 9.0, 8)
PLAYED = Evaluation(THREE, 7)


def test_summary() -> None:
    found = PLAYED.summary()
    assert found.pop("std") == PLAYED.std == pytest.approx(np.sqrt((9 + 1 + 16) / 3))
    assert found == {
        "mean": 5.0,
        "min": 2.0,
        "max": 9.0,
        "episodes": 3,
        "seed": 7,
        "returns": [2.0, 4.0, 9.0],
        "lengths": [4, 5, 8],
    }


def test_evaluations_and_episodes_are_lines() -> None:
    line = "mean 5.00, std 2.94, min 2.00, max 9.00 of 3 episodes, seed 7"
    assert str(PLAYED) == line
    assert repr(PLAYED) == f"<Evaluation: {line}>"
    assert episode_line(3, PLAYED.episodes[1]) == "episode 3: reward 4.00, 5 env steps"
