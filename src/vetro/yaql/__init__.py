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
from .dynamic import call_by_name
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
from .evaluation import Limits as YaqlLimits
from .grammar import MURANOPL, STANDARD, Grammar
from .inline_caches import function_site, method_site
from .kinds import LAZY
from .library import Library
from .parser import parse
from .plain import to_plain
from .runtime import property_site
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
    Overload,
    Parameter,
    RegularExpression,
    SetOfValues,
    Text,
    Thunk,
    Timespan,
    read_signature,
)
from .standard import standard_library
from .text import format_template, host_text, to_text
from .values import (
    FINAL_TYPES,
    Context,
    FrozenDict,
    Memorized,
    collect,
    declare_final,
    finalize,
    kind_of,
    preview,
)

if TYPE_CHECKING:
    from .codegen import ExpressionCodegen
    from .codes import Arguments, Code
    from .expression import Expression, evaluate
    from .expression import compile_expression as compile
    from .linting import Finding, is_accident, lint
    from .scopes import Scope
    from .slots import PRELUDE, Emitter, Slot, bind_slot, bind_slots, locate

__getattr__ = import_when_used(__name__)


__all__ = [
    "FINAL_TYPES",
    "LAZY",
    "MURANOPL",
    "PRELUDE",
    "STANDARD",
    "AmbiguousFunctionException",
    "AmbiguousMethodException",
    "ArgumentException",
    "ArgumentValueException",
    "Arguments",
    "Boolean",
    "Code",
    "CollectionTooLargeException",
    "Context",
    "DepthLimitExceeded",
    "Dictionary",
    "Emitter",
    "EmptySequence",
    "Evaluation",
    "EvaluationCancelled",
    "Expression",
    "ExpressionCodegen",
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
    "Overload",
    "Parameter",
    "RegularExpression",
    "ResolutionError",
    "Scope",
    "SetOfValues",
    "Slot",
    "StepLimitExceeded",
    "Text",
    "Thunk",
    "TimeLimitExceeded",
    "Timespan",
    "WrappedException",
    "YaqlException",
    "YaqlGrammarException",
    "YaqlLexicalException",
    "YaqlLimits",
    "YaqlParsingException",
    "ast",
    "bind_slot",
    "bind_slots",
    "call_by_name",
    "collect",
    "compile",
    "declare_final",
    "equal",
    "evaluate",
    "finalize",
    "format_template",
    "function_site",
    "hashable",
    "host_text",
    "is_accident",
    "kind_of",
    "legacy_names",
    "lint",
    "locate",
    "method_site",
    "parse",
    "preview",
    "property_site",
    "read_signature",
    "standard_library",
    "to_plain",
    "to_text",
]
