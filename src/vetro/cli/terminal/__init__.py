"""What every command shares of the terminal, so that all of them look and fail alike.

`output` prints tables for people and JSON for programs, and errors as one line with a hint;
`documents` reads JSON and YAML from arguments, files and standard input; `confirmation`
asks people, and refuses where nobody can be asked. `times` and `tables` format,
`streams` binds a node's stream to the terminal, `installation` finds this machine's settings.
"""
