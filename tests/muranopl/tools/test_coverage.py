"""Which lines of MuranoPL code test classes reach."""

from vetro.muranopl.tools.coverage import LineCoverage


def test_coverage_counts_the_statements_that_ran(passed):
    """Lines of statements, how often each ran, and which never did."""
    code = """Namespaces: {=: t}
Name: Shop
Methods:
  run:
    Arguments: [{n: {Contract: $.int()}}]
    Body:
      - For: i
        In: range($n)
        Do:
          - $x: $i
      - If: $n > 5
        Then:
          - Return: big
          - Return: never
        Else:
          - Return: small
  unused:
    Body:
      - Return: 1
---
Name: Boutique
---
Name: Kiosk
"""
    coverage = LineCoverage()
    passed("- $.assertEqual(small, new(Shop).run(3))", code=code, coverage=coverage)
    (file,) = [item for item in coverage.files() if item.file == "t/Classes/code.yaml"]
    assert file.statements == (7, 10, 11, 13, 14, 16, 19)
    assert dict(file.hits) == {7: 1, 10: 3, 11: 1, 16: 1}
    assert file.missing == (13, 14, 19)
    assert file.missing_ranges() == "13-14, 19"
    assert round(file.percent, 1) == 57.1
    again = LineCoverage()
    again.merge(coverage.counts())
    again.merge(coverage.counts())
    (merged,) = [item for item in again.files() if item.file == "t/Classes/code.yaml"]
    assert merged.hits[10] == 6


def test_coverage_of_named_packages_leaves_the_others_alone(passed):
    """Only the packages asked for are counted."""
    coverage = LineCoverage(["other"])
    passed("- $.assertTrue(true)", coverage=coverage)
    assert coverage.files() == []
