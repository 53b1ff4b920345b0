"""The user's own code during a run: when it is called, and what it may do."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from sessions import RUN, raising, steps, summary, train

from xagents_ray import Callback, Result, RunContext
from xagents_ray.core.errors import Broken, Diverged, UserError
from xagents_ray.settings.options import options, plain_values
from xagents_ray.settings.run import RunConfig
from xagents_ray.storage.history import read_history
from xagents_ray.watch.callbacks import EVENTS, load_callbacks

CONTEXT = "env_steps", "updates", "episodes", "mean_reward", "best_reward"


class Log(Callback):
    """Notes every event with what it was given, and the run's env steps and updates."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def __getattribute__(self, name: str) -> Any:
        if name not in EVENTS:
            return super().__getattribute__(name)
        return lambda ctx, *given: self.events.append(
            (name, ctx.env_steps, ctx.updates, *given)
        )


def own_callbacks(given: Any) -> tuple[list[Callback], tuple[str, ...] | None]:
    """Return what `callbacks=` gives, and its names in the settings."""
    settings = plain_values(options(RunConfig), {"callbacks": given})
    names = RunConfig(**settings).callbacks
    return load_callbacks(names, is_resumed=False)[0], names


def test_every_event_comes_when_it_happened() -> None:
    log, driver = Log(), FakeDriver([[1, 2], [3, 4]])
    driver.scores.append(7.0)
    train(driver, max_steps=4, eval_every=2, eval_episodes=1, callbacks=[log])
    (*_, (_, _, _, result)) = log.events
    assert isinstance(result, Result) and result.reason == "Reached --max-steps"
    written = [RUN / "checkpoints" / f"step-00000000000{n}" for n in (2, 4)]
    assert [(name, *rest) for name, *rest in log.events] == [
        ("on_start", 0, 0),
        ("on_episode", 2, 0, (1, 1.0, 1, 1.0, None, None, None, 1.0)),
        ("on_episode", 2, 0, (2, 2.0, 1, 1.5, None, None, None, 1.0)),
        ("on_rollout", 2, 0),
        ("on_update", 2, 1, {"loss": 0.5}),
        ("on_evaluation", 2, 1, 2, 7.0),
        ("on_episode", 4, 1, (3, 3.0, 1, 2.0, 2.0, None, None, 1.0)),
        ("on_episode", 4, 1, (4, 4.0, 1, 3.0, 3.0, None, None, 1.0)),
        ("on_rollout", 4, 1),
        ("on_update", 4, 2, {"loss": 0.5}),
        ("on_checkpoint", 4, 2, written[0]),
        ("on_checkpoint", 4, 2, written[1]),
        ("on_end", 4, 2, result),
    ]
    assert {event for event, *_ in log.events} == {*EVENTS}
    assert all(path.is_dir() for path in written)


def test_a_phase_without_an_update_is_no_event() -> None:
    """A signal stopped it, or its data was lost."""
    log, driver = Log(), FakeDriver([[1], [2], [3]])
    found = iter([{"loss": 0.5}, {}, {"loss": 0.25}])
    driver.metrics = lambda: next(found)
    train(driver, max_steps=3, callbacks=[log])
    updates = [given for name, _, _, *given in log.events if name == "on_update"]
    assert updates == [[{"loss": 0.5}], [{"loss": 0.25}]]


def test_a_context_says_where_the_run_is() -> None:
    seen = []

    def look(ctx: RunContext) -> None:
        assert ctx.directory == RUN and ctx.seconds >= 0.0
        seen.append(tuple(getattr(ctx, name) for name in CONTEXT))

    callbacks, names = own_callbacks(look)
    assert names == ("look",)
    train(FakeDriver([[1, 2], [3, 4]]), max_steps=4, callbacks=callbacks)
    assert seen == [(2, 0, 2, 1.5, None), (4, 1, 4, 3.0, 3.0)]


@pytest.mark.parametrize("answer", [False, np.False_])
def test_false_ends_the_run_in_order(answer: Any) -> None:
    class Stop(Log):
        def __getattribute__(self, name: str) -> Any:
            if name == "on_rollout":
                return lambda ctx: answer if ctx.env_steps == 2 else None
            return super().__getattribute__(name)

    stop, driver = Stop(), FakeDriver([[1], [1], [1]])
    result = train(driver, callbacks=[stop])
    assert (
        result.reason == summary()["reason"] == "Stopped by Stop.on_rollout at 2 steps"
    )
    assert (result.updates, steps()) == (2, [2])  # it learned from its last rollout
    assert [name for name, *_ in stop.events][-2:] == ["on_checkpoint", "on_end"]


@pytest.mark.parametrize("answer", [None, True, 0, np.True_])
def test_other_answers_do_not(answer: Any) -> None:
    callbacks, _ = own_callbacks([lambda ctx: answer])
    result = train(FakeDriver([[1], [1]]), max_steps=2, callbacks=callbacks)
    assert result.reason == "Reached --max-steps"


def test_a_run_that_is_stopped_at_its_start_takes_no_step() -> None:
    class Stop(Callback):
        def on_start(self, ctx: RunContext) -> bool:
            return False

    result = train(FakeDriver(), callbacks=[Stop()])
    assert result.reason == "Stopped by Stop.on_start at 0 steps"


def test_own_metrics_are_in_the_history() -> None:
    class Own(Callback):
        def on_episode(self, ctx: RunContext, episode: Any) -> None:
            ctx.log("doubled", np.float32(2 * episode.episode_return))

        def on_end(self, ctx: RunContext, result: Result) -> None:
            assert read_history(ctx.directory / "history.parquet")["doubled"][-1] == 8

    train(FakeDriver([[1, 2], [3, 4]]), max_steps=4, callbacks=[Own()])
    rows = read_history(RUN / "history.parquet")
    np.testing.assert_array_equal(rows["doubled"], [np.nan, 4, np.nan, 8])


