"""Phase 3: deterministic concurrency. Knows nothing of classes; it runs Python functions.

`greenthreads` decides which thread runs next, `scheduler` lets a host run them and lets them wait
for external events, `locks` gives methods mutual exclusion, `effects` is the only interface through
which a run observes anything that is not its input.
"""
