"""What `launch` writes is what each tool takes, and only what was asked for."""

import json
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from xagents_ray.cluster.launch.folder import write_folder
from xagents_ray.commands import cli
from xagents_ray.core.errors import UserError

ROOT = Path(__file__).parents[3]
COMMAND = ["train", "ppo", "--env", "CartPole-v1", "--preset"]
WORDS = [*COMMAND, "--name", "a $b 'c'"]
SCHEMA = json.loads(Path(__file__).with_name("kuberay.schema.json").read_text())
LINT = "{extends: default, rules: {document-start: disable, line-length: {max: 100}}}"
_SHELL = re.compile("```sh\n(.*?)```", re.DOTALL)
TARGETS = ("docker", "kuberay", "ray", "slurm")
Said = pytest.CaptureFixture[str]
IMAGES_OF_NOBODY = (
    *("me:", "a:b:c", "me/Agent", "me//agent", "-me", "me/agent:-1", "host:port/me"),
    *("{a:", "a#b", "&a", "*a", "'a'", '"', "a@sha256:1", "a$b", "me/a`b`", "{{ray}}"),
    "a" * 256,
)
"""Some of which would change the YAML that they are written to."""


@pytest.fixture(scope="module", params=[False, True], ids=["cpu", "gpu"])
def folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder with what is written for each target."""
    above = tmp_path_factory.mktemp("launch")
    for target in TARGETS:
        write_folder(target, WORDS, above / target, (), 3, request.param)
    return above


def tool(name: str, *words: str | Path) -> None:
    """Run a program of this environment; it must find nothing."""
    command = [Path(sys.executable).with_name(name), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_linters_find_nothing(folder: Path) -> None:
    scripts = [p for p in folder.rglob("*") if p.suffix in (".sh", ".sbatch")]
    assert len(scripts) == 7
    tool("shellcheck", "--exclude", "SC2016", *scripts)  # the $ in the name is meant
    tool("shellcheck", *(ROOT / "examples").glob("*.sh"))
    tool("hadolint", *folder.rglob("Dockerfile"))
    tool("yamllint", "--strict", "-d", LINT, folder)


def test_the_compose_file_fits_its_schema(folder: Path) -> None:
    schema = ("--builtin-schema", "vendor.compose-spec")
    tool("check-jsonschema", *schema, folder / "docker" / "compose.yaml")


@pytest.mark.parametrize("name", ["on-prem", "aws"])
def test_the_cluster_launcher_takes_its_files(folder: Path, name: str) -> None:
    config = prepare_config(load(folder / "ray" / f"{name}.yaml"))
    validate_config(config)
    with pytest.raises(jsonschema.ValidationError):
        validate_config({**config, "max_worker": 3})


def kuberay(folder: Path) -> list[Any]:
    found = [load(path) for path in sorted((folder / "kuberay").glob("*.yaml"))]
    assert len(found) == 4
    return found


def misspelt(node: Any) -> Iterator[tuple[str, Callable[[], None], Callable[[], None]]]:
    """Yield each field, what misspells it, and what puts that right."""
    for each in node if isinstance(node, list) else node.values():
        if isinstance(each, dict | list):
            yield from misspelt(each)
    for key in list(node) if isinstance(node, dict) else ():

        def swap(old: str, new: str) -> None:
            node[new] = node.pop(old)

        wrong = f"{key[:-1]}x"
        yield key, lambda a=key, b=wrong: swap(a, b), lambda a=key, b=wrong: swap(b, a)


def test_kuberay_takes_our_fields_and_a_misspelt_one_fails(folder: Path) -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    count = 0
    for document in kuberay(folder):
        validator.validate(document)
        changed = json.loads(json.dumps(document))  # YAML's aliases are one object
        for key, misspell, correct in list(misspelt(changed)):
            misspell()
            assert not validator.is_valid(changed), key
            correct()
            count += 1
        assert changed == document
    assert count > 150


def test_the_repository_says_how_to_write_and_build_an_image(
    tmp_path: Path,
) -> None:
    text = (ROOT / "docker" / "README.md").read_text(encoding="utf-8")
    written, wheel, started = _SHELL.search(text)[1].splitlines()  # type: ignore[index]
    assert cli.run(shlex.split(written)[1:]) == 0
    image, folder = tmp_path / "on-docker", ROOT / "cluster" / "launch" / "image"
    for path in folder.iterdir():
        if path.suffix in (".lock", ".sh"):
            assert (image / path.name).read_bytes() == path.read_bytes()
    assert f"cd {image.name} && docker compose up --build" in started
    assert (tmp_path / wheel.split()[-1]).is_dir()
    assert (image / "compose.yaml").is_file()


def test_nothing_is_reached_from_outside(folder: Path) -> None:
    services = load(folder / "docker" / "compose.yaml")["services"]
    assert set(services) == {"head", "worker", "driver"}
    ports = [port for each in services.values() for port in each.get("ports", ())]
    assert ports == ["127.0.0.1:8265:8265"]
    for each in services.values():
        assert each["init"] is True and each["secrets"] == ["ray_token"]
        assert each["environment"]["RAY_AUTH_TOKEN_PATH"] == "/run/secrets/ray_token"
        assert not each.keys() & {"network_mode", "privileged", "cap_add"}
    assert services["worker"]["deploy"]["replicas"] == 3


def test_containers_have_no_rights(folder: Path) -> None:
    dockerfile = (folder / "docker" / "Dockerfile").read_text()
    users = re.findall(r"^USER (\S+)$", dockerfile, re.MULTILINE)
    assert users == ["1000"]
    for each in load(folder / "docker" / "compose.yaml")["services"].values():
        assert each["cap_drop"] == ["ALL"]
        assert each["security_opt"] == ["no-new-privileges:true"]
    spec = load(folder / "kuberay" / "raycluster.yaml")["spec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    for pod in (group["template"]["spec"] for group in groups):
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["allowPrivilegeEscalation"] is False


def test_the_token_is_in_one_place_only(tmp_path: Path) -> None:
    names = write_folder("docker", COMMAND, tmp_path / "docker")
    assert "secrets/ray_token" not in names
    path = tmp_path / "docker" / "secrets" / "ray_token"
    token = path.read_text()
    assert len(token) == 64
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    others = [p for p in path.parents[1].rglob("*") if p.is_file() and p != path]
    assert not any(token in p.read_text() for p in others)
    assert "secrets" not in (tmp_path / "docker" / ".dockerignore").read_text()[70:]
    write_folder("docker", COMMAND, tmp_path / "other")
    assert token != (tmp_path / "other" / "secrets" / "ray_token").read_text()


def test_each_target_has_the_command(folder: Path) -> None:
    compose = load(folder / "docker" / "compose.yaml")["services"]["driver"]["command"]
    assert [word.replace("$$", "$") for word in compose] == WORDS
    for name in ("kuberay/files/train.sh", "ray/files/train.sh", "slurm/train.sbatch"):
        text = (folder / name).read_text()
        (line,) = (x for x in text.splitlines() if "xagents-ray train" in x)
        said = f"set -- {line.partition('xagents-ray ')[2].partition(' --address')[0]}"
        own = ' --run-dir "$HOME/runs"'  # before the user's, which replaces it
        show = f'{said.replace(own, "", 1)}; printf "%s\\n" "$@"'
        done = subprocess.run(["sh", "-c", show], capture_output=True, text=True)
        assert done.stdout.splitlines() == WORDS, name


def test_a_gpu_is_the_learners(folder: Path, request: pytest.FixtureRequest) -> None:
    has_gpu = "gpu" in request.node.callspec.id
    services = load(folder / "docker" / "compose.yaml")["services"]
    assert ("deploy" in services["head"]) == has_gpu
    groups = load(folder / "kuberay" / "raycluster.yaml")["spec"]["workerGroupSpecs"]
    limits = [g["template"]["spec"]["containers"][0]["resources"] for g in groups]
    assert [("nvidia.com/gpu" in x["limits"]) for x in limits] == [has_gpu, False]
    assert groups[1]["minReplicas"] < groups[1]["maxReplicas"]


def test_the_templates_are_installed() -> None:
    room = resources.files("xagents_ray.cluster.launch")
    source = ROOT / "cluster" / "launch"
    expected = [
        p for p in source.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")
    ]
    assert len(expected) >= 16
    for path in expected:
        parts = path.relative_to(source).parts
        assert room.joinpath(*parts).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("-o x -- train ppo --env CartPole-v1 --n-envz 3", "There is no flag --n-envz"),
        (
            "-o x -- train ppo --env CartPole-v1 --preset --local",
            "--local runs without",
        ),
        ("-o x -- train ppo --env CartPole-v1 --address a:1", "--address names a"),
        ("-o x -- play ppo --env CartPole-v1", "Name a training to launch, as in"),
        ("-o x", "Name a training to launch, as in"),
        ("-o x train ppo --env CartPole-v1 --preset", "the command comes after --"),
        ("-o x --wrkers 3 -- train ppo", "There is no flag --wrkers; did you mean"),
        ("-o x --workers 0 -- train ppo", "--workers must be ≥ 1, got 0"),
        ("-- train ppo --env CartPole-v1 --preset", "-o is missing: name a folder"),
        ("-o here -- train ppo --env CartPole-v1 --preset", "here is not empty"),
        ("-o a/f -- train ppo --env CartPole-v1 --preset", "a/f can't be written"),
        (
            "-o x -- train ppo --env CartPole-v1 --max-steps 9 --model /tmp/a.cfg",
            "/tmp/a.cfg lies outside of this directory",
        ),
        (
            "-o x -- train ppo --env CartPole-v1 --max-steps 9 --model gone.cfg",
            "There is no file gone.cfg: name one",
        ),
        *(
            (
                f"-o x --image {image} -- train ppo --env CartPole-v1 --preset",
                f"--image {image!r} can't name an image: write REGISTRY/NAME:TAG",
            )
            for image in IMAGES_OF_NOBODY
        ),
        (
            "-o x -- train ppo --env CartPole-v1 --preset --name a\x7f",
            "The argument 'a\\x7f' has the control character U+007F: leave that out.",
        ),
        (
            "-o x\x7f -- train ppo --env CartPole-v1 --preset",
            "The argument 'x\\x7f' has the control character U+007F",
        ),
        (
            "-o x -- train ppo --env CartPole-v1 --preset --name caf\udce9",
            "The argument 'caf\\udce9' is not UTF-8: rename what it names",
        ),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("here").mkdir()
    Path("here/mine").touch()
    Path("a").touch()
    assert cli.run(["launch", "docker", *words.split()]) == 2
    said = capsys.readouterr()
    assert sentence in said.err and len(said.err.splitlines()) == 1
    assert sorted(str(p) for p in Path().rglob("*")) == ["a", "here", "here/mine"]


@pytest.mark.parametrize(
    ("target", "name", "wheel"),
    [
        ("kuberay", "rayjob.yaml", "`uv build --wheel -o {}/f/wheels` in a checkout"),
        ("ray", "submit.sh", "`uv build --wheel -o {}/f/wheels` in a checkout"),
    ],
)
def test_files_that_the_command_names_go_along(
    target: str, name: str, wheel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("own").mkdir()
    shutil.copy(ROOT / "examples" / "separate-64.cfg", "own/net.cfg")
    Path("own.yaml").write_text("settings: {max_steps: 1000}\n")
    words = "--env CartPole-v1 --model own/net.cfg --preset own.yaml".split()
    assert cli.run(["launch", target, "-o", "f", "--", "train", "ppo", *words]) == 0
    assert Path("f/files/own/net.cfg").read_bytes() == Path("own/net.cfg").read_bytes()
    assert Path("f/files/own.yaml").exists()
    said = capsys.readouterr().out
    assert name in said and "modules that the training imports into f/files." in said
    assert wheel.format(Path.cwd()) in said


def test_words_that_look_like_others(capsys: pytest.CaptureFixture[str]) -> None:
    """A folder called train, a file's part, braces of a template, an absolute path."""
    Path("w.tf.index").touch()
    Path("w.tf.data-00000-of-00001").touch()
    words = ["train", "ppo", "--env", "CartPole-v1", "--preset", "--name", "{{image}}"]
    words += ["--weights", "w.tf.index"]
    assert cli.run(["launch", "ray", "-o", "my train", "--", *words]) == 0
    assert "Next: read the first lines of 'my train'/on-prem" in capsys.readouterr().out
    copied = {path.name for path in Path("my train/files").iterdir()}
    assert copied >= {"w.tf.index", "w.tf.data-00000-of-00001"}
    assert "--name '{{image}}'" in Path("my train/files/train.sh").read_text()
    assert cli.run(["launch", "ray", "-o", "train", "--", *words]) == 0
    words[-1] = str(Path("w.tf.index").resolve())
    assert cli.run(["launch", "ray", "-o", "other", "--", *words]) == 2
    assert "by paths relative to this directory: give " in capsys.readouterr().err


