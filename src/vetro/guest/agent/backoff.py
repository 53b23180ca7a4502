"""How long to wait before a failed request is repeated."""


class Backoff:
    """How long to wait after failures of the transport.

    A guest boots faster than its network settles, so the first failures are retried within
    fractions of a second; after that the pause is 5 s, growing by 1.2 to 60 s, as guest-agent.md §2
    says.
    """

    _QUICK = (0.1, 0.2, 0.4, 0.8, 1.6)

    def __init__(self) -> None:
        self._failures = 0
        self._delay = 5.0

    def reset(self) -> None:
        """Start again with the shortest pause after a successful poll."""
        self._failures = 0
        self._delay = 5.0

    def next(self) -> float:
        """Seconds to wait after one more failure."""
        self._failures += 1
        if self._failures <= len(self._QUICK):
            return self._QUICK[self._failures - 1]
        delay = self._delay
        self._delay = min(60.0, delay * 1.2)
        return delay
