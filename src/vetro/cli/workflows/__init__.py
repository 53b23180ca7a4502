"""Commands for authors of XML workflows: cases, tests and explanations, without any service."""
