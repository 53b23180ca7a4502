"""Tables and times for people."""

from __future__ import annotations

import io
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from vetro.cli.terminal.output import emit_rows
from vetro.cli.terminal.tables import widths
from vetro.cli.terminal.times import clock, moment, span, spoken, took

ID = "0123456789abcdef0123456789abcdef"
COLUMNS = [("ID", "id"), ("UUID", "uuid"), ("NAME", "name"), ("CREATED", "created"), ("URL", "url")]
ROW = {
    "id": ID,
    "uuid": "12345678-1234-1234-1234-123456789abc",
    "name": "a name of several words that may be folded",
    "created": "2026-11-22T16:21:47",
    "url": "http://10.0.0.1:8080/a/path",
}


class Terminal(io.StringIO):
    """A standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [1, 20, 40, 80, 120, 200, 400])
@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_ids_are_whole_at_every_width(
    monkeypatch: pytest.MonkeyPatch, width: int, term: str
) -> None:
    """Whatever the terminal: ids, addresses and the words of names stand in one piece."""
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", term)
    emit_rows([ROW, {**ROW, "name": "日本語の名前"}], COLUMNS)
    text = out.getvalue()
    for word in (ROW["id"], ROW["uuid"], ROW["url"], *ROW["name"].split(), "日本語の名前"):
        assert word in text
    assert text.count(ID) == 2
    if width >= 200 and term == "xterm":  # the width of a dumb one is not known
        assert len(text.splitlines()) == 3


def test_a_pipe_gets_a_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    """However long: what reads it takes lines apart."""
    long = "word " * 200
    emit_rows([{**ROW, "name": long + "\nsecond line"}, ROW], COLUMNS)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.startswith("ID ")
    assert " ".join(long.split()) in first
    assert ROW["name"] in second
    assert second.endswith(ROW["url"])


@pytest.mark.parametrize("room", range(1, 120, 7))
def test_the_widest_column_gives_way_first(room: int) -> None:
    """Down to its longest word, and no further than the room asks for."""
    cells = [["one two three four five", "x"], ["abc def", "y"], [ID]]
    found = widths(cells, room)
    assert all(a >= b for a, b in zip(found, [5, 3, 32], strict=True))
    assert sum(found) + 4 <= max(room, 5 + 3 + 32 + 4)
    if room >= 23 + 7 + 32 + 4:
        assert found == [23, 7, 32]


@pytest.mark.parametrize(
    ("text", "zone", "said"),
    [
        ("2026-11-22T16:21:47", "UTC0", "2026-11-22 16:21:47 UTC (3 min ago)"),
        ("2026-11-22T16:21:47Z", "UTC-1", "2026-11-22 17:21:47 +01:00 (3 min ago)"),
        ("2026-11-22T16:21:47.123456Z", "UTC0", "2026-11-22 16:21:47 UTC (3 min ago)"),
        ("2026-11-22T11:21:47-05:00", "UTC+5", "2026-11-22 11:21:47 -05:00 (3 min ago)"),
        ("2026-11-22T16:30:00", "UTC0", "2026-11-22 16:30:00 UTC (in 5 min)"),
    ],
)
def test_times_have_zone_and_age(
    monkeypatch: pytest.MonkeyPatch, text: str, zone: str, said: str
) -> None:
    """In the zone of the machine; those of the catalog's API are UTC."""
    import time

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        when = moment(text)
        assert when is not None
        assert spoken(when, datetime(2026, 11, 22, 16, 24, 50, tzinfo=UTC)) == said
        assert clock(text) == f"{said[11:19]} {said[20:].partition(' (')[0]}"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "value", ["2026-11-22", "web", "", None, 5, "2026-99-22T16:21:47", "x 2026-11-22T16:21:47"]
)
def test_what_is_no_time_stays(value: Any) -> None:
    """Dates alone, names, numbers."""
    assert moment(value) is None


def test_spans_are_short() -> None:
    """In the largest unit of which there are two."""
    spans = {0.4: "0 s", 119: "119 s", 120: "2 min", 7199: "119 min", 7200: "2 h", 172800: "2 days"}
    assert {seconds: span(seconds) for seconds in spans} == spans
    assert took("2026-11-22T16:00:00", "2026-11-22T16:00:07") == "7 s"
    begun = (datetime.now(UTC) - timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M:%S")
    assert took(begun, None) == "3 h so far"
    assert took(None, None) == ""


def test_every_time_in_a_table_is_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever its column is called."""
    emit_rows([{"x": "2020-01-01T00:00:00Z", "y": "2020-01-01T00:00:00"}], [("A", "x"), ("B", "y")])
    line = capsys.readouterr().out.splitlines()[1]
    assert len(re.findall(r"\d\d:\d\d:\d\d (UTC|[+-]\d\d:\d\d) \(\d+ days ago\)", line)) == 2
