"""What is said of what would be lost, question after question."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from vetro.cli.client.deployment_progress import Ended
from vetro.cli.environments.losing import unless_lost


def test_who_says_no_to_a_second_question_is_not_told_that_nothing_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the first answer let go may be lost by then; each request names all that was let go."""
    sent: list[list[str]] = []
    lost: Any = [
        [{"key": "machine a", "text": "removes machine a"}],
        [{"key": "machine b", "text": "removes machine b"}],
    ]
    environment: Any = {"id": "1", "name": "main"}

    def send(may_lose: list[str]) -> str:
        sent.append([*may_lose])
        return "task"

    @click.command()
    def run() -> None:
        unless_lost(environment, send, lambda _task: Ended("failed", "failed", lost.pop(0)))

    monkeypatch.setattr("vetro.cli.environments.losing.is_watched", lambda: True)
    ended = CliRunner().invoke(run, input="y\nn\n")
    assert ended.exit_code == 1
    assert sent == [[], ["machine a"]]
    assert "It would lose as well:\n  removes machine b" in ended.output
    assert "Nothing more was lost than you agreed to" in ended.output
    assert "A deployment after --discard takes back what was made" in ended.output
    lost = [[{"key": "machine a", "text": "removes machine a"}]]
    assert "Nothing was lost" in CliRunner().invoke(run, input="n\n").output
