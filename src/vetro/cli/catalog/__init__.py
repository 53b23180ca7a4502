"""Commands on the catalog: packages, bundles and categories.

`package`, `bundle` and `category` are the commands. A package comes from a directory, a file or a
`repository`; `gathering` finds all that it requires, `importing` and `uploading` bring it to the
service, `saving` to a directory. `package_lookup` finds packages by the names people use, and
`package_contents` and `forms` show what one offers.
"""
