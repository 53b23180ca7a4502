"""Errors that prevent a process from starting."""


class StartError(Exception):
    """The process cannot start; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
