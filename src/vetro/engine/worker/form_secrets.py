"""``decryptData()`` of a task: secrets that forms have kept for its project (muranopl.md §20)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from vetro.environments import FormSecrets
from vetro.muranopl import MuranoError, wait
from vetro.secrecy import SHORTEST, Cover, hide_in_logs


class KnownSecrets:
    """The secrets of a run: ``cover`` takes them out of messages."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = set(secrets)
        self.cover = Cover(self._secrets)

    def learn(self, secret: str) -> None:
        """Mask a secret that the program has read, from now on; the log does so too."""
        if len(secret) >= SHORTEST:
            self._secrets.add(secret)
            self.cover = Cover(self._secrets)
            hide_in_logs(self.cover)


def reading(
    secrets: FormSecrets, project_id: str, learn: Callable[[str], None]
) -> Callable[[object], str]:
    """The function for ``Runtime.session(secrets=…)``; ``learn`` is called with each secret that is read.

    A read is not recorded as an effect: the journal would keep the secret, and a replay can read it again.
    """

    def decrypt(reference: object) -> str:
        found = None
        if isinstance(reference, str):
            found = wait(secrets.read(project_id, reference))
        if found is None:
            raise MuranoError(
                f"decryptData(): the project has no secret {reference!r:.60}",
                hint="its component was made in another project, or its environment was deleted:"
                " fill in its form again",
            )
        learn(found)
        return found

    return decrypt
