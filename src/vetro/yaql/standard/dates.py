"""Dates and times (yaql.md section 6). A datetime always has an offset; without one it is UTC."""

import datetime
import re
import time

from vetro.yaql.evaluation import Evaluation
from vetro.yaql.registry import Registry
from vetro.yaql.signatures import Integer, Moment, Number, Text, Timespan
from vetro.yaql.values import Value

registry = Registry()
_NO_OFFSET = datetime.timedelta()
_MAX_FORMAT = 1000


def _zone(offset: datetime.timedelta) -> datetime.timezone:
    return datetime.UTC if not offset else datetime.timezone(offset)


@registry.function("datetime")
def datetime_of(
    year: Integer,
    month: Integer,
    day: Integer,
    hour: Integer = 0,
    minute: Integer = 0,
    second: Integer = 0,
    microsecond: Integer = 0,
    offset: Timespan = _NO_OFFSET,
) -> datetime.datetime:
    return datetime.datetime(
        year, month, day, hour, minute, second, microsecond, tzinfo=_zone(offset)
    )


@registry.function("datetime")
def datetime_of_timestamp(timestamp: Number, offset: Timespan = _NO_OFFSET) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(timestamp, tz=_zone(offset))


@registry.function("datetime")
def datetime_of_text(string: Text, format_: Text | None = None) -> datetime.datetime:
    if format_ is not None:
        if len(format_) > _MAX_FORMAT:
            raise ValueError(f"a format has at most {_MAX_FORMAT} characters")
        try:
            parsed = datetime.datetime.strptime(string, format_)
        except (re.error, IndexError, KeyError):
            raise ValueError(f"{format_!r} is not a date format") from None
    else:
        parsed = _parsed(string)
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=datetime.UTC)


def _parsed(text: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text[:200])
    except (ValueError, TypeError, IndexError):
        raise ValueError(
            f"Unknown string format: {text[:100]}; write it as 2020-01-31T12:00:00Z or give a format"
        ) from None


@registry.function()
def timespan(
    days: Integer = 0,
    hours: Integer = 0,
    minutes: Integer = 0,
    seconds: Integer = 0,
    milliseconds: Integer = 0,
    microseconds: Integer = 0,
) -> datetime.timedelta:
    return datetime.timedelta(
        days=days,
        hours=hours,
        minutes=minutes,
        seconds=seconds,
        milliseconds=milliseconds,
        microseconds=microseconds,
    )


@registry.function()
def now(rt: Evaluation, offset: Timespan = _NO_OFFSET) -> datetime.datetime:
    return rt.now().astimezone(_zone(offset))


@registry.function()
def localtz() -> datetime.timedelta:
    return datetime.timedelta(
        seconds=-(time.altzone if time.localtime().tm_isdst else time.timezone)
    )


@registry.function()
def utctz() -> datetime.timedelta:
    return _NO_OFFSET


@registry.function()
def is_datetime(value: Value) -> bool:
    return isinstance(value, datetime.datetime)


@registry.function()
def is_timespan(value: Value) -> bool:
    return isinstance(value, datetime.timedelta)


@registry.method("replace")
def replace(
    dt: Moment,
    year: Integer | None = None,
    month: Integer | None = None,
    day: Integer | None = None,
    hour: Integer | None = None,
    minute: Integer | None = None,
    second: Integer | None = None,
    microsecond: Integer | None = None,
    offset: Timespan | None = None,
) -> datetime.datetime:
    return dt.replace(
        dt.year if year is None else year,
        dt.month if month is None else month,
        dt.day if day is None else day,
        dt.hour if hour is None else hour,
        dt.minute if minute is None else minute,
        dt.second if second is None else second,
        dt.microsecond if microsecond is None else microsecond,
        tzinfo=dt.tzinfo if offset is None else _zone(offset),
    )


@registry.method("format")
def format_(rt: Evaluation, dt: Moment, format: Text) -> str:  # noqa: A002 - the published name
    if len(format) > _MAX_FORMAT:
        raise ValueError(f"a format has at most {_MAX_FORMAT} characters")
    return dt.strftime(format)


def _offset(dt: datetime.datetime) -> datetime.timedelta:
    return dt.utcoffset() or _NO_OFFSET


@registry.function("#property#date")
def date(dt: Moment) -> datetime.datetime:
    return datetime.datetime(dt.year, dt.month, dt.day, tzinfo=dt.tzinfo or datetime.UTC)


@registry.function("#property#time")
def time_(dt: Moment) -> datetime.timedelta:
    return datetime.timedelta(
        hours=dt.hour, minutes=dt.minute, seconds=dt.second, microseconds=dt.microsecond
    )


@registry.function("#property#weekday")
def weekday(dt: Moment) -> int:
    return dt.weekday()


@registry.function("#property#offset")
def offset(dt: Moment) -> datetime.timedelta:
    return _offset(dt)


@registry.function("#property#timestamp")
def timestamp(dt: Moment) -> float:
    return (dt if dt.tzinfo is not None else dt.replace(tzinfo=datetime.UTC)).timestamp()


@registry.function("#property#utc")
def utc(dt: Moment) -> datetime.datetime:
    return (dt - _offset(dt)).replace(tzinfo=datetime.UTC)


@registry.function("#property#year")
def year(dt: Moment) -> int:
    return dt.year


@registry.function("#property#month")
def month(dt: Moment) -> int:
    return dt.month


@registry.function("#property#day")
def day(dt: Moment) -> int:
    return dt.day


@registry.function("#property#hour")
def hour(dt: Moment) -> int:
    return dt.hour


@registry.function("#property#minute")
def minute(dt: Moment) -> int:
    return dt.minute


@registry.function("#property#second")
def second(dt: Moment) -> int:
    return dt.second


@registry.function("#property#microsecond")
def microsecond(dt: Moment) -> int:
    return dt.microsecond


@registry.function("#property#days")
def days(ts: Timespan) -> float:
    return ts / datetime.timedelta(days=1)


@registry.function("#property#hours")
def hours(ts: Timespan) -> float:
    return ts / datetime.timedelta(hours=1)


@registry.function("#property#minutes")
def minutes(ts: Timespan) -> float:
    return ts / datetime.timedelta(minutes=1)


@registry.function("#property#seconds")
def seconds(ts: Timespan) -> float:
    return ts.total_seconds()


@registry.function("#property#milliseconds")
def milliseconds(ts: Timespan) -> float:
    return ts / datetime.timedelta(milliseconds=1)


@registry.function("#property#microseconds")
def microseconds(ts: Timespan) -> float:
    return ts / datetime.timedelta(microseconds=1)
