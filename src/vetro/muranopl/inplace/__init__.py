"""Phase 6: values that programs see as immutable are changed in place where no program can notice.

Assignments make new values of old ones: `$t.a.b: 1`, `$l: $l.append($x)`. Where the variable or
property is the only reader of the old value, this package changes it instead, so that filling a map or
a list of n entries takes time linear in n. `assigning` writes into containers, `growing` keeps values
under construction, `properties` does the same for properties with contracts. That a value has one
reader is concluded from Python's reference counts (`references`), and from nothing else; when this
package is imported, `self_test` checks the conclusion on values that have a second reader, and where
it is wrong the counts are switched off: every value is copied then (docs/decisions/0190).
"""

from .references import ALONE
from .self_test import changed_values

if changed_values():
    ALONE.switch_off()
