"""Phase 7: object models: from JSON to objects and back.

`loading` makes objects of a model in one transaction, `initialising` gives properties their values,
`serializing` writes objects as a model, `edits` finds what a user changed since the last
deployment, `templates` checks models that stay models, `attributes` keeps values beside the
properties.
"""
