"""Library calls that are compiled in place for the frequent type of their argument.

Only calls that a host has not replaced are inlined. Each template returns None for a call of
another shape, which then uses its site as any other call. Inlined code does a bounded amount of
work, or a check of its operand's length comes first.
"""

from __future__ import annotations

from collections.abc import Callable

from . import ast
from .codes import Arguments, Code
from .errors import FormatException
from .generator import Generator
from .kinds import ANY, BOOLEAN, FUNCTION, HOST, INTEGER, LAZY, LIST, REGEX, SCALAR, STRING
from .text import read_template

_Function = Callable[[Generator, ast.Call, Arguments], Code | None]
_Method = Callable[[Generator, Code, ast.MethodCall, Arguments], Code | None]
_SHORT = 4096
"""Work on strings of up to this many characters is not charged."""


def function(gen: Generator, node: ast.Call, arguments: Arguments) -> Code | None:
    """The code in place of a function call, or None."""
    template = _FUNCTIONS.get(node.name)
    if template is None or any(arguments.shape):
        return None
    return template(gen, node, arguments)


def method(gen: Generator, target: Code, node: ast.MethodCall, arguments: Arguments) -> Code | None:
    """The code in place of a method call, or None."""
    template = _METHODS.get(node.name)
    if template is None or any(arguments.shape):
        return None
    return template(gen, target, node, arguments)


def _str(gen: Generator, node: ast.Call, arguments: Arguments) -> Code | None:
    if len(arguments.codes) != 1:
        return None
    argument = arguments.codes[0]
    if argument.kinds == STRING:
        return argument
    slot = gen.slot("function", ("str", ("",)), node)
    read, bind = gen.twice(argument)
    return Code(
        f"(str({read}) if type({bind}) is int and -0xffffffff < {read} < 0xffffffff "
        f"else {slot}({gen.rt}, {read}))",
        STRING,
    )


def _int(gen: Generator, node: ast.Call, arguments: Arguments) -> Code | None:
    if len(arguments.codes) != 1 or not arguments.codes[0].kinds & (STRING | INTEGER):
        return None
    argument = arguments.codes[0]
    if argument.kinds == INTEGER:
        return argument
    slot = gen.slot("function", ("int", ("",)), node)
    read, bind = gen.twice(argument)
    # Values that are not numbers are left to the function, which raises the error.
    return Code(
        f"(int({read}) if {slot} and type({bind}) is str and len({read}) < 100 and {read}.isdecimal() "
        f"else {read} if type({read}) is int else {slot}({gen.rt}, {read}))",
        INTEGER,
    )


def _len_of(gen: Generator, node: ast.Call | ast.MethodCall, target: Code) -> Code | None:
    is_method = isinstance(node, ast.MethodCall)
    if target.kinds & ~(LIST | STRING) == 0:
        return Code(f"len({target.text})", INTEGER)
    read, bind = gen.twice(target)
    if is_method:
        slow = f"{gen.slot('method', ('len', (), ()), node)}({gen.rt}, {read}, None)"
    else:
        slow = f"{gen.slot('function', ('len', ('',)), node)}({gen.rt}, {read})"
    return Code(f"(len({read}) if type({bind}) in y_SIZED else {slow})", INTEGER | HOST)


def _len(gen: Generator, node: ast.Call, arguments: Arguments) -> Code | None:
    return _len_of(gen, node, arguments.codes[0]) if len(arguments.codes) == 1 else None


def _len_method(
    gen: Generator, target: Code, node: ast.MethodCall, arguments: Arguments
) -> Code | None:
    return _len_of(gen, node, target) if not arguments.codes else None


def _list(gen: Generator, node: ast.Call, arguments: Arguments) -> Code | None:
    # The function expands lazy sequences; other values are inserted as they are.
    if any(code.kinds & (LAZY | FUNCTION) for code in arguments.codes):
        return None
    return gen.list_of(arguments.codes)


def _bool(gen: Generator, node: ast.Call, arguments: Arguments) -> Code | None:
    if len(arguments.codes) != 1 or gen.library.is_legacy:
        return None
    return Code(f"bool({arguments.codes[0].text})", BOOLEAN)


def _mapping_test(gen: Generator, bind: str) -> str:
    return f"type({bind}) {'is y_Frozen' if gen.frozen_data else 'in y_MAPPINGS'}"


def _get(gen: Generator, target: Code, node: ast.MethodCall, arguments: Arguments) -> Code | None:
    codes = arguments.codes
    if (
        target.literal
        or not 1 <= len(codes) <= 2
        or not all(code.simple or code.literal for code in codes[1:])
    ):
        return None
    key = codes[0]
    mapping, bind_mapping = gen.twice(target)
    read_key, bind_key = gen.twice(key)
    slot = gen.slot("method", ("get", ("",) * len(codes), ()), node)
    default = f", {codes[1].text}" if len(codes) == 2 else ""
    test = _mapping_test(gen, bind_mapping)
    if key.kinds & ~SCALAR or not key.simple:
        # Both operands are bound here, so both are evaluated whatever the first test yields.
        test = f"({test}) & (type({bind_key}) in y_SCALARS)"
    return Code(
        f"({mapping}.get({read_key}{default}) if {test} "
        f"else {slot}({gen.rt}, {mapping}, None, {read_key}{default}))",
        ANY,
    )


