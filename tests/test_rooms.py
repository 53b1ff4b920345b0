"""The table of imports in the design: who may import what."""

import ast
import importlib.util
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from pkgutil import resolve_name

from processes import python
from sources import tree_of

import xagents_ray
from xagents_ray.algorithms.table import ALGORITHMS

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("actors", "learners", "cluster")
_OF_KERAS = "conversion heads limits models policies recurrent whole"
KERAS = (
    "xagents_ray.networks.keras",
    *(f"xagents_ray.networks.keras_{end}" for end in _OF_KERAS.split()),
)
FRAMEWORKS = ("tensorflow", "keras", "ray")
# A room and those that it imports, which stand below it; "" is the package itself.
TABLE = {
    "compat": "ROOT",
    "": (
        "compat commands tuning policy watch replay algorithms networks settings core"
    ),
    "commands": (
        "cluster tuning policy run watch actors storage algorithms settings core"
    ),
    "cluster": "tuning run actors storage algorithms settings core",
    "tuning": "run watch algorithms settings core",
    "policy": "run actors storage algorithms networks settings core",
    "run": "watch actors learners replay storage algorithms networks settings core",
    "watch": "storage settings core",
    "actors": "algorithms networks settings core",
    "learners": "algorithms networks settings core",
    "replay": "core",
    "storage": "core",
    "algorithms": "actors learners replay networks settings core",
    "networks": "core",
    "settings": "core",
    "core": "",
}
ARROWS = 70  # it only falls
# The same for the rooms inside `cluster/`.
CLUSTER = {
    "launch": "storage core",
    "tune": "cluster.run cluster.ray tuning run actors algorithms settings core",
    "run": "cluster.ray run actors storage algorithms settings core",
    "ray": "settings core",
}
# Up, for what is resolved when it is used: a row names what acts and learns for its
# algorithm, and the package finds an agent of the old library when asked for one.
RESOLVED_LATER = {
    ("", "compat"),
    ("algorithms", "actors"),
    ("algorithms", "learners"),
    ("algorithms", "replay"),
}
# Groups of entry points, which look like modules.
ENTRY_POINTS = {"xagents_ray.layers"}
FILE_LINES, FUNCTION_LINES = 320, 45
# Modules that only an extra can import.
EXTRAS = {"xagents_ray.actors.envs.pool": "envpool"}


def files(room: str) -> list[Path]:
    """Return the sources of a room, `xagents_ray` for what all of them share."""
    found = sorted((ROOT / room).rglob("*.py"))
    assert found
    return found


def module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] != "xagents_ray":
        parts = ("xagents_ray", *parts)
    return ".".join(parts).removesuffix(".__init__")


