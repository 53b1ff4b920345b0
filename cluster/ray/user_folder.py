"""Which of a user's own modules the nodes and workers of Ray can import."""

import functools
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
from pathspec import GitIgnoreSpec

from xagents_ray.core.errors import UserError
from xagents_ray.core.process import quiet_stderr
from xagents_ray.core.user_code import enter_folder
from xagents_ray.settings.run import RunConfig

_SECRETS = GitIgnoreSpec.from_lines(
    [
        ".*",  # .env, .git, .netrc, .ssh and more
        *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx"),
        *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
        *("*credentials*.json", "kaggle.json"),
        *("secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml"),
    ]
)
_RESULTS = GitIgnoreSpec.from_lines(
    [
        *(RunConfig().run_dir, "wandb/", "mlruns/", "*.parquet", "*.npz", "*.mp4"),
        *("__pycache__/", "node_modules/", "venv/"),
    ]
)
"""Patterns of names that stay on this machine, whatever a .gitignore says."""
_UNLESS = "RAY_RUNTIME_ENV_IGNORE_GITIGNORE"
"""Ray's environment variable that makes it disregard .gitignore files."""
_MOST_BYTES = 512 * 2**20
"""Size of the largest folder that Ray sends."""
_Rules = Sequence[tuple[Path, GitIgnoreSpec]]
"""Patterns with the folder that they are relative to; later ones take precedence."""


def job_without_folder(ray: Any) -> Any:
    """Return the job of a new Ray, whose workers import nothing from this folder.

    Ray puts the working directory first on the path of every worker, unless its client
    has prepared the job. Workers of a notebook need it, and so it is on the path here.
    """
    job = ray.job_config.JobConfig()
    job._client_job = not {"", os.getcwd()} & {*sys.path}
    return job


def join_with_folder(
    ray: Any, address: str, folder: Path, joining: dict[str, Any]
) -> tuple[Any, str]:
    """Join a cluster, and send the folder of the user's modules to its nodes.

    Args:
        ray: the `ray` module.
        address: address of the cluster, host:port.
        folder: the folder with the modules.
        joining: further arguments of `ray.init`.
    Returns:
        Ray's context, and a sentence for the user that says what was sent.
    Raises:
        UserError: the folder can't be sent.
    """
    try:
        with tempfile.TemporaryDirectory() as scratch, quiet_stderr():
            archive = Path(scratch) / "modules.zip"
            size = _write_archive(folder, archive)
            sent = {"working_dir": str(archive)}
            context = ray.init(address, runtime_env=sent, **joining)
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise UserError(
            f"{folder}, which holds modules of yours, can't be sent to the cluster "
            f"({reason}): keep the script and its modules in a folder of their own, or "
            "install them on every node."
        ) from None
    note = (
        f"{folder} with your modules was sent to the cluster's nodes "
        f"({size / 2**20:.1f} MiB), without hidden files, keys, results of runs, and "
        "what .gitignore names."
    )
    return context, note


def has_other_machines(ray: Any) -> bool:
    """Return whether the cluster has nodes on several machines."""
    return len({node["NodeManagerAddress"] for node in ray.nodes()}) > 1


def export_folder(ray: Any) -> tuple[bytes, ...]:
    """Return a definition by which workers enter this process's working directory.

    They find relative files then, although Ray was started elsewhere. Workers on other
    machines enter it where it is there too, as on a shared file system. There is no
    definition if a folder was sent, which they are in already.
    """
    if "working_dir" in ray.get_runtime_context().runtime_env:
        return ()
    return (cloudpickle.dumps(functools.partial(enter_folder, os.getcwd())),)


def _write_archive(folder: Path, archive: Path) -> int:
    """Write the files to send; return how many bytes they have."""
    size = 0
    deflated = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(archive, "w", deflated, strict_timestamps=False) as file:
        for path in files_to_send(folder):
            size += path.stat().st_size
            if size > _MOST_BYTES:
                raise ValueError(f"it has more than {_MOST_BYTES / 2**20:.0f} MiB")
            file.write(path, path.relative_to(folder))
    return size


def files_to_send(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder except secrets, results and what git ignores.

    The .gitignore files of the folders above count too, up to the repository's own.
    """
    above = _rules_above(folder)
    # A folder that git ignores as a whole is sent all the same.
    yield from _walk(folder, [] if _is_ignored(folder, above) else above, ())


def _rules_above(folder: Path) -> _Rules:
    """Return the rules of a repository's folders that contain this one."""
    rules: list[tuple[Path, GitIgnoreSpec]] = []
    for each in (folder, *folder.parents):
        if each != folder:
            rules[:0] = _rules_of(each)
        if (each / ".git").exists():
            return rules
    return []


def _rules_of(folder: Path) -> _Rules:
    is_off = os.environ.get(_UNLESS, "0") == "1"
    names = (".rayignore",) if is_off else (".gitignore", ".rayignore")
    files = [folder / name for name in names if (folder / name).is_file()]
    texts = [file.read_text("utf-8", errors="replace") for file in files]
    return [(folder, GitIgnoreSpec.from_lines(text.splitlines())) for text in texts]


def _is_ignored(path: Path, rules: _Rules) -> bool:
    for base, spec in reversed(rules):
        name = path.relative_to(base).as_posix() + "/" * path.is_dir()
        is_named = spec.check_file(name).include
        if is_named is not None:  # False: a pattern with ! includes it again
            return is_named
    return False


def _is_secret(path: Path, folder: Path) -> bool:
    """Return whether the name of a file is a secret's, or that of a link's target."""
    names = [path.name]
    if path.is_symlink():
        target = Path(os.path.relpath(path.resolve(), folder))
        names += [part for part in target.parts if part != os.pardir]
    return any(map(_SECRETS.match_file, names))


def _walk(folder: Path, rules: _Rules, above: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of a folder, and of those in it; `above` ends loops of links."""
    here = folder.resolve()
    if here in above:
        return
    rules = [*rules, *_rules_of(folder)]
    for path in sorted(folder.iterdir()):
        is_result = _RESULTS.match_file(path.name + "/" * path.is_dir())
        if is_result or _is_secret(path, here) or _is_ignored(path, rules):
            continue
        if path.is_dir():
            yield from _walk(path, rules, (*above, here))
        elif path.is_file():
            yield path
