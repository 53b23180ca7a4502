"""YAQL: the expression language, compiled to Python, bounded, safe for untrusted text.

    from vetro.yaql import compile, evaluate

    evaluate("$.items.where($.price > 10).select($.name)", {"items": [...]})

    cheap = compile("$.where($.price < $limit)")
    cheap.evaluate(rows, {"limit": 5})

Phases, one module each, each opening with what it establishes for the next:
`scanner` (text to tokens) → `parser` with `grammar` (tokens to a tree, `ast`) → `scopes` (what
names mean) → `codegen` with `arithmetic`, `containers`, `forms`, `inlining` (tree to Python text and
`slots`) → `inline_caches` (calls resolved once per shape of argument types) → `standard` (the
functions). `linting` says what is allowed but rarely meant.

Hosts that compile expressions into code of their own start at the text of `codegen`; those that
add functions at `library`; those that bound evaluations at `evaluation`.
"""

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

from . import ast
from .comparing import equal, hashable
from .errors import (
    AmbiguousFunctionException,
    AmbiguousMethodException,
    ArgumentException,
    ArgumentValueException,
    CollectionTooLargeException,
    DepthLimitExceeded,
    EmptySequence,
    EvaluationCancelled,
    FormatException,
    FunctionResolutionError,
    InvalidMethodException,
    LimitException,
    MappingTranslationException,
    MemoryQuotaExceededException,
    MethodResolutionError,
    NoFunctionRegisteredException,
    NoMatchingFunctionException,
    NoMatchingMethodException,
    NoMethodRegisteredException,
    NoSuchKey,
    ResolutionError,
    StepLimitExceeded,
    TimeLimitExceeded,
    WrappedException,
    YaqlException,
    YaqlGrammarException,
    YaqlLexicalException,
    YaqlParsingException,
    legacy_names,
)
from .evaluation import Evaluation, Limits
from .expression import to_plain
from .grammar import MURANOPL, STANDARD, Grammar
from .inline_caches import function_site, method_site
from .library import Library
from .parser import parse
from .signatures import (
    Boolean,
    Dictionary,
    Integer,
    ItemList,
    Items,
    Lambda,
    Lambda2,
    LambdaAny,
    Lazy,
    Moment,
    Number,
    RegularExpression,
    SetOfValues,
    Text,
    Thunk,
    Timespan,
)
from .standard import standard_library
from .values import (
    Context,
    FrozenDict,
    Memorized,
    collect,
    declare_final,
    finalize,
    preview,
)

if TYPE_CHECKING:
    from .codes import Code
    from .expression import Expression, evaluate
    from .expression import compile_expression as compile
    from .linting import Finding, is_accident, lint
    from .scopes import Scope

__getattr__ = import_when_used(__name__)


__all__ = [
    "MURANOPL",
    "STANDARD",
    "AmbiguousFunctionException",
    "AmbiguousMethodException",
    "ArgumentException",
    "ArgumentValueException",
    "Boolean",
    "Code",
    "CollectionTooLargeException",
    "Context",
    "DepthLimitExceeded",
    "Dictionary",
    "EmptySequence",
    "Evaluation",
    "EvaluationCancelled",
    "Expression",
    "Finding",
    "FormatException",
    "FrozenDict",
    "FunctionResolutionError",
    "Grammar",
    "Integer",
    "InvalidMethodException",
    "ItemList",
    "Items",
    "Lambda",
    "Lambda2",
    "LambdaAny",
    "Lazy",
    "Library",
    "LimitException",
    "Limits",
    "MappingTranslationException",
    "Memorized",
    "MemoryQuotaExceededException",
    "MethodResolutionError",
    "Moment",
    "NoFunctionRegisteredException",
    "NoMatchingFunctionException",
    "NoMatchingMethodException",
    "NoMethodRegisteredException",
    "NoSuchKey",
    "Number",
    "RegularExpression",
    "ResolutionError",
    "Scope",
    "SetOfValues",
    "StepLimitExceeded",
    "Text",
    "Thunk",
    "TimeLimitExceeded",
    "Timespan",
    "WrappedException",
    "YaqlException",
    "YaqlGrammarException",
    "YaqlLexicalException",
    "YaqlParsingException",
    "ast",
    "collect",
    "compile",
    "declare_final",
    "equal",
    "evaluate",
    "finalize",
    "function_site",
    "hashable",
    "is_accident",
    "legacy_names",
    "lint",
    "method_site",
    "parse",
    "preview",
    "standard_library",
    "to_plain",
]
