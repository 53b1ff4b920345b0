"""Mutants: source files with one changed number, comparison or sign.

Numbers are doubled, or multiplied by 1,000 if below 0.001; 0 becomes 1. `<` and `<=`,
`>` and `>=`, `==` and `!=`, `+` and `-` are swapped; a unary `-` is dropped.
Annotations, strings, raised errors and asserts, which never fail, are left out.
"""

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_OPERATORS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
}
_SEQUENCES = (ast.JoinedStr, ast.List, ast.ListComp, ast.Tuple)


class Mutant(NamedTuple):
    """A change of a source file.

    Attributes:
        file: path within the checkout.
        lines: lines whose tests may notice the change: those of the statement without
            its body, of the whole function if it is in the header, or those that use a
            constant of the module. Empty if it runs at import, for which the test that
            happens to import the file first would be the only one.
        start: byte offset of the change.
        old: original text.
        new: replacement text.
    """

    file: str
    lines: tuple[int, ...]
    start: int
    old: str
    new: str

    def made(self, source: bytes) -> bytes:
        end = self.start + len(self.old)
        assert source[self.start : end] == self.old.encode()
        return source[: self.start] + self.new.encode() + source[end:]

    def told(self, source: bytes) -> str:
        """Return the file, the line's number, and its text before and after."""
        number = source[: self.start].count(b"\n")
        before, after = (
            text.decode().splitlines()[number].strip()
            for text in (source, self.made(source))
        )
        return f"{self.file}:{number + 1}: {before} → {after}"


class _Visitor(ast.NodeVisitor):
    """Finds all mutants of a file."""

    def __init__(self, file: str, source: bytes) -> None:
        self.found: list[Mutant] = []
        self._uses: dict[int, tuple[int, ...]] = {}
        self._inner = set[int]()
        self._file, self._source = file, source
        lines = source.splitlines(keepends=True)
        self._starts = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]
        self._lines: tuple[int, ...] = ()

    def visit_Module(self, node: ast.Module) -> None:
        """Find the lines of functions, and those that use constants of the module."""
        functions = [x for x in ast.walk(node) if isinstance(x, ast.FunctionDef)]
        self._inner = {line for each in functions for line in _body(each)}
        names = [x for each in functions for x in ast.walk(each)]
        for each in node.body:
            if isinstance(each, ast.Assign | ast.AnnAssign):
                own = {x.id for x in ast.walk(each) if _is_named(x, ast.Store)}
                used = {x.lineno for x in names if _is_named(x) and x.id in own}
                self._uses[each.lineno] = tuple(sorted(used & self._inner))
        self.generic_visit(node)

    def visit(self, node: ast.AST) -> None:
        """Visit a node, unless it is excluded from mutation."""
        if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.arg):
            return
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno
            own = tuple(range(node.lineno, max(node.lineno, last or 0) + 1))
            inner = own if node.lineno in self._inner else ()
            self._lines = self._uses.get(node.lineno, inner)
        if isinstance(node, ast.FunctionDef):
            self._lines = tuple(_body(node))
            node.returns = None
        if isinstance(node, ast.AnnAssign):
            node.annotation = node.target
        super().visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Swap comparison operators."""
        operands = [node.left, *node.comparators[:-1]]
        for operator, left, right in zip(
            node.ops, operands, node.comparators, strict=True
        ):
            self._swap(operator, left, right)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Swap + and -, except between sequences."""
        if not _is_sequence(node):
            self._swap(node.op, node.left, node.right)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Swap += and -=, except with sequences."""
        if not _is_sequence(node.value):
            self._swap(node.op, node.target, node.value)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub):
            self._add(self._offset(node.lineno, node.col_offset), "-", "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) in (int, float):
            text = ast.get_source_segment(self._source.decode(), node)
            start = self._offset(node.lineno, node.col_offset)
            self._add(start, text or "", repr(_other(node.value)))

    def _swap(self, operator: ast.AST, left: ast.expr, right: ast.expr) -> None:
        if type(operator) not in _OPERATORS:
            return
        old, new = _OPERATORS[type(operator)]
        assert left.end_lineno is not None and left.end_col_offset is not None
        start = self._offset(left.end_lineno, left.end_col_offset)
        between = self._source[start : self._offset(right.lineno, right.col_offset)]
        found = re.search(re.escape(old).encode(), re.sub(rb"#.*", _blank, between))
        assert found is not None
        self._add(start + found.start(), old, new)

    def _add(self, start: int, old: str, new: str) -> None:
        self.found.append(Mutant(self._file, self._lines, start, old, new))

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column


def _blank(comment: re.Match[bytes]) -> bytes:
    return b" " * len(comment[0])


def _body(node: ast.FunctionDef) -> range:
    """Return the lines of a function without its header."""
    assert node.end_lineno is not None
    return range(node.body[0].lineno, node.end_lineno + 1)


def _is_named(node: ast.AST, context: type[ast.expr_context] = ast.Load) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, context)


def _is_sequence(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_sequence(node.left) or _is_sequence(node.right)
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    return is_text or isinstance(node, _SEQUENCES)


def _other(number: float) -> float:
    # Doubling an epsilon would have no observable effect.
    return number * (2 if abs(number) >= 0.001 else 1_000) or type(number)(1)


def find_mutants(root: Path, sources: Sequence[str]) -> list[Mutant]:
    """Return all mutants of the source directories in a checkout."""
    found = []
    paths = (path for each in sources for path in (root / each).rglob("*.py"))
    for path in sorted(paths):
        source = path.read_bytes()
        visitor = _Visitor(path.relative_to(root).as_posix(), source)
        visitor.visit(ast.parse(source))
        found += visitor.found
    return found