def launched(preset: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Launch with a preset's file; return the exit code, and the error or command."""
    words = ["train", "ppo", "--env", "CartPole-v1", "--preset", preset]
    code = cli.run(["launch", "ray", "-o", "f", "--", *words])
    said = capsys.readouterr().err
    return code, Path("f/files/train.sh").read_text() if code == 0 else said


def test_files_that_a_preset_names_go_along(capsys: Said) -> None:
    Path("nets").mkdir()
    Path("nets/my.cfg").write_text("[dense-0]\n")
    Path("start.npz").write_text("weights")
    settings = {"max_steps": 9, "model": str(Path("nets/my.cfg").resolve())}
    settings["weights"] = [str(Path("start.npz").resolve())]
    Path("best.yaml").write_text(yaml.safe_dump({"settings": settings}))
    code, script = launched("best.yaml", capsys)
    assert code == 0
    assert "--preset best.yaml --weights start.npz --model nets/my.cfg" in script
    for name in ("best.yaml", "nets/my.cfg", "start.npz"):
        assert Path("f/files", name).read_bytes() == Path(name).read_bytes()

    shutil.rmtree("f")
    settings["model"] = str(Path("../elsewhere/my.cfg").resolve())
    Path("best.yaml").write_text(yaml.safe_dump({"settings": settings}))
    code, error = launched("best.yaml", capsys)
    assert code == 2 and "elsewhere/my.cfg lies outside of this directory" in error
    assert not Path("f").exists()


def test_a_presets_files_are_found_beside_it(capsys: Said) -> None:
    Path("own").mkdir()
    Path("own/my.cfg").write_text("[dense-0]\n")
    Path("own/p.yaml").write_text("settings: {max_steps: 9, model: my.cfg}\n")
    code, script = launched("own/p.yaml", capsys)
    assert code == 0 and "--preset own/p.yaml --model own/my.cfg" in script
    assert Path("f/files/own/my.cfg").exists()


def test_a_file_of_settings_and_what_it_names_go_along(capsys: Said) -> None:
    Path("own").mkdir()
    Path("own/my.cfg").write_text("[dense-0]\n")
    text = "agent: ppo\nenv: CartPole-v1\nmax_steps: 9\nmodel: my.cfg\n"
    Path("own/run.yaml").write_text(text)
    words = "launch docker -o f -- train --config own/run.yaml --set lr=0.1".split()
    assert cli.run(words) == 0, capsys.readouterr().err
    services = load(Path("f/compose.yaml"))["services"]
    command = services["driver"]["command"]
    assert command == [*words[5:], "--model", "own/my.cfg"]
    for name in ("run.yaml", "my.cfg"):
        assert Path("f/files/own", name).exists()
    Path("own/run.yaml").write_text(f"{text}local: true\n")
    assert cli.run([*words[:3], "g", *words[4:]]) == 2
    assert "--local runs without Ray: leave it out." in capsys.readouterr().err


@pytest.mark.parametrize(
    "image",
    [
        *("me", "me/agent", "host:5000/me/agent_2:1.0-rc.1", "registry.example.com/a"),
        *("123", "12:30", "1e5", "null", f"me/agent@sha256:{'0' * 64}"),
    ],
)
def test_the_name_of_an_image_stays_text(image: str) -> None:
    for target in ("docker", "kuberay"):
        write_folder(target, COMMAND, Path(target), image=image)
    compose = load(Path("docker/compose.yaml"))
    assert {each["image"] for each in compose["services"].values()} == {image}
    groups = load(Path("kuberay/raycluster.yaml"))["spec"]["workerGroupSpecs"]
    for group in groups:
        (container,) = group["template"]["spec"]["containers"]
        assert container["image"] == image


def test_an_argument_of_several_lines_and_scripts_is_kept() -> None:
    words = [*COMMAND, "--env-kwargs", '{"a":\n\t"é 日本 😀 \u00a0"}']
    write_folder("docker", words, Path("docker"))
    compose = load(Path("docker/compose.yaml"))
    assert compose["services"]["driver"]["command"] == words


@pytest.mark.parametrize("character", ["\x7f", "\x1b", "\x85", "\u2028", "\ufeff"])
def test_a_character_that_yaml_would_change_is_refused(character: str) -> None:
    words = [*COMMAND, "--name", f"a{character}b"]
    with pytest.raises(UserError, match="has the control character U"):
        write_folder("docker", words, Path("docker"))
    assert not Path("docker").exists()


@pytest.mark.parametrize("words", [[], ["docker"], ["docker", "--help"]])
def test_without_a_command_it_says_what_it_takes(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["launch", *words]) == 0
    said = capsys.readouterr()
    assert said.err == "" and ("--workers" in said.out) == bool(words)
