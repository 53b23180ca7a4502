"""Commands on the metadata repository: definitions of v0.3 services."""
