"""Several actors that run the same calls, called like one."""

from collections.abc import Mapping, Sequence
from typing import Any


class ActorGroup:
    """Handles of actors, of which the first one answers for all.

    Args:
        actors: the handles.
        joint: methods that all actors run, each with the name of the method that the
            others than the first one run; any other method is the first one's.
    Attributes:
        actors: the handles.
    """

    def __init__(self, actors: Sequence[Any], joint: Mapping[str, str]) -> None:
        self.actors, self._joint = tuple(actors), joint

    def __getattr__(self, name: str) -> Any:
        first, *others = self.actors
        method = getattr(first, name)
        if (others_name := self._joint.get(name)) is None:
            return method
        return _JointMethod(method, [getattr(each, others_name) for each in others])


class _JointMethod:
    """A method of all actors; it returns references of the first one."""

    def __init__(self, first: Any, others: Sequence[Any]) -> None:
        self._first, self._others = first, others

    def options(self, num_returns: int = 1, **shared: Any) -> "_JointMethod":
        """Return the method with Ray's options; the others return one value each."""
        others = [each.options(**shared) for each in self._others]
        return _JointMethod(
            self._first.options(num_returns=num_returns, **shared), others
        )

    def remote(self, *arguments: Any) -> Any:
        """Call all actors; return what Ray returns for the first one."""
        for each in self._others:
            each.remote(*arguments)
        return self._first.remote(*arguments)


def actors_of(actor: Any) -> tuple[Any, ...]:
    """Return the handles of a group, or the handle of a single actor."""
    return actor.actors if isinstance(actor, ActorGroup) else (actor,)
