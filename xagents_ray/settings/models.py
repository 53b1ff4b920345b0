"""Options that name the files of networks."""

from collections.abc import Callable
from typing import Any

from xagents_ray.settings import from_python
from xagents_ray.settings.options import option, positive, shared


def _network(what: str, **facts: Any) -> Callable[..., Any]:
    """Return a function that declares an option for a network's file."""
    return shared(
        option,
        f"Path to {what} .cfg or .keras file; from Python also a Keras model, or a "
        "function of the environment that makes one",
        is_path=True,
        takes="Callable[..., Any]",
        expected="the path of a .cfg or .keras file that has the layers, or from "
        "Python a Keras model or a function that makes one",
        to_plain=from_python.network,
        **facts,
    )


model = _network("model", acts=True, known_as=("model_maker",), common=True)
actor_model = _network("actor model", acts=True, common=True)
critic_model = _network("critic model")
critic_lr = shared(positive, "Learning rate of the critic; default: that of --lr")
feature_maker = shared(
    option,
    "module:function of the environment that makes a Keras model of features, from "
    "Python the function; networks that have no file and read observations get "
    "their outputs after it",
    takes="Callable[..., Any]",
    expected="module:function, or from Python the function",
    to_plain=from_python.network,
    known_as=("features_extractor", "features_extractor_class"),
    replaces=("model",),
)
