"""Writes a folder of deployment files for a cluster from templates."""

import glob
import json
import re
import secrets
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from xagents_ray.core.arguments import check_characters
from xagents_ray.core.errors import UserError
from xagents_ray.core.version import __version__
from xagents_ray.storage import weights

_TEMPLATES = {
    "docker": ("image/*", "docker/*", "monitoring/*"),
    "kuberay": ("image/*", "job/*", "kuberay/*", "monitoring/*"),
    "slurm": ("slurm/*", "monitoring/*"),
    "ray": ("image/*.lock", "job/*", "ray/*", "monitoring/*"),
}
_PLACES = {
    "train.sh": "files/train.sh",
    "dockerignore": ".dockerignore",
    "grafana.json": "monitoring/grafana.json",
    "prometheus.yaml": "monitoring/prometheus.yaml",
}
"""Output paths of templates that are not written next to the others."""
_PYTHON = "3.11.14"
_BASE = (
    f"python:{_PYTHON}-slim-bookworm@sha256:"
    "65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d"
)
"""Base image for all platforms, by the digest of its index: a tag may be moved."""
_PLACE = re.compile(r"^( *)\{\{(\w+)\}\}\n|\{\{(\w+)\}\}", re.MULTILINE)
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_LABEL}(?:\.{_LABEL})*(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
"""A name as registries take it: host and port, path, tag, digest."""
_COMPOSE_GPU = """\
deploy:
  resources:
    reservations:
      devices:
        - driver: nvidia
          count: 1
          capabilities: [gpu]"""

_LISTED_NODES = """\
# Ray's dashboard lists the nodes, and asks for the cluster's token.
http_sd_configs:
  - url: http://127.0.0.1:8265/api/prometheus/sd
    authorization:
      credentials_file: {token}"""
_KUBERNETES_NOTE = """\
# Its pod needs a service account that may list pods, and the label
# app.kubernetes.io/part-of: xagents-ray, which network-policy.yaml lets in."""
_KUBERNETES_NODES = """\
kubernetes_sd_configs:
  - role: pod
    namespaces:
      own_namespace: true
relabel_configs:
  - source_labels: [__meta_kubernetes_pod_label_ray_io_node_type]
    regex: head|worker
    action: keep
  - source_labels: [__meta_kubernetes_pod_ip]
    target_label: __address__
    replacement: $1:8080"""


def write_folder(
    target: str,
    command: Sequence[str],
    folder: Path,
    sources: Sequence[str] = (),
    workers: int = 2,
    gpu: bool = False,
    image: str | None = None,
) -> list[str]:
    """Write the files that deploy a training run to a cluster.

    Args:
        target: "docker", "kuberay", "slurm" or "ray".
        command: arguments of `xagents-ray`, starting with `train`.
        folder: the folder to write; it must be new or empty.
        sources: files that the command refers to, relative to the working directory.
        workers: number of nodes besides the head.
        gpu: whether the learner gets a GPU.
        image: name of the image, with its registry; None names it after the version.
    Returns:
        The names of the files, relative to the folder.
    Raises:
        UserError: the folder is not empty or can't be written, a source is outside the
            working directory, or an argument or the image's name is invalid.
    """
    check_characters(command)
    _check_image(image)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is not empty: name a new folder with -o.")
    copied = [] if target == "slurm" else [f for s in sources for f in _found(s)]
    texts = dict(_files(target, _values(target, command, workers, gpu, image)))
    if target != "slurm":
        texts |= {"files/.gitkeep": "", "wheels/.gitkeep": ""}
    if target == "docker":
        ignored = "ray_token\ntls/ca.*\n"
        texts |= {"secrets/.gitignore": ignored, "secrets/tls/.gitkeep": ""}
    try:
        _write_files(folder, texts, copied)
        if target == "docker":
            _write_token(folder / "secrets" / "ray_token")
    except OSError as error:
        raise UserError(
            f"{folder} can't be written ({error.strerror}): name another with -o."
        ) from None
    return sorted(name for name in texts if not Path(name).name.startswith("."))


def _check_image(image: str | None) -> None:
    if image is not None and not (_IMAGE.fullmatch(image) and len(image) <= 255):
        raise UserError(
            f"--image {image!r} can't name an image: write REGISTRY/NAME:TAG, the name "
            "in lower case, such as registry.example.com/me/xagents-ray:1."
        )


def _write_files(
    folder: Path, texts: Mapping[str, str], copied: Sequence[Path]
) -> None:
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if text.startswith("#!"):
            path.chmod(0o755)
    for source in copied:
        path = folder / "files" / source
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, path)


