"""Environment variables of the Ray actors of a run or a sweep."""

from collections.abc import Mapping

from xagents_ray.core.errors import UserError
from xagents_ray.settings.resources import ConnectionConfig


def worker_variables(
    connection: ConnectionConfig, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of `--worker-env` with their values.

    They are given to each actor and not to `ray.init`, which refuses a variable that a
    submitted job sets too.

    Args:
        connection: the setting.
        environ: environment variables of this process, for names without a value.
    Raises:
        UserError: a variable without a value isn't set here.
    """
    found = {}
    for each in connection.worker_env or ():
        name, is_given, value = each.partition("=")
        if not is_given and name not in environ:
            raise UserError(
                f"--worker-env {name}: it isn't set here; set it, or give {name}=VALUE."
            )
        found[name] = value if is_given else environ[name]
    return found