class Plain:
    """Has methods for two events, and is no Callback."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_episode(self, ctx: RunContext, episode: Any) -> bool:
        self.seen.append("on_episode")
        return bool(episode.episode_return < 3)

    def on_end(self, ctx: RunContext, result: Result) -> None:
        self.seen.append("on_end")


def test_any_object_with_methods_for_events_is_a_callback() -> None:
    plain, seen = Plain(), list[str]()
    namespace = SimpleNamespace(on_update=lambda *_: seen.append("on_update"))
    callbacks, names = own_callbacks([plain, namespace, Plain])
    assert names == ("Plain", "SimpleNamespace", "test_callbacks:Plain")
    result = train(FakeDriver([[1], [3], [1]]), callbacks=callbacks)
    assert result.reason == "Stopped by Plain.on_episode at 2 steps"
    assert plain.seen == ["on_episode", "on_episode", "on_end"]
    assert seen == ["on_update", "on_update"]


class Failing(Log):
    """Raises at one event."""

    def __init__(self, event: str, error: Exception) -> None:
        super().__init__()
        self.event, self.error = event, error

    def __getattribute__(self, name: str) -> Any:
        if name in EVENTS and name == self.event:
            return lambda *given: self.fail()
        return super().__getattribute__(name)

    def fail(self) -> None:
        raise self.error


@pytest.mark.parametrize("event", EVENTS)
def test_an_error_saves_the_run_and_starts_at_the_users_frame(event: str) -> None:
    error = ZeroDivisionError("mine")
    failing, other, driver = Failing(event, error), Log(), FakeDriver([[1], [1]])
    driver.scores.append(7.0)
    settings = {"max_steps": 2, "eval_every": 1, "eval_episodes": 1}
    with pytest.raises(Broken) as raised:
        train(driver, callbacks=[other, failing], **settings)
    began = event != "on_start"
    assert steps() == ([2, 1] if event in ("on_checkpoint", "on_end") else [1] * began)
    message = str(raised.value)
    assert message.startswith(f"Failing.{event}: ZeroDivisionError: mine (")
    assert message.endswith(f"and continue with --resume {RUN}.") == began
    assert summary()["reason"] == message or event == "on_end"
    assert other.events[-1][0] == event  # none is called after an error
    assert raised.value.trace.splitlines()[1].endswith("in <lambda>")
    assert raised.value.__cause__ is error and error.__traceback__ is not None
    assert error.__traceback__.tb_frame.f_code.co_filename == __file__
    assert driver.events[-1] == ("close",)


def test_an_error_in_the_run_is_told_and_stays_the_first_one() -> None:
    driver, log = FakeDriver([[1], raising(Diverged("loss is nan"))]), Log()
    with pytest.raises(Diverged, match="loss is nan"):
        train(driver, callbacks=[log, Failing("on_end", KeyError("second"))])
    assert log.events[-1][0] == "on_end"
    assert log.events[-1][-1].reason == "loss is nan"


OWN = """
import xagents_ray

class Own(xagents_ray.Callback):
    pass

class Stray(xagents_ray.Callback):
    def on_episodes(self, ctx, episode): ...

class Habit(xagents_ray.Callback):
    def _on_step(self): ...

def after(ctx): ...

made = Own()
"""


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("own_callbacks.py").write_text(OWN)
    monkeypatch.syspath_prepend(Path.cwd())
    monkeypatch.delitem(sys.modules, "own_callbacks", raising=False)


@pytest.mark.usefixtures("own")
def test_what_callbacks_may_be() -> None:
    words = "own_callbacks:Own", "own_callbacks:made", "own_callbacks:after"
    found, names = own_callbacks([*words])
    assert [type(each).__name__ for each in found] == ["Own", "Own", "_AfterRollouts"]
    assert names == words
    made = found[1]
    found, names = own_callbacks([type(made), made, Log(), lambda ctx: None])
    assert names == ("own_callbacks:Own", "Own", "Log", "lambda")
    assert found[1] is made
    assert own_callbacks([made, made])[1] == ("Own", "Own-2")
    assert own_callbacks(made) == ([made], ("Own",))
    assert own_callbacks(None) == own_callbacks([]) == ([], None)


@pytest.mark.usefixtures("own")
def test_the_callbacks_of_a_run_that_is_resumed() -> None:
    found, notes = load_callbacks(("own_callbacks:Own", "Elsewhere"), is_resumed=True)
    assert [type(each).__name__ for each in found] == ["Own"]
    assert notes == [
        "This run had callbacks passed from Python (Elsewhere): pass them again in "
        "callbacks=[…] to keep them"
    ]
    with pytest.raises(UserError, match="name it as package"):
        load_callbacks(("Elsewhere",), is_resumed=False)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("own_callbacks:Stray", "Stray.on_episodes .* did you mean on_episode?"),
        ("own_callbacks:Habit", "Habit._on_step .* did you mean on_rollout?"),
        (dict, "--callbacks builtins:dict is <class 'dict'>: take"),
        ([Callback(), 3], "--callbacks takes callbacks: .* on_episode, .*, got 3"),
        (3, "--callbacks takes callbacks: objects with methods such .*, got 3"),
        (object(), "--callbacks takes callbacks: .*, got <object object"),
        (SimpleNamespace(on_epsiode=print), r"\.on_epsiode .* did you mean on_episode"),
        (SimpleNamespace(on_episode=3), r"--callbacks SimpleNamespace is .*: take an"),
    ],
)
def test_what_they_may_not_be(given: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        own_callbacks(given)
