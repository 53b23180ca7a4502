"""Commands that need no service: they open packages and run languages in this process.

`world` collects packages from directories and archives for all of them. `language` runs programs and
expressions, `repl` (with `prompt`) line by line, `testing` test classes; `checking` lists everything
that is wrong with a package, `doc` describes it, `package_creation` makes one.
"""
