"""Phase 8: what compiled code calls while a program runs.

`run` is one session's state and `budgets` its bounds; `inline_caches` finds members of values whose
class is known only at run time, `extensions` their extension methods; `control_flow` serves loops
and `Parallel`; `functions`, `engine_functions` and `reflection` are the language's own functions,
`legacy_run` what those of formats 1.0 and 1.1 get as their run; `system` holds its native classes,
`nativecalls` calls Python code. `throwing`, `caught` and `traces` handle exceptions and stack traces;
`metadata` reads `Meta`; `destruction` finds and destroys unreachable objects.
"""
