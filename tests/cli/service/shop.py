"""The package that the tests deploy."""

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
