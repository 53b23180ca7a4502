"""Phase 3: deterministic concurrency. Knows nothing of classes; it runs Python functions.

`greenthreads` decides which thread runs next, `external` holds the awaitables that threads wait for,
`scheduler` drives both for a host, `locks` gives methods mutual exclusion, `effects` is the only
interface through which a run observes anything that is not its input.
"""
