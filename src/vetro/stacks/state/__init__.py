"""What is stored of stacks. After this part a stack outlives the process that works on it.

`records` are the stack and its resources as rows, and the protocol of their store; `store` keeps
them in the database, `memory` in dictionaries. `owner` names the process that works on a stack, so
that others on its machine notice its death at once and on other machines when its hold expires.
"""
