"""What of the folder of a user's modules leaves this machine."""

import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xagents_ray.cluster.ray import user_folder
from xagents_ray.core import user_code
from xagents_ray.core.errors import UserError
from xagents_ray.core.objects import install_definitions

_STAYS = (
    *(".env", ".env.local", ".netrc", ".aws/credentials", ".ssh/id", ".git/config"),
    *("server.pem", "deep/er/tls.key", "store.p12", "id_rsa", "id_ed25519.pub"),
    *("gcp-credentials.json", "kaggle.json", "secrets.yaml", "wandb/run/log.txt"),
    *("runs/ppo/config.yaml", "h.parquet", "w.npz", "v.mp4", "venv/lib/a.py"),
    *("data/big.csv", "deep/notes.txt", "deep/er/own.log", "made.py"),
)
_GOES = ("train.py", "deep/er/net.py", "keep.csv", "settings.yaml", "secrets.py")
_IGNORED = "data/\n*.log\n*.csv\n!keep.csv\n/made.py\n"


def write(*names: str, into: str = "project") -> None:
    for name in names:
        path = Path(into, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret")


def sent(folder: str = "project") -> set[str]:
    path = Path(folder).resolve()
    files = user_folder.files_to_send(path)
    return {file.relative_to(path).as_posix() for file in files}


def test_secrets_results_and_what_git_ignores_stay() -> None:
    write(*_STAYS, *_GOES)
    Path("project/.gitignore").write_text(_IGNORED)
    Path("project/deep/.gitignore").write_text("notes.txt\n")
    assert sent() == {*_GOES}


def test_a_gitignore_cannot_send_a_secret() -> None:
    write("train.py", ".env", "server.pem")
    Path("project/.gitignore").write_text("!.env\n!*.pem\n")
    assert sent() == {"train.py"}


def test_the_gitignore_of_the_repository_counts_in_its_folders() -> None:
    write(*_GOES, "made.py", "own.log", into="repository/in/project")
    Path("repository/.git").mkdir()
    Path("repository/.gitignore").write_text("*.log\n/in/project/made.py\n/train.py\n")
    Path(".gitignore").write_text("*.py\n")  # of no repository
    assert sent("repository/in/project") == {*_GOES}


def test_a_folder_that_git_ignores_as_a_whole_is_sent() -> None:
    write("train.py", "own.log", into="repository/mine")
    Path("repository/.git").mkdir()
    Path("repository/.gitignore").write_text("mine/\n*.log\n")
    Path("repository/mine/.gitignore").write_text("*.log\n")
    assert sent("repository/mine") == {"train.py"}


def test_rays_switch_sends_what_git_ignores(monkeypatch: pytest.MonkeyPatch) -> None:
    write("train.py", "made_pb2.py", "big.bin", ".env")
    Path("project/.gitignore").write_text("*_pb2.py\n")
    Path("project/.rayignore").write_text("*.bin\n")
    assert sent() == {"train.py"}
    monkeypatch.setenv("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "1")
    assert sent() == {"train.py", "made_pb2.py"}


def test_links_are_followed_but_not_to_secrets_or_in_circles() -> None:
    write("train.py")
    write("common/net.py", ".ssh/key", "tls.pem", into=".")
    for name, target in {
        "again": Path("project").resolve(),
        "gone": Path("nowhere"),
        "common": Path("common").resolve(),
        "notes.txt": Path(".ssh/key").resolve(),
        "chain.txt": Path("tls.pem").resolve(),
        "folder": Path(".ssh").resolve(),
    }.items():
        Path("project", name).symlink_to(target)
    assert sent() == {"train.py", "common/net.py"}


class _Ray(SimpleNamespace):
    """A Ray that keeps what it is given."""

    def init(self, address: str, runtime_env: dict[str, Any], **_: Any) -> str:
        with zipfile.ZipFile(runtime_env["working_dir"]) as file:
            self.files = {name: file.read(name) for name in file.namelist()}
        return "context"


def test_the_folder_and_its_size_are_said() -> None:
    write("train.py", ".env")
    Path("project/data.bin").write_bytes(bytes(3 * 2**20))
    ray, folder = _Ray(), Path("project").resolve()
    context, note = user_folder.join_with_folder(ray, "a:1", folder, {})
    assert context == "context" and set(ray.files) == {"train.py", "data.bin"}
    assert ray.files["train.py"] == b"secret"
    assert f"{folder} with your modules was sent" in note and "(3.0 MiB)" in note


def test_a_folder_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    write("train.py", "more.py")
    monkeypatch.setattr(user_folder, "_MOST_BYTES", 10)
    folder = Path("project").resolve()
    with pytest.raises(UserError, match=r"can't be sent .* more than 0 MiB\): keep"):
        user_folder.join_with_folder(_Ray(), "a:1", folder, {})


@pytest.mark.parametrize("hosts", [["a", "a"], ["a", "b"]])
@pytest.mark.parametrize(
    ("sent", "enters"),
    [
        ({}, True),
        ({"working_dir": "gcs://it.zip"}, False),  # workers are in it
        ({"env_vars": {"A": "1"}}, True),
    ],
)
def test_workers_enter_the_working_directory(
    hosts: list[str],
    sent: dict[str, Any],
    enters: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray was started in another one, where relative files are not found."""
    Path("here").mkdir()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("here")
    context = SimpleNamespace(runtime_env=sent)
    ray = SimpleNamespace(
        nodes=lambda: [{"NodeManagerAddress": host} for host in hosts],
        get_runtime_context=lambda: context,
    )
    definitions, before = user_folder.export_folder(ray), Path.cwd()
    monkeypatch.chdir("../elsewhere")
    install_definitions(definitions)
    assert (Path.cwd() == before) is enters
    assert "" not in sys.path and str(before) not in sys.path


def test_a_folder_that_a_worker_lacks_is_not_entered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = Path.cwd()
    user_code.enter_folder("missing")
    assert Path.cwd() == before
