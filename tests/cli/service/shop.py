"""A running service with the command against it, and the package that the tests deploy."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from vetro.cli import cli

MANIFEST = """
Format: '1.4'
Type: Application
FullName: test.Shop
Version: VERSION
Name: Shop
Description: A shop
Author: ann
Tags: [trade]
Classes:
  test.Shop: Shop.yaml
  test.Prices: Shop.yaml
UI: ui.yaml
"""
CLASSES = """
Namespaces: {=: test, std: io.murano}
Name: Shop
Extends: std:Application
Properties:
  name: {Contract: $.string().notNull()}
  port: {Contract: $.int().notNull().check($ > 0)}
  url: {Contract: $.string(), Usage: Out}
Methods:
  deploy:
    Body:
      - $this.find(std:Environment).reporter.report($this, opening)
      - $.url: format('http://shop:{0}', $.port)
  sell:
    Scope: Public
    Arguments:
      - what: {Contract: $.string().notNull()}
    Body:
      - Return: format('sold {0} on {1}', $what, $.port)
  .destroy:
    Body:
      - If: $.port = 6666
        Then:
          Throw: Jammed
          Message: the door is jammed
  close:
    Scope: Public
    Body:
      - Throw: Shut
        Message: we are shut
---
Name: Prices
Methods:
  of:
    Usage: Static
    Scope: Public
    Arguments:
      - what: {Contract: $.string().notNull()}
    Body:
      - Return: [$what, 5]
"""
FORM = """
Version: 2.4
Application:
  ?: {type: test.Shop}
  name: name()
  port: $.shop.port
Forms:
  - shop:
      fields:
        - {name: port, type: integer, label: Port, initial: 80, minValue: 1}
"""


@dataclass
class Service:
    """A running ``vetro up``, and the command against it."""

    directory: Path
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list[str])
    environ: dict[str, str] = field(default_factory=dict[str, str])

    def run(self, *arguments: object, **options: Any) -> tuple[int, str]:
        """Exit code and everything printed."""
        result = CliRunner().invoke(cli, [str(one) for one in arguments], **options)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.output

    def ok(self, *arguments: object) -> str:
        """The output of a command that works."""
        code, text = self.run(*arguments)
        assert code == 0, f"{arguments}: {text}\n{''.join(self.lines)}"
        return text

    def json(self, *arguments: object) -> Any:
        """The JSON document of a command that works."""
        return json.loads(self.ok(*arguments, "--json"))

    def refused(self, *arguments: object, code: int = 1) -> str:
        """The one line of a command that fails, and its hint."""
        found, text = self.run(*arguments)
        lines = text.splitlines()
        assert found == code, f"{arguments}: {text}"
        assert lines[0].startswith("Error: "), text
        assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("Hint: ")), text
        return text
