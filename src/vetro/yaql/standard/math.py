"""Numbers and booleans (yaql.md section 6)."""

from math import gcd, log2

from vetro.yaql import operators
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.registry import Registry
from vetro.yaql.signatures import Boolean, Integer, Number, Text
from vetro.yaql.values import Value, preview

registry = Registry()
_MAX_DIGITS = 400


@registry.function()
def abs_(op: Number) -> int | float:
    return abs(op)


@registry.function_legacy_both("int")
def int_(value: Number | Text | Boolean | None) -> int:
    try:
        return 0 if value is None else int(value)
    except (ValueError, OverflowError) as error:
        raise type(error)(f"{preview(value)} is not an integer") from error


@registry.function_legacy_both("float")
def float_(value: Number | Text | Boolean | None) -> float:
    try:
        return 0.0 if value is None else float(value)
    except (ValueError, OverflowError) as error:
        raise type(error)(f"{preview(value)} is not a number") from error


@registry.function("random")
def random(rt: Evaluation) -> float:
    return rt.random().random()


@registry.function("random")
def random_between(rt: Evaluation, from_: Integer, to_: Integer) -> int:
    if from_ > to_:
        raise ValueError(f"random: there is no number from {from_} to {to_}")
    return rt.random().randint(from_, to_)


@registry.function()
def bitwise_and(left: Integer, right: Integer) -> int:
    return left & right


@registry.function()
def bitwise_or(left: Integer, right: Integer) -> int:
    return left | right


@registry.function()
def bitwise_xor(left: Integer, right: Integer) -> int:
    return left ^ right


@registry.function()
def bitwise_not(arg: Integer) -> int:
    return ~arg


@registry.function()
def shift_bits_left(rt: Evaluation, value: Integer, bits_number: Integer) -> int:
    rt.check_bits(value.bit_length() + max(bits_number, 0))
    return value << _places(bits_number)


@registry.function()
def shift_bits_right(value: Integer, bits_number: Integer) -> int:
    return value >> _places(bits_number)


def _places(bits_number: int) -> int:
    if bits_number < 0:
        raise ValueError(f"the number of bits to shift by must be 0 or more, not {bits_number}")
    return bits_number


@registry.function("max")
def max_(rt: Evaluation, a: object, b: object) -> Value:
    return b if operators.greater(rt, b, a) else a


@registry.function("min")
def min_(rt: Evaluation, a: object, b: object) -> Value:
    return a if operators.greater(rt, b, a) else b


@registry.function("pow")
def pow_(rt: Evaluation, a: Number, b: Number, c: Integer | None = None) -> Value:
    if c is not None:
        if not isinstance(a, int) or not isinstance(b, int):
            raise TypeError("pow(a, b, c) takes integers")
        if c == 0 or (b < 0 and gcd(a, c) != 1):
            raise ValueError(f"pow: {a} has no power {b} modulo {c}")
        return pow(a, b, c)
    if isinstance(a, int) and isinstance(b, int) and b > 0 and abs(a) > 1:
        exponent = min(b, 1 << 64)
        rt.check_bits(int(log2(abs(a)) * exponent) + 1)
    if a == 0 and b < 0:
        raise ZeroDivisionError(f"pow: 0 has no power {b}")
    if a < 0 and isinstance(b, float) and not b.is_integer():
        raise ValueError(f"pow: {a} has no power {b}")
    try:
        return a**b
    except OverflowError as error:
        raise OverflowError(
            f"pow: {preview(a)} to the power of {preview(b)} is too large"
        ) from error


@registry.function()
def sign(num: Number) -> int:
    return 1 if num > 0 else -1 if num < 0 else 0


@registry.function("round")
def round_(number: Number, ndigits: Integer = 0) -> int | float:
    if not -_MAX_DIGITS <= ndigits <= _MAX_DIGITS:
        raise ValueError(f"round to between -{_MAX_DIGITS} and {_MAX_DIGITS} digits")
    return round(number, ndigits)


@registry.function()
def is_integer(value: object) -> bool:
    return type(value) is int


@registry.function()
def is_number(value: object) -> bool:
    return type(value) is int or type(value) is float


@registry.function_legacy_both("bool")
def to_boolean(value: object) -> bool:
    return bool(value)


@registry.function()
def is_boolean(value: Value) -> bool:
    return type(value) is bool
