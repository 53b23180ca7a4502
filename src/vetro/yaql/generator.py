"""What the modules that compile one kind of node each ask of the code generator (`codegen`)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from . import ast
from .codes import Code
from .library import Library
from .scopes import Scope
from .signatures import Lazy


class Generator(Protocol):
    """The part of `ExpressionCodegen` that `arithmetic`, `containers`, `forms` and `inlining` use."""

    frozen_data: bool
    library: Library
    rt: str
    """The variable that holds the evaluation in generated code."""

    def slot(self, kind: str, data: tuple[object, ...], node: ast.Node) -> str:
        """The name of a new slot that comes from `node`."""
        ...

    def runtime_slot(self, name: str, node: ast.Node) -> str:
        """A slot for a function of `runtime`."""
        ...

    def outer_dollar(self, scope: Scope | None) -> str:
        """The text of `$` at a place."""
        ...

    def lambda_argument(self, node: ast.Expression, lazy: Lazy, scope: Scope | None) -> Code:
        """A lazy argument as a Python lambda."""
        ...

    def temporary(self) -> str:
        """A fresh local variable."""
        ...

    def twice(self, code: Code) -> tuple[str, str]:
        """Two texts: one reads a value; the other computes it and must be evaluated first."""
        ...

    def value(self, node: ast.Node, scope: Scope | None) -> Code:
        """The code of any node in a scope."""
        ...

    def list_of(self, codes: list[Code]) -> Code:
        """A list; a final one where that costs nothing."""
        ...

    def mapping(self, pairs: list[ast.Pair], scope: Scope | None) -> Code:
        """A mapping of pairs, in order; the last of equal keys wins."""
        ...

    def replacing(self, codes: dict[int, Code]) -> AbstractContextManager[None]:
        """A context in which nodes (by `id`) use the given codes instead of being compiled."""
        ...

    def compiled(self, node: ast.Node) -> Code | None:
        """The code of a node that was compiled beforehand (see `replacing`)."""
        ...