def _contains_key(
    gen: Generator, target: Code, node: ast.MethodCall, arguments: Arguments
) -> Code | None:
    codes = arguments.codes
    if target.literal or len(codes) != 1 or not codes[0].literal or codes[0].kinds & ~SCALAR:
        return None
    read, bind = gen.twice(target)
    slot = gen.slot("method", ("containsKey", ("",), ()), node)
    return Code(
        f"(({codes[0].text} in {read}) if {_mapping_test(gen, bind)} "
        f"else {slot}({gen.rt}, {read}, None, {codes[0].text}))",
        BOOLEAN | HOST,
    )


def _text_method(template: str, least: int, most: int, kinds: int, *, counted: bool) -> _Method:
    """A method of strings whose arguments are literals: `template` takes the string and them."""

    def write(
        gen: Generator, target: Code, node: ast.MethodCall, arguments: Arguments
    ) -> Code | None:
        codes = arguments.codes
        if target.literal or target.kinds & STRING == 0 or not least <= len(codes) <= most:
            return None
        if not all(
            code.literal and code.kinds == STRING and 2 < len(code.text) < 200 for code in codes
        ):
            return None
        read, bind = gen.twice(target)
        slot = gen.slot("method", (node.name, arguments.shape, arguments.lazy), node)
        fast = template.format(read, ", ".join(code.text for code in codes))
        guard = f"type({bind}) is str"
        if counted:
            guard = f"{guard} and len({read}) < {_SHORT}"
        if kinds == LIST:
            guard = f"{guard} and len({read}) <= {gen.rt}.max_items"
        return Code(
            f"({fast} if {guard} else {slot}({gen.rt}, {read}, None{arguments.joined()}))",
            kinds | HOST,
        )

    return write


def _replace(
    gen: Generator, target: Code, node: ast.MethodCall, arguments: Arguments
) -> Code | None:
    codes = arguments.codes
    if target.literal or target.kinds & STRING == 0 or len(codes) != 2:
        return None
    old, new = codes
    if not all(code.literal and code.kinds == STRING and len(code.text) < 100 for code in codes):
        return None
    read, bind = gen.twice(target)
    slot = gen.slot("method", ("replace", ("", ""), ()), node)
    result = gen.temporary()
    made = f"{read}.replace({old.text}, {new.text})"
    return Code(
        f"(({result} if len({result} := {made}) < {_SHORT} "
        f"else y_checked_string({gen.rt}, {result})) "
        f"if type({bind}) is str and len({read}) < {_SHORT} "
        f"else {slot}({gen.rt}, {read}, None{arguments.joined()}))",
        ANY,
    )


def _substring(
    gen: Generator, target: Code, node: ast.MethodCall, arguments: Arguments
) -> Code | None:
    codes = arguments.codes
    if target.literal or target.kinds & STRING == 0 or not 1 <= len(codes) <= 2:
        return None
    if not all(code.kinds & INTEGER for code in codes):
        return None
    # All operands are evaluated before any test.
    steps: list[str] = []
    names: list[str] = []
    tests: list[str] = []
    for code in (target, *codes):
        if code.simple:
            names.append(code.text)
        else:
            names.append(gen.temporary())
            steps.append(f"{names[-1]} := {code.text}")
    text, start = names[0], names[1]
    tests.append(f"type({text}) is str and len({text}) < {_SHORT}")
    for name, code in zip(names[1:], codes, strict=True):
        if code.kinds != INTEGER:
            tests.append(f"type({name}) is int")
        if not code.literal:
            tests.append(f"{name} >= 0")
    end = f"{start} + {names[2]}" if len(codes) == 2 else ""
    slot = gen.slot("method", ("substring", arguments.shape, ()), node)
    passed = "".join(f", {name}" for name in names[1:])
    steps.append(
        f"{text}[{start}:{end}] if {' and '.join(tests)} "
        f"else {slot}({gen.rt}, {text}, None{passed})"
    )
    return Code(f"({', '.join(steps)})[-1]" if len(steps) > 1 else f"({steps[0]})", STRING | HOST)


def _join(gen: Generator, target: Code, node: ast.MethodCall, arguments: Arguments) -> Code | None:
    codes = arguments.codes
    if target.literal or len(codes) != 1 or not codes[0].literal or codes[0].kinds != STRING:
        return None
    read, bind = gen.twice(target)
    slot = gen.slot("method", ("join", ("",), ()), node)
    return Code(
        f"(y_joined({gen.rt}, {codes[0].text}, {read}) if type({bind}) in y_JOINABLE "
        f"else {slot}({gen.rt}, {read}, None, {codes[0].text}))",
        STRING | HOST,
    )


