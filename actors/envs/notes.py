"""Notes for the user about an environment."""

from xagents_ray.actors.envs import registry
from xagents_ray.core.errors import pluralize
from xagents_ray.core.spec import EnvSpec
from xagents_ray.settings.training import EnvConfig


def env_notes(config: EnvConfig, spec: EnvSpec | None = None) -> tuple[str, ...]:
    """Return notes for the user about an environment and its spec."""
    env_id = str(config.env)
    newest = None if ":" in env_id else registry.newest_version(env_id)
    found = [] if spec is None else _spec_notes(env_id, spec)
    if newest not in (None, env_id):
        found.insert(0, f"{env_id} is outdated; its newest version is {newest}")
    return tuple(found)


def _spec_notes(env_id: str, spec: EnvSpec) -> list[str]:
    found: list[str] = []
    if spec.flattened:
        found.append(
            f"{env_id} has {spec.flattened} observations, flattened to vectors of "
            f"{pluralize(spec.observation_shape[0], 'number')}; to read images, return "
            "uint8 arrays [H, W, C] from a function that --state-to-input names"
        )
    if spec.has_several_arrays:
        images, vectors = (
            ", ".join(x.name for x in spec.inputs if x.is_image == is_image)
            for is_image in (True, False)
        )
        more = f" and the vectors {vectors}" if vectors else ""
        found.append(f"{env_id} has the images {images}{more}")
    if spec.channels_first:
        *sides, channels = spec.observation_shape if spec.is_image else ("H", "W", "C")
        found.append(
            f"{env_id} has images {_shape(channels, *sides)} with the channels first, "
            f"which are read as {_shape(*sides, channels)}; if they are stacks of "
            "frames already, add --frame-stack 1"
        )
    if spec.has_action_masks:
        found.append(
            f"{env_id} gives masks of the actions that it allows, and no others are "
            "taken; --no-action-masks ignores them"
        )
    for name in spec.remembering:
        found.append(
            f"The wrapper {name} keeps a state from one episode to the next: "
            "evaluations, play and loaded policies start without it, and --resume too "
            "unless it has get_state and set_state; the statistics of "
            "--normalize-observations and --normalize-rewards are saved with the run"
        )
    return found


def _shape(*sides: object) -> str:
    return f"[{', '.join(map(str, sides))}]"
