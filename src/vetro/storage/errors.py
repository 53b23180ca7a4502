"""What storage raises.

::

    StorageError
    ├── DatabaseTooNew     the database was written by a newer version
    ├── MigrationError     the database is in a state that no migration starts from
    └── LeaseLost          a newer claim exists, or the work was completed
"""


class StorageError(Exception):
    """Something is wrong with the database or with what was asked of it."""


class DatabaseTooNew(StorageError):
    """The database holds migrations that this version does not know."""

    def __init__(self, room: str, revision: str) -> None:
        super().__init__(
            f"the database was written by a newer version: revision {revision} of {room} is unknown"
            " here; start the version that wrote it, or restore a backup made before the upgrade"
        )
        self.room = room
        self.revision = revision


class MigrationError(StorageError):
    """A migration could not run; the message names room and revision."""


class LeaseLost(StorageError):
    """The lease is not ours any more: it expired and was claimed again, or the work is done."""

    def __init__(self, queue: str, key: str, fence: int) -> None:
        super().__init__(f"lease {fence} on {key!r} of queue {queue!r} is lost")
        self.queue = queue
        self.key = key
        self.fence = fence
