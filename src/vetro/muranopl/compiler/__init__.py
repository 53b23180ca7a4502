"""Phase 9: classes to Python code.

`classcode` compiles one class, `assembly` makes its Python class, `classscope` is the generated module,
whose functions Python's compiler gets when they are called. `methodcode` writes statements,
`functionwriter` and `expressions` their expressions, `structures` lists and maps. `passes` analyses a
method before it is written. `codecache` keeps the result on disk. `schema` writes contracts as JSON
schemas.
"""
