"""Operations on stacks: what changes, in which order, under which hold.

An `operation` compares the wanted template with the stored resources (`changes`), and makes, changes
and removes them in parallel as far as dependencies allow. `hold` lets one process work on a stack at
a time, and its progress survives the process. `planning` predicts an operation without doing it.
`attached_volumes` gives the placement of servers the hosts of their volumes.
"""
