"""What services write to their logs."""

import asyncio
import io
import json
import re
import subprocess
import sys
import time

import pytest
import structlog
from structlog.testing import capture_logs

from vetro.http.logs import LogStream, as_line, configure_logging, utc_text

PROGRAM = """
import structlog
from vetro.http import configure_logging
configure_logging("info", {style!r})
def fails(password):
    raise ValueError("it broke")
try:
    fails("se" + "cret")
except ValueError as error:
    structlog.get_logger().error("request failed", exc_info=error)
"""


@pytest.mark.parametrize("style", ["console", "json", "logfmt"])
def test_an_exception_is_logged_without_the_values_of_variables(style: str) -> None:
    """The log has the place and the message, but no values such as passwords."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(style=style)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "ValueError: it broke" in done.stderr
    assert "in fails" in done.stderr
    assert "secret" not in done.stderr


UNREAD = """
import os, sys
ours, theirs = os.pipe()
os.dup2(theirs, 2)
os.close(theirs)
os.close(ours)
import structlog
from vetro.http import configure_logging
configure_logging("info", "json")
for number in range(3):
    structlog.get_logger().info("told", number=number)
print("went on", flush=True)
"""


def test_a_service_goes_on_when_nobody_reads_its_log() -> None:
    """A log line for a pipe without a reader is dropped, without an error for the caller."""
    done = subprocess.run(
        [sys.executable, "-c", UNREAD], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "went on\n"


EVERYBODY = """
import logging
import structlog
from vetro.http import configure_logging
configure_logging("info", {style!r})
structlog.get_logger().info(
    "service_started", port=8082, ready=True, reason=None, path="/a/b", said='say "x = 1"\\nand go',
    password="hunter2", limits={{"cores": 4}}, **{{"odd key": 1}},
)
try:
    raise ValueError("two\\nlines")
except ValueError:
    logging.getLogger("some.library").exception("it said %s", "why")
"""
_PAIR = re.compile(r'([^\s"=]+)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?: |$)')


def lines_of(style: str) -> list[str]:
    """What a program with that format writes, line by line."""
    done = subprocess.run(
        [sys.executable, "-c", EVERYBODY.format(style=style)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stderr.splitlines()


def test_logfmt_has_one_line_of_pairs_for_each_event() -> None:
    """Every line is read back into the values that were logged, whatever is in them."""
    ours, theirs = lines_of("logfmt")
    assert ours.startswith("timestamp=")
    read = {name: json.loads(v) if v[:1] == '"' else v for name, v in _PAIR.findall(ours)}
    assert "".join(f"{name}={value} " for name, value in _PAIR.findall(ours)).rstrip() == ours
    del read["timestamp"]
    assert read == {
        "level": "info", "event": "service_started", "port": "8082", "ready": "true", "reason": "",
        "path": "/a/b", "said": 'say "x = 1"\nand go', "password": "***", "limits": '{"cores": 4}',
        "odd_key": "1",
    }  # fmt: skip
    assert 'event="it said why"' in theirs
    assert "logger=some.library" in theirs


def test_what_libraries_log_is_json_as_well() -> None:
    """Also a traceback is within the line of its event, so that a program can read line by line."""
    ours, theirs = map(json.loads, lines_of("json"))
    assert (ours["event"], ours["limits"]) == ("service_started", {"cores": 4})
    assert (theirs["event"], theirs["level"]) == ("it said why", "error")
    assert theirs["logger"] == "some.library"
    assert "ValueError: two\nlines" in theirs["exception"]


@pytest.mark.parametrize(
    "said",
    [
        {"event": "started"},
        {"event": "started", "port": 8082, "ready": True, "reason": None, "path": "/a/b"},
        {"event": "a longer event than its column is wide, by some words", "b": "x = 1", "a": ""},
        {
            "event": "quoted",
            "quote": "it's",
            "tab": "a\tb",
            "lines": "a\nb",
            "tuple": (1, "b"),
        },
        {"event": "", "level": "critical", "spaces": "a b ", "last": ""},
        {"event": "of a library", "logger": "some.library", "number": 1},
        {"event": "failed", "exception": "Traceback: it broke", "where": "here"},
    ],
)
def test_a_line_without_colours_is_the_one_that_structlog_writes(said: dict[str, object]) -> None:
    """The quick form of a line has the same characters."""
    event = {"timestamp": "2026-01-02T03:04:05.000006Z", "level": "info", **said}
    expected = structlog.dev.ConsoleRenderer(colors=False)(None, "info", dict(event))
    assert as_line(None, "info", dict(event)) == expected


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"b": [1, None, "ü 'x'"], "a": True}, '{"b":[1,null,"ü \'x\'"],"a":true}'),
        ([], "[]"),
        ({"agent": "a\x9b31m", "\x1b": "\n"}, r"{'agent': 'a\x9b31m', '\x1b': '\n'}"),
        ([object], "[<class 'object'>]"),
    ],
)
def test_lists_and_maps_are_json_in_a_line(value: object, shown: str) -> None:
    """Unless there is no JSON for them, or a terminal could obey a character of it."""
    event = {"timestamp": "t", "level": "info", "event": "e", "value": value}
    assert as_line(None, "info", event).endswith(f" value={shown}")


def test_times_are_those_of_the_clock_with_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is rounded up, so that no line seems to be of a time that is still to come."""
    for nanoseconds, text in (
        (1_000_000_000, "1970-01-01T00:00:01.000000"),
        (1_700_000_000_000_999_999, "2023-11-14T22:13:20.000999"),
        (1_700_000_000_999_999_999, "2023-11-14T22:13:20.999999"),
        (1_700_000_001_050_060_000, "2023-11-14T22:13:21.050060"),
    ):
        monkeypatch.setattr(time, "time_ns", lambda now=nanoseconds: now)
        assert utc_text() == text


