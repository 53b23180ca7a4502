"""Phase 2: parse texts to declarations and statements, each with its place. Nothing is looked up
outside the file.

`sources` (origins of packages), `manifest` and `versions` find the text; `yamltree` parses it to
nodes within limits, `expressions` parses YAQL; `class_reader` makes `declarations` of classes and
members from the nodes, `statements` and `targets` parse method bodies and the left sides of
assignments, `names` resolves namespaces. `blocks` analyses code without running it.
`documents` and `text_package` are interfaces for editors, tests and notebooks.
"""
