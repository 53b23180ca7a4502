"""What can go wrong with a workflow.

::

    WorkflowError               a line with file:line and the chain of rules, when they are known
    ├── WorkflowSyntaxError     the XML, a path or an expression cannot be read; found before it runs
    ├── EvaluationError         a function cannot do what it is asked with the values it got
    ├── TemplateError           a template, script or other file is missing or cannot be used
    ├── NotConverging           rules never stop changing the model, or commands never end
    ├── CommandFailed           a command failed and has no <failure> block
    └── Cancelled               the task was told to end
    CaseError                   a case, or what it expects, has another shape than it must have
"""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """Where an element starts; line and column count from 1."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class WorkflowError(Exception):
    """A workflow cannot continue. ``message`` is one line without the place.

    ``place`` and ``rules`` (outermost first, each with its place) are filled in by the first caller that
    knows them while the error is passed up.
    """

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message)
        self.message = " ".join(message.split())
        self.place = place
        self.rules: tuple[str, ...] | None = None

    def __str__(self) -> str:
        text = self.message if self.place is None else f"{self.place}: {self.message}"
        return f"{text} (in {' > '.join(self.rules)})" if self.rules else text


class WorkflowSyntaxError(WorkflowError):
    """A file, a path or an expression cannot be read."""


class EvaluationError(WorkflowError):
    """A function cannot do what it is asked."""


class TemplateError(WorkflowError):
    """A file is missing or cannot be used."""


class NotConverging(WorkflowError):
    """The rules do not come to an end within the limits."""


class CommandFailed(WorkflowError):
    """A command failed and no block handles it."""


class Cancelled(WorkflowError):
    """The task was told to end; the message says why."""


class CaseError(ValueError):
    """A case document is not what it must be; the message names the place in it."""
