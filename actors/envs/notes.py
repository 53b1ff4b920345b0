"""Notes for the user about an environment."""

from xagents_ray.actors.envs import registry
from xagents_ray.core.errors import pluralize
from xagents_ray.core.spec import EnvSpec
from xagents_ray.settings.training import EnvConfig


def env_notes(config: EnvConfig, spec: EnvSpec | None = None) -> tuple[str, ...]:
    """Return notes for the user about an environment and its spec."""
    env_id = str(config.env)
    newest = None if ":" in env_id else registry.newest_version(env_id)
    found = []
    if newest not in (None, env_id):
        found.append(f"{env_id} is outdated; its newest version is {newest}")
    if spec is not None and spec.flattened:
        found.append(
            f"{env_id} has {spec.flattened} observations, flattened to vectors of "
            f"{pluralize(spec.observation_shape[0], 'number')}; to read images, return "
            "uint8 arrays [H, W, C] from a function that --state-to-input names"
        )
    if spec is not None and spec.has_several_arrays:
        kinds = {True: list[str](), False: list[str]()}
        for each in spec.inputs:
            kinds[each.is_image].append(each.name)
        vectors = f" and the vectors {', '.join(kinds[False])}" * bool(kinds[False])
        found.append(f"{env_id} has the images {', '.join(kinds[True])}{vectors}")
    if spec is not None and spec.channels_first:
        *sides, channels = spec.observation_shape if spec.is_image else ("H", "W", "C")
        found.append(
            f"{env_id} has images {_shape(channels, *sides)} with the channels first, "
            f"which are read as {_shape(*sides, channels)}; if they are stacks of "
            "frames already, add --frame-stack 1"
        )
    if spec is not None and spec.has_action_masks:
        found.append(
            f"{env_id} gives masks of the actions that it allows, and no others are "
            "taken; --no-action-masks ignores them"
        )
    for name in () if spec is None else spec.remembering:
        found.append(
            f"The wrapper {name} keeps a state from one episode to the next: "
            "evaluations, play and loaded policies start without it, and --resume too "
            "unless it has get_state and set_state; the statistics of "
            "--normalize-observations and --normalize-rewards are saved with the run"
        )
    return tuple(found)


def _shape(*sides: object) -> str:
    return f"[{', '.join(map(str, sides))}]"
