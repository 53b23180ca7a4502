"""Commands on the catalog: packages and categories."""
