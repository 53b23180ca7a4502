"""What a failed operation on a stack has not made."""

from datetime import UTC, datetime

from vetro.stacks import StackStatus
from vetro.stacks.state.records import ResourceRow, StackRow


def test_what_was_begun_or_replaces_something_was_made() -> None:
    """Of a group some members are enough; of a replacement that failed there is what it replaces."""

    def row(name: str, status: StackStatus, *, current: bool = True) -> ResourceRow:
        return ResourceRow(name=name, type="T", physical_id="p", status=status, current=current)

    done, failed = StackStatus.CREATE_COMPLETE, StackStatus.CREATE_FAILED
    stack = StackRow(
        id="i", project_id="p", name="s", status=StackStatus.UPDATE_FAILED,
        created=datetime.now(UTC),
        template={"resources": {name: {} for name in ["done", "failed", "web", "old", "begun", "never"]}},
        resources=[
            row("done", done),
            row("failed", failed),
            row("web.0.a", done),
            row("web.1.a", failed),
            row("old", done, current=False),
            row("old", failed),
            row("begun", StackStatus.CREATE_IN_PROGRESS),
        ],
    )  # fmt: skip
    assert stack.snapshot().unmade == ["failed", "never"]
    stack.status = StackStatus.UPDATE_COMPLETE
    assert stack.snapshot().unmade == []
