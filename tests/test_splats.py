"""Nothing is packed into a tuple, list or dict only to be splatted into a call."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from sources import tree_of

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("xagents_ray", "actors", "learners", "cluster", "benchmarks")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_packed(value: ast.AST, packers: set[str]) -> bool:
    """Return whether an expression packs as many values as are written there.

    A dict that extends or overrides another mapping does not.

    Args:
        value: an expression.
        packers: names of functions and classes that pack their arguments.
    """
    if isinstance(value, ast.BinOp):
        return is_packed(value.left, packers) and is_packed(value.right, packers)
    if isinstance(value, ast.Call):
        return ast.unparse(value.func) in packers
    if isinstance(value, ast.Dict):  # other keys can't be keywords
        keys = [
            key.value if isinstance(key, ast.Constant) else "" for key in value.keys
        ]
        return bool(keys) and all(str(key).isidentifier() for key in keys)
    return isinstance(value, ast.Tuple | ast.List)


def splatted(tree: ast.AST) -> list[ast.expr]:
    """Return the expressions that calls splat."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    starred = [x.value for c in calls for x in c.args if isinstance(x, ast.Starred)]
    return starred + [x.value for c in calls for x in c.keywords if x.arg is None]


def only_splatted(function: Function) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield names that are assigned once and then only splatted, with their value."""
    splats = [x for x in splatted(function) if isinstance(x, ast.Name)]
    if not splats:
        return
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    bound = [node.id for node in names if isinstance(node.ctx, ast.Store)]
    others = {n.id for n in names if isinstance(n.ctx, ast.Load) and n not in splats}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value:
            target, value = node.target, node.value
        else:
            continue
        if isinstance(target, ast.Name) and target.id not in others:
            if bound.count(target.id) == 1:
                yield from ((x, value) for x in splats if x.id == target.id)


def packed_splats(tree: ast.Module) -> set[str]:
    """Return the splats of a module that only save writing out arguments."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    packers = {"dict", "tuple", "list"} | {
        each.name for each in classes if "NamedTuple" in map(ast.unparse, each.bases)
    }
    found = [x for x in splatted(tree) if is_packed(x, packers)]
    for node in ast.walk(tree):
        if isinstance(node, Function):
            pairs = only_splatted(node)
            found += [splat for splat, value in pairs if is_packed(value, packers)]
    return {f"line {each.lineno}: {ast.unparse(each)}" for each in found}


@pytest.mark.parametrize(
    "lines",
    [
        "x = a, b; f(*x)",
        "x: Any = [a, b]; f(0, *x)",
        "x = (a, *b); f(*x); g(*x)",
        "x = {'a': a}; f.options(b=b, **x)",
        "x = dict(a=a); f(**x)",
        "x = Pair(a, b); f(*x)",
        "x = (a,) + (b,); f(*x)",
        "g((x := (a, b)) and f(*x))",
        "f(*(a, b))",
        "f(**dict(a=a))",
    ],
)
def test_what_packed_splats_sees(lines: str) -> None:
    pair = "class Pair(NamedTuple): pass\n"
    assert packed_splats(ast.parse(f"{pair}def made(a, b): {lines}"))


@pytest.mark.parametrize(
    "lines",
    [
        "x = a, b; f(*x); return x",
        "x = [g(y) for y in a]; f(*x)",
        "x = g(a); f(*x)",
        "x = {'a': a} if b else {}; f(**x)",
        "x = {**a, 'b': b}; f(**x)",
        "x = {'a-b': a}; f(**x)",
        "for x in a: f(*x)",
        "x = (a,)\nif b: x = a, b\nf(*x)",
    ],
)
def test_other_splats_stay(lines: str) -> None:
    body = lines.replace("\n", "\n ")
    assert packed_splats(ast.parse(f"def made(a, b):\n {body}")) == set()


def test_nothing_is_packed_only_to_be_splatted() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 150
    found = {path: packed_splats(tree_of(path)) for path in paths}
    assert not {str(path): splats for path, splats in found.items() if splats}