def _matches(
    gen: Generator, target: Code, node: ast.MethodCall, arguments: Arguments
) -> Code | None:
    codes = arguments.codes
    pattern = codes[0].constant_string if len(codes) == 1 else None
    if target.literal or pattern is None:
        return None
    read, bind = gen.twice(target)
    fast = gen.slot("match", ("=~", pattern), node)
    slot = gen.slot("method", ("matches", ("",), ()), node)
    return Code(
        f"({fast}({gen.rt}, {read}) if type({bind}) is str "
        f"else {slot}({gen.rt}, {read}, None, {codes[0].text}))",
        BOOLEAN | HOST,
    )


def _regex(gen: Generator, node: ast.Call, arguments: Arguments) -> Code | None:
    codes = arguments.codes
    pattern = codes[0].constant_string if len(codes) == 1 else None
    if pattern is None:
        return None
    slot = gen.slot("pattern", (pattern,), node)
    return Code(f"{slot}({gen.rt})", REGEX)


def _format(gen: Generator, node: ast.Call, arguments: Arguments) -> Code | None:
    if not arguments.codes:
        return None
    slot = gen.slot("function", ("format", arguments.shape), node)
    call = f"{slot}({gen.rt}, {arguments.codes[0].text}"
    return _formatted(gen, call, arguments.codes)


def _format_method(
    gen: Generator, target: Code, node: ast.MethodCall, arguments: Arguments
) -> Code | None:
    slot = gen.slot("method", ("format", arguments.shape, ()), node)
    call = f"{slot}({gen.rt}, {target.text}, None"
    return _formatted(gen, call, [target, *arguments.codes])


def _formatted(gen: Generator, call: str, codes: list[Code]) -> Code | None:
    """A constant template as a Python f-string; `call` begins the call of the function."""
    template = codes[0].constant_string
    if template is None or len(template) > _SHORT:
        return None
    try:
        places = read_template(template)
    except FormatException:
        return None
    values = codes[1:]
    if len(places) > 60 or any(
        place.specification
        or isinstance(place.field, str)
        or (place.field is not None and place.field >= len(values))
        for place in places
    ):
        return None
    steps: list[str] = []
    shown: list[str] = []
    tests: list[str] = []
    passed: list[str] = []
    for code in values:
        constant = code.constant_string
        if constant is not None:
            shown.append(_quoted(constant))
            passed.append(code.text)
            continue
        name = code.text
        if not (code.literal or name.isidentifier()):
            name = gen.temporary()
            steps.append(f"{name} := {code.text}")
        if not code.literal:
            # The function charges for long texts and large numbers, and formats other kinds.
            tests.append(_is_short(name, code.kinds))
        elif code.kinds != INTEGER:
            return None
        shown.append(f"{{{name}}}")
        passed.append(name)
    made = "".join(
        _quoted(place.before) + (shown[place.field] if isinstance(place.field, int) else "")
        for place in places
    )
    result = gen.temporary()
    choice = (
        f"({result} if len({result} := f'{made}') < {_SHORT} "
        f"else y_checked_string({gen.rt}, {result}))"
    )
    if tests:
        choice += f" if {' and '.join(tests)} else {call}, {', '.join(passed)})"
    return Code(f"({', '.join(steps)}, {choice})[-1]" if steps else f"({choice})", STRING)


def _is_short(name: str, kinds: int) -> str:
    text = f"len({name}) < {_SHORT}"
    number = f"-0xffffffff < {name} < 0xffffffff"
    if kinds == STRING:
        return text
    if kinds == INTEGER:
        return number
    return f"(type({name}) is str and {text} or type({name}) is int and {number})"


def _quoted(text: str) -> str:
    """Text inside the single quotes of an f-string."""
    quoted = repr('"' + text)[2:-1]
    return quoted.replace("{", "{{").replace("}", "}}")


_FUNCTIONS: dict[str, _Function] = {
    "str": _str,
    "int": _int,
    "len": _len,
    "list": _list,
    "bool": _bool,
    "regex": _regex,
    "format": _format,
}
_METHODS: dict[str, _Method] = {
    "len": _len_method,
    "get": _get,
    "containsKey": _contains_key,
    "toUpper": _text_method("{0}.upper()", 0, 0, STRING, counted=True),
    "toLower": _text_method("{0}.lower()", 0, 0, STRING, counted=True),
    "trim": _text_method("{0}.strip({1})", 0, 1, STRING, counted=True),
    "trimLeft": _text_method("{0}.lstrip({1})", 0, 1, STRING, counted=True),
    "trimRight": _text_method("{0}.rstrip({1})", 0, 1, STRING, counted=True),
    "startsWith": _text_method("{0}.startswith(({1},))", 1, 4, BOOLEAN, counted=False),
    "endsWith": _text_method("{0}.endswith(({1},))", 1, 4, BOOLEAN, counted=False),
    "indexOf": _text_method("{0}.find({1})", 1, 1, INTEGER, counted=True),
    "split": _text_method("{0}.split({1})", 0, 1, LIST, counted=True),
    "format": _format_method,
    "join": _join,
    "replace": _replace,
    "matches": _matches,
    "substring": _substring,
}
