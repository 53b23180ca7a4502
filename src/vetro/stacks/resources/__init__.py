"""Resource types of the native back end (core-library.md §9), registered by name.

`base` says what a type is: a schema of properties, and functions that make, change and remove one
resource and read its attributes; each may be called again after a crash. The other modules are the
types, by subject; `registry` finds them by the names of Heat and of CloudFormation.
"""

from vetro.stacks.resources.registry import TYPES, resource_type
