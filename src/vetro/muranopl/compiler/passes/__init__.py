"""Analysis of a method before its code is written. Each pass reads the parsed statements and tells
`methodcode` where it may write cheaper code of the same meaning.

`inference` finds the kinds that variables can have, so that operators on them need no dispatch.
`leaf_methods` finds methods that call nothing: they need no lock and no frame of their own in the
count of depth. `inplace_updates` finds assignments that enlarge the value of their target, which
become operations of `inplace`. A pass that is unsure says nothing: the general code is then written.
"""
