"""Every exception of the expression language (yaql.md section 9).

    YaqlException
    ├── ResolutionError
    │   ├── FunctionResolutionError     NoFunctionRegisteredException, NoMatchingFunctionException,
    │   │                               AmbiguousFunctionException
    │   └── MethodResolutionError       NoMethodRegisteredException, NoMatchingMethodException,
    │                                   AmbiguousMethodException
    ├── ArgumentException               ArgumentValueException
    ├── MappingTranslationException
    ├── YaqlParsingException            YaqlGrammarException, YaqlLexicalException
    ├── InvalidMethodException
    ├── WrappedException
    ├── FormatException                 a placeholder that reaches into a value
    ├── NoSuchKey                       a `KeyError` that lists the keys
    ├── EmptySequence                   no first element (`StopIteration` for programs)
    └── LimitException                  CollectionTooLargeException, MemoryQuotaExceededException,
                                        StepLimitExceeded, TimeLimitExceeded, DepthLimitExceeded,
                                        EvaluationCancelled

Besides these an expression fails with Python's own `KeyError`, `IndexError`, `ValueError`,
`TypeError`, `ZeroDivisionError` and `AssertionError` where the specification names them. The
attribute `legacy_names` of each class lists its names for `Catch`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

LEGACY = "yaql.language.exceptions."


class YaqlException(Exception):
    """A failure of an expression: in its text, its names, its arguments or its use of resources.

    `position` is the offset (in characters, from 0) in the expression's text, or None when the
    failure did not occur in an expression. `hint` is one suggestion. A subclass with `legacy=True` has its
    own name among the older ones as well.
    """

    legacy_names: ClassVar[tuple[str, ...]] = (LEGACY + "YaqlException",)

    def __init_subclass__(cls, *, legacy: bool = False) -> None:
        super().__init_subclass__()
        if legacy:
            cls.legacy_names = (LEGACY + cls.__name__,)

    def __init__(
        self, message: str, *, position: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ResolutionError(YaqlException, legacy=True):
    """No implementation, or more than one, for a call."""


class FunctionResolutionError(ResolutionError, legacy=True):
    """A function call that cannot be resolved."""


class NoFunctionRegisteredException(FunctionResolutionError, legacy=True):
    """The function does not exist in this context."""


class NoMatchingFunctionException(FunctionResolutionError, legacy=True):
    """The function exists, but not for these arguments."""


class AmbiguousFunctionException(FunctionResolutionError, legacy=True):
    """Several overloads fit equally well."""


class MethodResolutionError(ResolutionError, legacy=True):
    """A method call that cannot be resolved."""


class NoMethodRegisteredException(MethodResolutionError, legacy=True):
    """The method does not exist in this context."""


class NoMatchingMethodException(MethodResolutionError, legacy=True):
    """The method exists, but not for this receiver and these arguments."""


class AmbiguousMethodException(MethodResolutionError, legacy=True):
    """Several overloads fit equally well."""


class ArgumentException(YaqlException, legacy=True):
    """An argument is missing, given twice or unusable."""


class ArgumentValueException(ArgumentException, legacy=True):
    """An argument's value is not one that the function accepts."""


class MappingTranslationException(YaqlException, legacy=True):
    """`=>` where neither a name nor a mapping is allowed."""


class YaqlParsingException(YaqlException, legacy=True):
    """The text is not an expression. `text` is the text, `position` the offset of the error."""

    def __init__(self, message: str, *, position: int, text: str, hint: str | None = None) -> None:
        super().__init__(message, position=position, hint=hint)
        self.text = text

    def __str__(self) -> str:
        place = (self.position or 0) + 1
        head = f"{self.message} at character {place} of `{_excerpt(self.text, place - 1)}`"
        return f"{head} ({self.hint})" if self.hint else head


class YaqlGrammarException(YaqlParsingException, legacy=True):
    """The tokens do not form an expression."""


class YaqlLexicalException(YaqlParsingException, legacy=True):
    """A character or name that no token begins with."""


class InvalidMethodException(YaqlException, legacy=True):
    """A registered function that cannot be called as a method."""


class WrappedException(YaqlException, legacy=True):
    """A host exception that must not be treated as one of the language."""


def described_function(name: str) -> str:
    """A function's name for messages: operators and the index have internal library names."""
    for prefix, word in (("#unary_operator_", "unary operator"), ("#operator_", "operator")):
        if name.startswith(prefix):
            return f'{word} "{name.removeprefix(prefix)}"'
    return 'index "[…]"' if name == "#indexer" else f'function "{name}"'


class FormatException(YaqlException, ValueError):
    """A `format` placeholder that reads a field or an item of a value (yaql.md section 7)."""

    legacy_names = ("ValueError",)


class LimitException(YaqlException):
    """A limit was exceeded. Hosts do not let program code catch these."""


class CollectionTooLargeException(LimitException, legacy=True):
    """A sequence produced more elements than `Limits.collection_items`."""


class MemoryQuotaExceededException(LimitException, legacy=True):
    """A value grew beyond `Limits.string_length`, `integer_bits` or `memory_bytes`."""


class StepLimitExceeded(LimitException):
    """More work than `Limits.steps`."""


class TimeLimitExceeded(LimitException):
    """More wall time than `Limits.seconds`, or a regular expression slower than its share."""


class DepthLimitExceeded(LimitException):
    """Functions made by `def` or sequences nested deeper than `Limits.depth`."""


class EvaluationCancelled(LimitException):
    """`Evaluation.cancel` was called; the message is the given reason."""


class NoSuchKey(YaqlException, KeyError):
    """A mapping has no such key. A `KeyError` for programs and hosts alike.

    `suggest` makes the hint on first use.
    """

    legacy_names = ("KeyError",)

    def __init__(
        self,
        message: str,
        *,
        position: int | None = None,
        hint: str | None = None,
        suggest: Callable[[], str | None] | None = None,
    ) -> None:
        self._suggest = suggest
        super().__init__(message, position=position, hint=hint)

    @property
    def hint(self) -> str | None:
        if self._suggest is not None:
            suggest, self._suggest = self._suggest, None
            self._hint = suggest()
        return self._hint

    @hint.setter
    def hint(self, value: str | None) -> None:
        self._hint = value


class EmptySequence(YaqlException, LookupError):
    """`first`, `last` or `single` found no element, or `single` several.

    Programs catch it as `StopIteration`. It is not a Python `StopIteration`: one raised in a
    selector would silently end the enclosing sequence.
    """

    legacy_names = ("StopIteration",)


def legacy_names(error: BaseException) -> tuple[str, ...]:
    """The names under which a `Catch` of an older program matches `error`, most specific first.

    Names of the base classes are included, so that `yaql.language.exceptions.ResolutionError`
    catches each kind of it.
    """
    names: list[str] = []
    for cls in type(error).__mro__:
        if cls is object:
            break
        for name in cls.__dict__.get("legacy_names", ()):
            if name not in names:
                names.append(name)
        if cls.__module__ == "builtins" and cls.__name__ not in names:
            names.append(cls.__name__)
    return tuple(names)


def _excerpt(text: str, position: int, width: int = 60) -> str:
    if len(text) <= width:
        return text
    start = max(0, min(position - width // 2, len(text) - width))
    end = start + width
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