class Noted(io.StringIO):
    """A stream that keeps what each write gave."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str, /) -> int:
        """Note the text."""
        self.writes.append(text)
        return len(text)


def say(stream: LogStream, *lines: str) -> None:
    """Write lines as loggers do."""
    for line in lines:
        stream.write(f"{line}\n")
        stream.flush()


async def test_lines_of_one_turn_of_the_loop_are_written_together() -> None:
    """Each write wakes whoever reads the log."""
    noted = Noted()
    stream = LogStream(noted)
    say(stream, "one", "two")
    assert noted.writes == []
    await asyncio.sleep(0)
    assert noted.writes == ["one\ntwo\n"]
    say(stream, "three")
    await asyncio.sleep(0)
    assert noted.writes == ["one\ntwo\n", "three\n"]


async def test_lines_of_threads_are_written_at_once_after_those_that_wait() -> None:
    """The order of lines is the order in which they were written."""
    noted = Noted()
    stream = LogStream(noted)
    say(stream, "one")
    await asyncio.to_thread(say, stream, "two")
    assert "".join(noted.writes) == "one\ntwo\n"


def test_a_loop_that_ended_early_keeps_no_lines_of_the_next() -> None:
    """What a loop did not write any more is written by the next, or at once without one."""
    noted = Noted()
    stream = LogStream(noted)
    loop = asyncio.new_event_loop()
    loop.call_soon(lambda: (loop.call_soon(say, stream, "one"), loop.stop()))
    loop.call_soon(say, stream, "zero")
    loop.run_forever()
    loop.close()

    async def later() -> None:
        say(stream, "two")
        await asyncio.sleep(0)

    asyncio.run(later())
    say(stream, "three")
    assert [line for line in "".join(noted.writes).splitlines() if line != "one"] == [
        *("zero", "two", "three")
    ]


ENDING = """
import asyncio, os, sys
import structlog
from vetro.http import configure_logging, write_out_logs
configure_logging("info", "logfmt")
log = structlog.get_logger()
async def main():
    log.info("before")
    child = os.fork()
    log.info("child" if child == 0 else "parent")
    if child == 0:
        write_out_logs()
        os._exit(0)
    os.waitpid(child, 0)
    {end}
asyncio.run(main())
"""


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "raise ValueError('an error')"])
def test_a_process_that_ends_writes_each_line_once(end: str) -> None:
    """Also one that is forked while lines wait, and one that ends by an error."""
    done = subprocess.run(
        [sys.executable, "-c", ENDING.format(end=end)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert re.findall(r"event=(\w+)", done.stderr) == ["before", "child", "parent"]


def test_a_log_that_a_test_configures_is_captured_by_later_ones() -> None:
    """A logger first used while a command of this process has configured the log is captured afterwards."""
    configure_logging("info", "json")
    log = structlog.get_logger("later")
    log.info("first_use")
    with capture_logs() as logs:
        log.info("second_use")
    assert [one["event"] for one in logs] == ["second_use"]
