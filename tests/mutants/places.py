"""Places of a module where a bug can be planted, and the bugs for each of them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_match, operator_number, operator_string

# Texts are left out, because `tests/golden` compares them word by word; `_other_number` changes numbers here. A `match`
# statement without one of its cases is left out, too.
_LEFT_OUT = (operator_string, operator_match, operator_number)
_OPERATORS = [pair for pair in mutation_operators if pair[1] not in _LEFT_OUT]
# Numbers below it are tolerances for rounding, which no result shows.
_SMALLEST_NUMBER = 1e-6
# Of no meaning while the package runs, or an error at its import.
_NOT_MUTATED = (cst.Annotation, cst.Decorator, cst.Import, cst.ImportFrom, cst.TypeAlias)
# Aliases of types, which are for the type checker.
_TYPES = m.Name("Callable") | m.Name("Literal") | m.Name("NDArray") | m.Name("dict") | m.Name("list") | m.Name("tuple")
_TYPE_ALIAS = m.Assign(value=m.Subscript(value=_TYPES)) | m.AnnAssign(annotation=m.Annotation(m.Name("TypeAlias")))
# What `from ... import *` gives, which ruff compares with the names of the module.
_ALL = m.Assign(targets=[m.AssignTarget(target=m.Name("__all__"))])
# Calls whose arguments stay: `len` and `isinstance` raise an error without one of theirs, and the results of `zip` with
# `strict=True` do not depend on it.
_ARGUMENTS_STAY = m.Call(func=m.Name("len") | m.Name("isinstance") | m.Name("zip"))


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A module with one bug planted.

    Attributes
    ----------
    path : pathlib.Path
        The module, relative to the repository's root.
    line : int
        Number of the line that has the bug; the first line is 1.
    statement_line : int
        Number of the first line of the statement that has the bug.
    before, after : str
        The statement, or the first line of a compound one, without and with the bug.
    source : str
        The whole module with the bug.
    """

    path: Path
    line: int
    statement_line: int
    before: str
    after: str
    source: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What names this mutant wherever its lines move to: path, statement, and statement with the bug."""
        return str(self.path), self.before, self.after


def _negated(test: cst.BaseExpression) -> cst.BaseExpression:
    in_brackets = test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.UnaryOperation(cst.Not(), in_brackets)


def _changes_of_statements(node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    """Leave out a call or a raised error, return None, and take the other branch: mutmut has no operators for these."""
    if m.matches(node, m.Expr(m.Call()) | m.Raise()):
        yield cst.Pass()
    elif isinstance(node, cst.Return):
        if node.value is not None and not m.matches(node.value, m.Name("None")):
            yield node.with_changes(value=cst.Name("None"), whitespace_after_return=cst.SimpleWhitespace(" "))
    elif isinstance(node, cst.If | cst.While | cst.CompIf):
        yield node.with_changes(test=_negated(node.test))


def _other_number(node: cst.BaseNumber) -> Iterable[cst.BaseNumber]:
    """Add 1 to small whole numbers and double all others: 1 more than two thousand million is not a bug."""
    if not isinstance(node, cst.Integer | cst.Float):
        return
    value = node.evaluated_value
    if isinstance(value, int):
        yield node.with_changes(value=repr(value + 1 if value < 10 else 2 * value))
    elif value == 0.0:
        yield node.with_changes(value="1.0")
    elif value > _SMALLEST_NUMBER:
        yield node.with_changes(value=repr(2 * value))


def _changes(node: cst.CSTNode) -> list[cst.CSTNode]:
    changed = list(_changes_of_statements(node))
    if m.matches(node, _ARGUMENTS_STAY):
        return changed
    if isinstance(node, cst.BaseNumber):
        changed += _other_number(node)
    for node_type, operator in _OPERATORS:
        if isinstance(node, node_type):
            changed += operator(node)
    return changed


class _Places(cst.CSTVisitor):
    """Collect the nodes that can be changed, each with what it can become."""

    def __init__(self) -> None:
        self.found: list[tuple[cst.CSTNode, list[cst.CSTNode]]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _NOT_MUTATED):
            return False
        if isinstance(node, cst.If) and m.matches(node.test, m.Name("TYPE_CHECKING")):
            return False
        if m.matches(node, m.Arg(keyword=m.Name("strict")) | _TYPE_ALIAS | _ALL):
            return False
        changed = _changes(node)
        if changed:
            self.found.append((node, changed))
        return True


def _first_lines(module: cst.Module, statement: cst.CSTNode) -> str:
    """Return a statement as one line; of one with a body, what stands before the body."""
    if isinstance(statement, cst.BaseCompoundStatement):
        statement = statement.with_changes(body=cst.SimpleStatementSuite([cst.Pass()]))
        if isinstance(statement, cst.If | cst.For | cst.While | cst.Try):
            statement = statement.with_changes(orelse=None)
    code = module.code_for_node(statement.with_changes(leading_lines=[]))
    return " ".join(code.split()).removesuffix(": pass")


class PlacesOfModule:
    """The places of one module where a bug can be planted.

    Parameters
    ----------
    root : pathlib.Path
        The repository's root.
    path : pathlib.Path
        The module, relative to `root`.
    """

    def __init__(self, root: Path, path: Path) -> None:
        self.path = path
        self._wrapper = MetadataWrapper(cst.parse_module((root / path).read_text(encoding="utf-8")))
        visitor = _Places()
        self._wrapper.visit(visitor)
        self._found = visitor.found
        self._positions = self._wrapper.resolve(PositionProvider)
        self._parents = self._wrapper.resolve(ParentNodeProvider)

    def __len__(self) -> int:
        return len(self._found)

    def statements(self) -> set[str]:
        """Return the statements in which a bug can be planted, as `Mutant.before` writes them."""
        return {_first_lines(self._wrapper.module, self._statement(node)) for node, _ in self._found}

    def _statement(self, node: cst.CSTNode) -> cst.CSTNode:
        while not isinstance(node, cst.BaseCompoundStatement | cst.SimpleStatementLine):
            node = self._parents[node]
        return node

    def mutant(self, index: int, chosen_by: random.Random) -> Mutant:
        """Plant one of the bugs of a place, by chance."""
        node, changed = self._found[index]
        statement = self._statement(node)
        replacement = chosen_by.choice(changed)
        mutated = replacement if node is statement else statement.deep_replace(node, replacement)
        module = self._wrapper.module
        return Mutant(
            path=self.path,
            line=self._positions[node].start.line,
            statement_line=self._positions[statement].start.line,
            before=_first_lines(module, statement),
            after=_first_lines(module, mutated),
            source=module.deep_replace(statement, mutated).code,
        )


def sample(root: Path, paths: Sequence[Path], count: int, seed: int) -> list[Mutant]:
    """Plant bugs at random places of some modules, one at each place, no place twice.

    Parameters
    ----------
    root : pathlib.Path
        The repository's root.
    paths : sequence of pathlib.Path
        The modules, relative to `root`.
    count : int
        Number of mutants; where the modules have fewer places, all places.
    seed : int
        The same modules and the same seed give the same mutants, and a smaller count the first of them.
    """
    modules = [PlacesOfModule(root, path) for path in paths]
    places = []
    for module in modules:
        places += [(module, index) for index in range(len(module))]
    generator = random.Random(seed)
    generator.shuffle(places)
    return [module.mutant(index, generator) for module, index in places[:count]]