def _found(source: str) -> list[Path]:
    """Return the files of a source; a TensorFlow checkpoint consists of several."""
    path, here = Path(weights.whole_path(source)), Path.cwd()
    if path.is_absolute() and path.is_relative_to(here):
        raise UserError(
            "Files are copied to the cluster by paths relative to this directory: "
            f"give {source} as {path.relative_to(here)}."
        )
    if path.is_absolute() or ".." in path.parts:
        raise UserError(
            f"{source} lies outside of this directory, from which files go to the "
            "cluster by their relative path: start in one that holds it."
        )
    found = [path, *path.parent.glob(f"{glob.escape(path.name)}.*")]
    files = [each for each in found if each.is_file()]
    if not files:
        raise UserError(f"There is no file {source}: name one that is here.")
    return files


def _write_token(path: Path) -> None:
    """Write a token readable by this user only, and by any user in a container."""
    path.parent.chmod(0o700)
    path.write_text(secrets.token_hex(32), encoding="ascii")
    path.chmod(0o444)


def _files(target: str, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file."""
    for pattern in _TEMPLATES[target]:
        for each in sorted(Path(__file__).parent.glob(pattern)):
            if not each.name.endswith(".part"):
                text = each.read_text(encoding="utf-8")
                if each.suffix != ".json":  # Grafana has placeholders of its own
                    text = _filled(text, values, each.parent)
                yield _PLACES.get(each.name, each.name), text


def _filled(text: str, values: Mapping[str, str], room: Path) -> str:
    """Replace each `{{name}}` in a text by `values[name]` or the file name.part.

    Alone on a line, it is a block: its lines get that line's indentation, and an
    empty block removes the line.
    """

    def value(name: str) -> str:
        if name in values:
            return values[name]
        part = (room / f"{name}.part").read_text(encoding="utf-8")
        return _filled(part, values, room).rstrip("\n")

    def filled(found: re.Match[str]) -> str:
        indent, block, word = found.groups()
        if word:
            return value(word)
        lines = value(block).splitlines()
        return "".join(f"{indent if line else ''}{line}\n" for line in lines)

    return _PLACE.sub(filled, text)


def _scraping(target: str) -> dict[str, str]:
    """Return how Prometheus finds the nodes, and where it runs."""
    if target == "kuberay":
        note, nodes = _KUBERNETES_NOTE, _KUBERNETES_NODES
    else:
        machine = "this machine" if target == "docker" else "the head's machine"
        token = "../secrets/ray_token"
        if target != "docker":
            token = "/home/USER/.ray/auth_token"
        note = f"# Start it on {machine}: prometheus --config.file=prometheus.yaml"
        if target != "docker":
            note += "\n# USER is the one whose token the cluster has."
        nodes = _LISTED_NODES.format(token=token)
    return {"scrape_note": note, "scrape_targets": nodes}


def _values(
    target: str, command: Sequence[str], workers: int, gpu: bool, image: str | None
) -> dict[str, str]:
    """Return the values of the template variables."""
    addresses = [f"- 192.0.2.{11 + n}" for n in range(workers)]
    shell = shlex.join(["xagents-ray", *command])
    if target == "ray":  # a later --run-dir takes precedence
        agent, flags = shlex.join(["xagents-ray", *command[:2]]), command[2:]
        shell = f'{agent} --run-dir "$HOME/runs" {shlex.join(flags)}'
    # Compose reads $NAME, and $$ as $.
    words = [json.dumps(w, ensure_ascii=False).replace("$", "$$") for w in command]
    return {
        "version": __version__,
        "ray": metadata.version("ray"),
        "base": _BASE,
        "python": _PYTHON,
        "device": "gpu" if gpu else "cpu",
        "image": image or f"xagents-ray:{__version__}",
        "nodes": str(workers + 1),
        "workers": str(workers),
        "most_workers": str(4 * workers),
        "worker_ips": "\n".join(addresses),
        "command_list": "\n".join(f"- {word}" for word in words),
        "shell_command": shell,
        **_scraping(target),
        "compose_gpu": _COMPOSE_GPU if gpu else "",
        "kuberay_gpu": "nvidia.com/gpu: 1" if gpu else "",
        "slurm_gpu": "#SBATCH --gpus-per-node=1" if gpu else "",
        "aws_head": "g6.2xlarge" if gpu else "c7i.2xlarge",
        "aws_resources": '{"CPU": 8, "GPU": 1}' if gpu else '{"CPU": 8}',
    }
