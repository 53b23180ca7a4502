"""Phase 8: what compiled code calls while a program runs.

`run` is one session's state and `budgets` its bounds; `inline_caches` finds members of values whose
class is known only at run time, `control_flow` serves loops and
`Parallel`, `functions` and `reflection` are the language's own functions, `system` its native
classes, `nativecalls` calls Python code. `throwing`, `caught` and `traces` handle exceptions and
stack traces; `metadata` reads `Meta`; `destruction`, `ordering` and `liveness` find and destroy
unreachable objects.
"""
