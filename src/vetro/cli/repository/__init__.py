"""Commands on the metadata repository: definitions of v0.3 services (docs/v03.md).

`repository` is the command group, `services` edits the manifests that make services of definitions,
and `trees` packs directories of definitions as archives and back.
"""
