"""Phase 1: the basis of all other phases. Knows nothing of classes, threads or programs' text.

`containers` holds the values of programs (frozen lists, maps, sets) and converts them to and from
plain Python data; `errors` has all exceptions of the language; `limits` bounds the resources of a
run; `records` makes cheap classes for the compiler; `collector_pause` disables Python's cycle
collector while code is compiled.
"""
