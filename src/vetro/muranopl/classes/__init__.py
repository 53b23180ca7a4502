"""Phase 4: classes as they are known: packages, ancestors, members, and the Python classes of their
objects.

`types` links declarations into `MuranoType`s and decides which of several definitions a name means,
`reconciling` merges parents of several versions, `lock_policy` says which lock a method
takes. `objects` defines instances, `native` turns Python classes into classes of programs,
`builtin` holds the classes that the language itself needs. The runtime has the compiler generate
the code of a class on demand.
"""
