"""Templates: parsing, parameters, functions, evaluation, dependencies. Nothing here has effects.

`spelling` distinguishes HOT from CloudFormation, `versions` what a version of HOT has. `templates` parses a
text to typed definitions and reports all that can be known without a cloud; `parameters` checks the
given values. `nesting` and `balancers` write groups, nested templates and load balancers out, so
that later phases see one flat template. `functions` and `later_functions` evaluate intrinsic
functions, `evaluation` whole values against existing resources, and `dependencies` orders them.
"""
