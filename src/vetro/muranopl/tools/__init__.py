"""Phase 11: tools over the language, loaded when they are first used.

`checking` and `namecheck` find all errors in a package, `describing` describes the interface of a
class, `testing` runs test classes with fixtures and mocks, `coverage` records which lines ran.
"""