def imports(path: Path) -> Iterator[str]:
    """Yield what a file imports anywhere, also inside functions."""
    package = module(path.parent / "__init__.py")
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*up, *([base] if base else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def resolved_by_name(path: Path) -> Iterator[str]:
    """Yield strings that name a module of ours, `module` or `module:name`."""
    tree = tree_of(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_name = re.fullmatch(r"xagents_ray(\.\w+)+(:\w+)?", node.value)
            if is_name and node.value not in ENTRY_POINTS:
                yield node.value.partition(":")[0]


def room_of(name: str) -> str:
    """Return the room of a module of ours, `replay`; "" for the package's own."""
    parts = name.split(".")[1:]
    if parts[:1] == ["utils"]:
        return "compat"
    return parts[0] if parts and parts[0] in TABLE else ""


def is_in(name: str, *packages: str) -> bool:
    return any(name == p or name.startswith(f"{p}.") for p in packages)


def offenders(room: str, *forbidden: str) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files(room)
        for name in imports(path)
        if is_in(name, *forbidden)
    ]


def test_what_imports_sees() -> None:
    """The checks below mean something: they see the imports that are there."""
    seen = set(imports(ROOT / "actors" / "env_actor.py"))
    assert {"numpy", "xagents_ray.actors.policies.base.noise_generators"} <= seen
    inside = set(imports(ROOT / "actors" / "envs" / "atari.py"))
    assert "cv2" in inside  # within a function
    assert offenders("learners", "tensorflow")
    assert offenders("cluster", "ray")


def arrows() -> dict[tuple[str, str], list[str]]:
    """Return which room imports which, or names it in a string, and where."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in (p for room in ("xagents_ray", *ROOMS) for p in files(room)):
        names = {*imports(path), *resolved_by_name(path)}
        for name in names:
            if is_in(name, "xagents_ray"):
                arrow = room_of(module(path)), room_of(name)
                found.setdefault(arrow, []).append(f"{path.name}: {name}")
    return found


def test_rooms_import_what_the_table_says() -> None:
    """A new arrow needs a place in the table, and one that is gone leaves it."""
    found = {(a, b): where for (a, b), where in arrows().items() if a != b}
    said = {(a, b.replace("ROOT", "")) for a, row in TABLE.items() for b in row.split()}
    assert found.keys() == said, {a: found.get(a) for a in found.keys() ^ said}
    assert len(said) == ARROWS
    assert len(TABLE) - 1 >= 15  # beside the package's own modules


def test_arrows_between_rooms_point_down() -> None:
    floor = {room: n for n, room in enumerate(TABLE)}
    up = {(a, b) for a, b in arrows() if floor[b] < floor[a]}
    assert up == RESOLVED_LATER


def test_a_run_on_ray_knows_no_sweep() -> None:
    """Within `cluster/`, imports follow a table of their own, and point down too."""
    found: dict[str, set[str]] = {room: set() for room in CLUSTER}
    for path in (p for p in files("cluster") if p.parent.name != "cluster"):
        inner = module(path).split(".")[2]
        for name in {*imports(path), *resolved_by_name(path)}:
            if is_in(name, "xagents_ray.cluster"):
                found[inner].add(f"cluster.{name.split('.')[2]}")
            elif is_in(name, "xagents_ray"):
                found[inner].add(room_of(name))
    for room, row in CLUSTER.items():
        assert found[room] - {f"cluster.{room}"} == set(row.split()), room
    floors = {f"cluster.{room}": n for n, room in enumerate(CLUSTER)}
    for n, row in enumerate(CLUSTER.values()):
        assert all(floors.get(name, n + 1) > n for name in row.split())


def module_graph() -> dict[str, set[str]]:
    """Return which of our modules each one imports anywhere, also inside functions."""
    paths = {
        module(path): path
        for room in ("xagents_ray", *ROOMS)
        for path in files(room)
        if path.name != "__main__.py"
    }

    def target(name: str) -> str:
        return (
            name
            if name in paths or "." not in name
            else target(name[: name.rindex(".")])
        )

    return {
        name: {found for each in imports(path) if (found := target(each)) in paths}
        - {name}
        for name, path in paths.items()
    }


def cycle_in(graph: Mapping[str, set[str]]) -> set[str]:
    """Return the nodes that lie on a cycle or between two of them."""
    left = dict(graph)
    while True:
        ends = {name for name, to in left.items() if not to & left.keys()}
        used = set().union(*left.values())
        ends |= left.keys() - used
        if not ends:
            return set(left)
        left = {name: to for name, to in left.items() if name not in ends}


def test_no_cycle_hides_behind_an_import_in_a_function() -> None:
    """Modules could import all that they do at their top; nothing loads late for order.

    The package's `__getattr__` is not such a place: it runs when a script asks for a
    name of xagents, and the package is loaded then.
    """
    graph = module_graph()
    assert len(graph) > 150
    assert "xagents_ray.actors.envs.make" in graph["xagents_ray.policy.conversion"]
    graph["xagents_ray"] -= {"xagents_ray.compat.agents"}
    assert cycle_in(graph) == set()
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == {"b", "c"}


def test_who_may_import_a_framework() -> None:
    files = tuple(f"{name.replace('.', '/')}.py" for name in KERAS)
    found = offenders("xagents_ray", *FRAMEWORKS)
    assert found and all(each.startswith(files) for each in found)
    others = offenders("xagents_ray", *KERAS)  # these may import each other
    assert [each for each in others if not each.startswith(files)] == []
    assert offenders("actors", *FRAMEWORKS, *KERAS) == []
    assert offenders("learners", "ray") == []


def lengths() -> Iterator[tuple[str, int, int]]:
    """Yield each file and function outside tests, its lines, and the limit."""
    for folder in ("xagents_ray", *ROOMS, "benchmarks"):
        for path in files(folder):
            name, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
            yield name, len(text.splitlines()), FILE_LINES
            for node in ast.walk(tree_of(path)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    lines = (node.end_lineno or 0) - node.lineno + 1
                    yield f"{name}:{node.name}", lines, FUNCTION_LINES


def test_files_and_functions_are_short() -> None:
    found = list(lengths())
    assert len(found) > 1_000
    too_long = {
        f"{name} has {lines} lines" for name, lines, limit in found if lines > limit
    }
    assert not too_long


def test_names_of_test_files_are_unique() -> None:
    """Pytest imports test files by name alone; a second one would not be collected."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) > 100
    assert sorted(set(names)) == sorted(names)


def test_the_package_is_what_setup_cfg_says() -> None:
    """Every folder with sources is installed."""
    text = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    for room in ("xagents_ray", *ROOMS):
        for path in files(room):
            assert f"    {module(path.parent / '__init__.py')}\n" in text


def loaded_after(*modules: str) -> set[str]:
    """Return the top-level modules of a new process that imports these."""
    code = (
        "import importlib, json, sys\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "print(json.dumps(sorted({m.partition('.')[0] for m in sys.modules}"
        " | {'.'.join(m.split('.')[:2]) for m in sys.modules if 'xagents' in m})))"
    )
    done = python("-c", code, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def modules_of(room: str) -> list[str]:
    names = [module(path) for path in files(room) if path.name != "__main__.py"]
    return [
        name
        for name in names
        if name not in EXTRAS or importlib.util.find_spec(EXTRAS[name])
    ]


def test_what_waits_for_the_connection_loads_no_ray() -> None:
    """Ray reads its settings while it is imported; a trial's own process has none."""
    loaded = loaded_after(
        "xagents_ray.cluster.tune.ray_sweep", "xagents_ray.tuning.trial_training"
    )
    assert not loaded & {*FRAMEWORKS}


def test_the_commands_load_no_framework() -> None:
    """Help and flag errors are quick."""
    loaded = loaded_after("xagents_ray.commands.all_commands")
    rooms = {f"xagents_ray.{room}" for room in ROOMS}
    assert "xagents_ray" in loaded
    others = {"gymnasium", "cv2", "optuna", "matplotlib", "pandas", "sqlalchemy"}
    assert not loaded & {*FRAMEWORKS, *others, *rooms}


def test_the_package_loads_little() -> None:
    """It loads nothing else by itself, and few modules when its names are used.

    These take half a second. Modules are counted, since a clock would be another
    machine's. Only an `Agent` needs environments.
    """
    done = python(
        "-c",
        "import numpy, click, sys; n = len(sys.modules); import xagents_ray\n"
        "print(*(m for m in sys.modules if m.startswith('xagents_ray')))\n"
        "for name in {*xagents_ray.__all__} - {'Agent'}: getattr(xagents_ray, name)\n"
        "assert not {'gymnasium', 'ray', 'tensorflow'} & sys.modules.keys()\n"
        "print(len(sys.modules) - n)",
        cwd=ROOT,
    )
    own, count = done.stdout.splitlines()
    assert own == "xagents_ray"
    assert 50 < int(count) < 330  # 282


def test_public_names_are_those_that_type_checkers_see() -> None:
    seen = dict[str, str]()
    for node in ast.walk(tree_of(ROOT / "xagents_ray" / "__init__.py")):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("xagents"):
            for alias in node.names:
                seen[alias.asname or alias.name] = f"{node.module}:{alias.name}"
    others = {"*", "train", "tune", "xagents_attribute"}  # the first are of a stub
    assert seen.keys() - others == {*xagents_ray.__all__} - others
    for name in seen.keys() - others:
        assert getattr(xagents_ray, name) is resolve_name(seen[name])


def test_the_shared_room_loads_no_framework() -> None:
    names = [n for n in modules_of("xagents_ray") if n not in KERAS]
    assert len(names) > 10
    others = {"xagents_ray.learners", "xagents_ray.cluster"}
    assert not loaded_after(*names) & {*FRAMEWORKS, *others}


def test_actors_load_no_framework() -> None:
    names = modules_of("actors")
    assert "xagents_ray.actors.envs.registry" in names
    loaded = loaded_after(*names)
    assert "xagents_ray.actors" in loaded
    others = {"xagents_ray.learners", "xagents_ray.cluster"}
    assert not loaded & {*FRAMEWORKS, "gym", *others}


def test_learners_load_neither_ray_nor_actors() -> None:
    loaded = loaded_after(*modules_of("learners"))
    assert "tensorflow" in loaded
    others = {"xagents_ray.actors", "xagents_ray.cluster"}
    assert not loaded & {"ray", "gymnasium", *others}


def test_the_driver_loads_no_tensorflow() -> None:
    loaded = loaded_after("xagents_ray.cluster.run.driver")
    assert not loaded & {"tensorflow", "keras"}


FRAGMENT = re.compile(
    r"(that|whose|which|of|by|likewise|as|how|what|when|where|it|its|to|in|is|at"
    r"|after|only)\b(?!`)"
)
"""Begins a description that does not stand alone, such as "algorithm: that acts."."""


def described(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the documented arguments and attributes of a file, each with its text."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            is_listed = False
            for line in (ast.get_docstring(node) or "").splitlines():
                if not line.startswith(" "):
                    is_listed = line in ("Args:", "Attributes:")
                elif is_listed and (entry := re.match(r" {4}(\w+): (.*)", line)):
                    yield f"{path.name}:{node.name} {entry[1]}", entry[2]


def test_documented_arguments_stand_alone() -> None:
    rooms = ("xagents_ray", *ROOMS, "benchmarks")
    found = [x for room in rooms for f in files(room) for x in described(f)]
    assert len(found) > 500
    assert not {name: text for name, text in found if FRAGMENT.match(text)}


# Defined in two modules on purpose, each with its reason.
IN_TWO_MODULES: dict[str, str] = {}


def public_names(path: Path) -> Iterator[str]:
    """Yield what a module defines at its top, without an underscore."""
    for node in tree_of(path).body:
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found = (x for target in targets for x in ast.walk(target))
            names = [x.id for x in found if isinstance(x, ast.Name)]
        yield from (name for name in names if not name.startswith("_"))


def test_a_public_name_is_defined_in_one_module() -> None:
    """A reader of an imported name knows which one it is."""
    where: dict[str, set[str]] = {}
    for path in (p for room in ("xagents_ray", *ROOMS) for p in files(room)):
        for name in public_names(path):
            where.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    assert len(where) > 700
    several = {name: found for name, found in where.items() if len(found) > 1}
    assert several.keys() == IN_TWO_MODULES.keys(), several


ALGORITHM_FILES = {f"{name}.py" for name in ALGORITHMS}
# Beside those, files of one name in several rooms, which do the same job there.
SAME_JOB = {
    "__init__.py": "a package",
    "actor_critic.py": "algorithms with one network for the policy and the value",
    "base.py": "what all policies, or all replay buffers, have",
    "buffers.py": "replay buffers of xagents, under the old path too",
    "driver.py": "the driver of a run: the protocol, and the one on Ray",
    "episodes.py": "playing and evaluating: the commands, and what they call",
    "evaluator.py": "evaluation of a run: its episodes, and their Ray actor",
    "state_dependent.py": "gSDE: settings, layer and policies",
}


def test_names_of_files_repeat_only_for_the_same_job() -> None:
    paths = [path for room in ("xagents_ray", *ROOMS) for path in files(room)]
    names = Counter(path.name for path in paths)
    repeated = {name for name, count in names.items() if count > 1}
    assert repeated - ALGORITHM_FILES == SAME_JOB.keys()
