"""Importing packages and the images that they need (packages-and-forms.md A9, A10)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from vetro.cli.catalog.gathering import Gathering
from vetro.cli.catalog.repository import Repository
from vetro.cli.catalog.uploading import (
    find_same,
    read_archive,
    replace_package,
    signature_beside,
    upload_archive,
)
from vetro.cli.client.answers import PackageRow
from vetro.cli.client.connection import Connection, accepted
from vetro.cli.client.image_upload import upload_image
from vetro.cli.client.name_completion import CATEGORY
from vetro.cli.terminal import confirmation
from vetro.cli.terminal.output import CommandError, remark, say, wants_json
from vetro.compute.client import vm_calls
from vetro.compute.wire import FORM_TAG, Image, NewImage
from vetro.http import Fault
from vetro.http.client import TransportError

if TYPE_CHECKING:
    from vetro.packages import ImageEntry, Package

Command = TypeVar("Command", bound=Callable[..., object])
_IMAGE_TYPES = {
    **dict.fromkeys(("lxc-rootfs", "root-tar", "tar"), "lxc-rootfs"),
    **dict.fromkeys(("qcow2", "raw"), "vm"),
}


PUBLIC = click.option("--public", is_flag=True, help="Every project may use what is imported.")
CATEGORIES = click.option(
    "--category", "-c", multiple=True, type=CATEGORY, help="A category it stands in (repeatable)."
)


ACTIONS = ("abort", "skip", "update")


def exists_option(
    default: str | None,
    *,
    asks: bool = False,
    name: str = "--exists-action",
    what: str = "a package",
) -> Callable[[Command], Command]:
    """The option that says what is done with a package that the catalog has; its first letter will do.

    ``default``: ``None`` for what ``--exists-action`` says, and "skip" where that is not given either.

    ``asks``: who watches the command is asked when the option is not given. ``name`` and ``what``: of
    an option for some packages only.
    """

    def whole(context: click.Context, _parameter: click.Parameter, given: str | None) -> str:
        if given is None and default is None:
            source = context.get_parameter_source("exists_action")
            given = (
                context.params["exists_action"] if source == ParameterSource.COMMANDLINE else None
            )
            return given or "skip"
        if given is None:
            return ASK if asks and confirmation.is_watched() and not wants_json() else str(default)
        return next(action for action in ACTIONS if action.startswith(given))

    shown = f"{'asked on a terminal, else ' if asks else ''}{default or 'as --exists-action, else skip'}"
    return click.option(
        name,
        type=click.Choice([*ACTIONS, *(action[0] for action in ACTIONS)]),
        metavar=f"[{'|'.join(ACTIONS)}]",
        callback=whole,
        is_eager=default is not None,  # the other one may ask for it
        help=f"What to do with {what} that is in the catalog already [{shown}].",
    )


ASK = "ask"


def action_for(name: str, version: str, chosen: str) -> str:
    """The action for a package that the catalog has already: the chosen one, or the user's answer."""
    if chosen != ASK:
        return chosen
    remark(f"{name} {version} is in the catalog already.")
    letters = {action[0]: action for action in ACTIONS}
    said = click.prompt(
        "Skip it (s), update it (u), or abort (a)", type=click.Choice(list(letters)), err=True
    )
    return letters[said]


def import_archive(
    connection: Connection, path: Path, exists_action: str, public: bool, categories: Sequence[str]
) -> PackageRow:
    """Upload an archive or a directory; the catalog's package, or the one that stays."""
    content = read_archive(path)
    stem = Path(os.path.abspath(path)).stem
    metadata: dict[str, Any] = {"is_public": public, "categories": list(categories)}
    metadata["signature"] = signature_beside(path, content)
    existing = None if exists_action == "abort" else find_same(connection, content, path)
    if existing is not None:
        name, version = existing["fully_qualified_name"], existing["version"]
        exists_action = action_for(name, version, exists_action)
    if existing is None or exists_action == "abort":
        # The service's refusal says why it does not accept the existing one.
        return upload_archive(connection, stem, content, **metadata)
    if exists_action == "skip":
        return existing
    return replace_package(connection, existing, stem, content, **_given(metadata))


def _given(metadata: dict[str, Any]) -> dict[str, Any]:
    """What the user said of a package: all else stays as it was."""
    return {key: value for key, value in metadata.items() if value}


