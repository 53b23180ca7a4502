"""Templates: parsing, parameters, functions, evaluation, dependencies. Nothing here has effects."""
