"""Names of Python objects that settings hold."""

import functools
import json

from xagents_ray.core import objects


class Outer:
    class Inner:
        pass

    def method(self) -> None:
        pass


def test_what_can_be_imported_has_its_place() -> None:
    assert objects.keep("env", Outer) == f"{__name__}:Outer"
    assert objects.keep("env", Outer.Inner) == f"{__name__}:Outer.Inner"
    assert objects.keep("env", json.dumps) == "json:dumps"
    assert objects.find_kept("env", f"{__name__}:Outer") is None


def test_others_are_kept_by_their_own_names() -> None:
    class Local:
        pass

    short = lambda: 1  # noqa: E731
    method = Outer().method
    given = [Local, short, method, functools.partial(Local), Local()]
    names = []
    for each in given:
        names.append(objects.keep("wrappers", each, taken=names))
        assert objects.find_kept("wrappers", names[-1]) is each
    assert names == ["Local", "lambda", "method", "Local-2", "Local-3"]
    assert objects.find_kept("env", "Local") is None


def test_the_newest_of_a_name_counts() -> None:
    """A notebook's cell is run again."""
    for each in (lambda: 1, lambda: 2):
        assert objects.keep("env", each) == "lambda"
    found = objects.find_kept("env", "lambda")
    assert found is not None and found() == 2


def test_they_come_whole_to_another_process() -> None:
    name = objects.keep("model", lambda: 3)
    sent = objects.export_objects([("model", name), ("model", "of no object")])
    objects.keep("model", lambda: 4)
    objects.install_objects(sent)
    found = objects.find_kept("model", name)
    assert found is not None and found() == 3


def test_what_a_run_knows_by_another_place() -> None:
    """Its script defined it, and now it is imported; or the other way round."""
    here = f"{__name__}:Outer"
    assert objects.as_stored("env", here, "Outer") == "Outer"
    assert objects.find_kept("env", "Outer") is Outer
    assert objects.as_stored("env", "Outer", "gone:Outer") == "gone:Outer"
    assert objects.find_kept("env", "gone:Outer") is Outer
    given, stored = (here, f"{__name__}:Outer.Inner"), ("Outer", "Inner")
    assert objects.as_stored("wrappers", given, stored) == stored
    assert objects.find_kept("wrappers", "Inner") is Outer.Inner


def test_other_values_stay() -> None:
    for given, stored in (
        ("CartPole-v1", "Acrobot-v1"),
        ("ale_py:CartPole-v1", "CartPole-v1"),
        (f"{__name__}:Outer", "Other"),
        ("a.cfg", "b.cfg"),
        (("json:dumps",), ("dumps", "loads")),
        (3, "3"),
        (None, "Outer"),
    ):
        assert objects.as_stored("env", given, stored) == given