@dataclass
class PackageImport(Gathering):
    """One import: what the catalog has already is not fetched for those that require it."""

    connection: Connection = field(kw_only=True)
    exists_action: str = field(kw_only=True)
    #: The same for what they require.
    dep_exists_action: str = "skip"
    public: bool = False
    categories: Sequence[str] = ()
    images: bool = True

    @classmethod
    @contextmanager
    def opened(
        cls,
        repo_url: str | None,
        exists_action: str,
        dep_exists_action: str,
        public: bool,
        categories: Sequence[str],
        images: bool,
    ) -> Generator[PackageImport]:
        """An import with its connections, to the service and to the repository."""
        with Connection() as connection, Repository(repo_url) as repository:
            yield cls(
                repository,
                connection=connection,
                exists_action=exists_action,
                dep_exists_action=dep_exists_action,
                public=public,
                categories=categories,
                images=images,
            )

    def run(self, roots: Sequence[Package]) -> None:
        """Import packages and what they require, what is required first."""
        wanted = {id(package) for package in roots}
        for package in self.with_required(roots):
            if not self._import(package, is_root=id(package) in wanted):
                break

    def is_there(self, name: str, spec: str | None) -> bool:
        """Whether the catalog has a version that will do, and that one is to stay."""
        from vetro.packages import Version, version_spec

        if self.dep_exists_action != "skip":
            return False
        params = {"fqn": name, "catalog": "true"}
        rows = self.connection.get("/v1/catalog/packages", params=params)["packages"]
        wanted = version_spec(spec)
        return any(Version.parse(str(row["version"])) in wanted for row in rows)

    def _chosen(self, is_root: bool) -> str:
        return self.exists_action if is_root else self.dep_exists_action

    def _import(self, package: Package, *, is_root: bool) -> bool:
        """Import one package; returns whether to continue with the others."""
        path = self.path_of(package)
        name, version = package.full_name, package.version
        metadata: dict[str, Any] = {"is_public": self.public}
        if is_root:
            metadata["categories"] = list(self.categories)
        try:
            content = read_archive(path)
            metadata["signature"] = signature_beside(path, content)
            existing = find_same(self.connection, content, path)
            if existing is None:
                upload_archive(self.connection, name, content, **metadata)
                self.note(name, version, "imported")
            elif (action := action_for(name, version, self._chosen(is_root))) == "skip":
                self.note(name, version, "skipped", "it is in the catalog already")
                return True
            elif action == "update":
                replace_package(self.connection, existing, name, content, **_given(metadata))
                self.note(name, version, "replaced")
            else:
                reason = "it is in the catalog already: --exists-action skip or update goes on"
                self.note(name, version, "failed", reason)
                return False
        except CommandError as error:
            self.note(name, version, "failed", error.format_message())
            return True
        if self.images:
            self._import_images(package)
        return True

    def _import_images(self, package: Package) -> None:
        from vetro.packages import SourceError, images_of

        entries, skipped = images_of(package)
        for text in skipped:
            say(f"{package.full_name}: {text}")
        for entry in entries:
            try:
                outcome = self._import_image(entry)
                if outcome is not None:
                    self.note(f"image {entry.name}", None, *outcome)
            except (SourceError, CommandError, Fault, TransportError) as error:
                text = error.format_message() if isinstance(error, CommandError) else str(error)
                self.note(f"image {entry.name}", None, "failed", text)

    def _import_image(self, entry: ImageEntry) -> tuple[str, str] | None:
        """Import one image; one of its name and type gets what forms show of it, if it says nothing.

        What came of it and why; None when there was nothing to do.
        """
        from vetro.packages import SourceError, hash_mismatch

        type_ = _IMAGE_TYPES.get(entry.disk_format.lower())
        if type_ is None:
            formats = ", ".join(_IMAGE_TYPES)
            raise SourceError(f"instances cannot start from {entry.disk_format}; from {formats}")
        # `linux.ubuntu` is a Linux.
        system = (entry.type or "linux").partition(".")[0]
        # What forms show of it (A9), under the name that it has on OpenStack.
        about = {"title": entry.title or entry.name, "type": entry.type or system}
        tags = {FORM_TAG: json.dumps(about)}
        images = self.connection.send(vm_calls.images())
        known = [one for one in images if one.name == entry.name and one.type == type_]
        if known:
            return self._describe(known, tags)
        path = self.repository.image(entry.name, entry.url)
        problem = hash_mismatch(path, entry.hash)
        if problem is not None:
            raise SourceError(f"its file is not what {entry.name} should be: {problem}")
        new = NewImage(name=entry.name, type=type_, os=system, tags=tags)
        upload_image(self.connection, new, path)
        return "imported", ""

    def _describe(self, known: Sequence[Image], tags: dict[str, str]) -> tuple[str, str] | None:
        """Mark an image that is there already; those of other projects stay as they are."""
        unmarked = [one for one in known if one.state == "active"]
        if not unmarked or any(one.form_info for one in known):
            return None
        for one in unmarked:
            response = self.connection.answer_to(vm_calls.add_image_tags(one.uuid, tags))
            if response.status != 403:
                accepted(response)
                return "described", "it was there without a title"
        return "skipped", "it belongs to another project and keeps its name in forms"
