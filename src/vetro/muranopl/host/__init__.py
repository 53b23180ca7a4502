"""Phase 10: the interface of an embedding program: the `Runtime` with its packages, and `Session`s.

`shelf` holds packages and their versions, `catalogue` the classes in them; `worlds` decides which
sessions share compiled classes; `runtime` combines these and calls the compiler.
`session` is one run over one object model, made of `calls` (the host's way into green threads) and
`models` (load and save); `requests` is what a session is started with and what a task
answers. `tasks` (a deployment from load to save), `evaluating` (text given at run time), `replay`
and `stepping` work on sessions.
"""
