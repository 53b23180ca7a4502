"""Commands for authors of XML workflows, without any service.

`definitions` reads the folders of a metadata repository from disk; `group` tests definitions on
recorded answers and explains what they would do; `case` runs one task, JSON in and JSON out.
"""
