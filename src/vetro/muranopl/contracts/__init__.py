"""Phase 5: contracts of properties, arguments and results.

`plan` compiles a written contract to a `tree` of its operations; `chains` are contracts of one
value (`$.int().notNull()`); `arguments` handles arguments that do not pass their contract.
Every contract can transform a value and write the Python condition under which it needs no
transformation.
"""
