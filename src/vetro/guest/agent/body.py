"""Run the `Body` of a plan: Python statements that may `return` (guest-agent.md §7.6)."""

import ast
import textwrap

from .documents import is_list, is_map
from .errors import AgentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, Dict

    _Map = Dict[str, Any]
else:
    _Map = dict

_FUNCTION = "execution_plan"


class AttributeMap(_Map):
    """A map whose string keys are attributes too; nested maps and lists are converted as well."""

    def __init__(self, values: "dict[str, Any]") -> None:
        super().__init__((key, _wrap(value)) for key, value in values.items())

    def __getattr__(self, name: str) -> object:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                "The plan has no parameter %r; it has: %s" % (name, ", ".join(map(str, self)))
            ) from None


def _wrap(value: "Any") -> object:
    if is_map(value):
        return AttributeMap(value)
    if is_list(value):
        return [_wrap(item) for item in value]
    return value


def execute(text: str, parameters: "dict[str, Any]", scripts: "dict[str, object]") -> object:
    """Run a plan body and return its value.

    The body sees `args` and one callable per script name. Raises whatever the body raises,
    and `AgentError` for a body that is not Python.
    """
    scope: "dict[str, Any]" = dict(scripts)
    scope["args"] = AttributeMap(parameters)
    scope["__name__"] = _FUNCTION
    exec(_compile(text), scope)  # noqa: S102 running the plan's body is what this agent is for
    return scope[_FUNCTION]()


def _compile(text: str) -> "CodeType":
    """The body as a function. It is inserted into the syntax tree, not indented as text, because
    indenting would also change the lines of multi-line strings."""
    source = textwrap.dedent(text.replace("\t", "    ")).strip("\n")
    try:
        body = ast.parse(source, "<plan body>", "exec")
        module = ast.parse("def %s():\n    pass\n" % _FUNCTION, "<plan body>", "exec")
        if body.body:
            module.body[0].body = body.body  # type: ignore[attr-defined]
        return compile(module, "<plan body>", "exec")
    except (SyntaxError, ValueError) as error:
        raise AgentError("The body of the plan is not valid Python: %s" % error) from error
