"""Package formats that installed distributions add (packages-and-forms.md A3, decision 0386).

An entry point of `GROUP` is named `<type>/<version>` and gives a callable: with the directory of an
unpacked package and the map of its manifest it returns a handler, the object that describes the package.
A handler has the attributes of `Description`, all of them optional, and two methods:

    get_class(name)     the YAML text of a class and the name of its file
    get_resource(name)  the path of a file; none, or a `LookupError` or `OSError`, when there is none

and may have `check()`, which gives findings of `vetro check`: `(code, message)` with codes of its own
prefix (`tosca:E001`). The module of an entry point may have `init_plugin()`, called once.

A plug-in is trusted as the service's own code is: an operator has installed it. What it raises about a
package is that package's error.
"""

from __future__ import annotations

import functools
import importlib
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from vetro.muranopl import Version
from vetro.packages.errors import PackageFormatError, PackageLoadError
from vetro.packages.members import DirectoryMembers, Members, safe_name

GROUP = "io.murano.plugins.packages"
#: What a handler may say of its package; what is absent, or null, is as the manifest says.
DESCRIPTION: Mapping[str, tuple[type, ...]] = {
    "full_name": (str,),
    "version": (object,),
    "package_type": (str,),
    "display_name": (str,),
    "description": (str,),
    "author": (str,),
    "supplier": (dict,),
    "tags": (list, tuple),
    "logo": (bytes,),
    "supplier_logo": (bytes,),
    "classes": (dict, list, tuple, set, frozenset),
    "requirements": (dict,),
    "ui": (str, bytes),
    "meta": (dict, list),
}
_CODE = re.compile(r"[a-z][a-z0-9_-]*:[EW]\d{3}\Z")
_Maker = Callable[[Path, dict[str, Any]], Any]
_enabled: frozenset[str] | None = None


def enable_plugins(distributions: Collection[str] = ("*",)) -> None:
    """Name the distributions whose formats are known in this process; `*`: all that are installed."""
    global _enabled
    _enabled = None if "*" in distributions else frozenset(map(_normal, distributions))
    _makers.cache_clear()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def is_enabled(distribution: str | None) -> bool:
    """Whether the plug-ins of a distribution may be loaded."""
    return _enabled is None or (distribution is not None and _normal(distribution) in _enabled)


def known_formats() -> list[str]:
    """The formats that plug-ins add, as `<type>/<version>`."""
    return sorted("/".join(one) for one in _makers())


def is_known(kind: str, version: str) -> bool:
    """Whether a plug-in adds this format."""
    return (kind, version) in _makers()


@functools.cache
def _makers() -> Mapping[tuple[str, str], Any]:
    """Entry points by type and version; a format that two distributions add is refused."""
    from importlib.metadata import entry_points

    found: dict[tuple[str, str], object] = {}
    doubled: set[tuple[str, str]] = set()
    for entry in entry_points(group=GROUP):
        if not is_enabled(entry.dist.name if entry.dist is not None else None):
            continue
        kind, _, number = entry.name.rpartition("/")
        try:
            key = (kind, str(Version.parse(number)))
        except ValueError:
            continue
        if key in found:
            doubled.add(key)
        found[key] = entry
    return {key: entry for key, entry in found.items() if key not in doubled}


@functools.cache
def _prepare(module: str) -> None:
    prepare = getattr(importlib.import_module(module), "init_plugin", None)
    if prepare is not None:
        prepare()


class PluginContent:
    """A package as the handler of its format describes it."""

    def __init__(
        self, kind: str, version: str, members: Members, manifest: dict[str, object]
    ) -> None:
        """Errors: ``PackageLoadError`` with what the plug-in says."""
        self.format = f"{kind}/{version}"
        entry = _makers()[kind, version]
        if isinstance(members, DirectoryMembers):
            self._directory = members.root
        else:
            self._directory = Path(tempfile.mkdtemp(prefix="vetro-package-"))
            weakref.finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
            for name in members.names():
                target = self._directory / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(members.read(name))

        def make() -> Any:
            maker: _Maker = entry.load()
            _prepare(entry.module)
            return maker(self._directory, manifest)

        self._handler = self._ask(make, "open it")
        self.described = {
            name: value for name in DESCRIPTION if (value := self._described(name)) is not None
        }

    def _described(self, name: str) -> Any:
        value: object = self._ask(lambda: getattr(self._handler, name, None), f"tell its {name}")
        if value is None or isinstance(value, DESCRIPTION[name]):
            return value
        raise PackageLoadError(
            f"the plug-in for {self.format} gives {name} as {type(value).__name__}"
        )

    def _ask(self, call: Callable[[], object], what: str) -> Any:
        try:
            return call()
        except Exception as error:
            reason = str(error) or type(error).__name__
            raise PackageLoadError(
                f"the plug-in for {self.format} cannot {what}: {reason}"
            ) from error

    @property
    def classes(self) -> dict[str, str]:
        """The classes, each as its own file: the plug-in finds them by name."""
        return {str(name): str(name) for name in self.described.get("classes", ())}

    @property
    def requirements(self) -> dict[str, str | None]:
        """Required packages and their version specs."""
        given: Mapping[object, object] = self.described.get("requirements", {})
        return {str(name): None if spec is None else str(spec) for name, spec in given.items()}

    def class_text(self, name: str) -> str:
        """The text of a class."""
        given: object = self._ask(lambda: self._handler.get_class(name), f"give its class {name}")
        # The second of a pair is the name of the file, which is not needed here.
        pair = isinstance(given, tuple | list)
        text: object = next(iter(cast("Sequence[object]", given)), None) if pair else given
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        if not isinstance(text, str):
            raise PackageLoadError(f"the plug-in for {self.format} gives no text for class {name}")
        return text

    def resource(self, name: str) -> bytes:
        """A resource. Errors: ``FileNotFoundError``; ``PackageFormatError`` outside of the package."""
        safe = safe_name(name)
        try:
            path = self._handler.get_resource(safe)
        except (LookupError, OSError):
            path = None
        if path is None:
            raise FileNotFoundError(f"there is no resource {name}")
        found = Path(path).resolve()
        if not found.is_relative_to(self._directory.resolve()):
            raise PackageFormatError(f"the resource {name!r} is outside of the package")
        return found.read_bytes()

    def findings(self) -> Iterable[tuple[str, str]]:
        """What the plug-in finds wrong: codes with their prefix, and messages."""
        check = getattr(self._handler, "check", None)
        given: Any = self._ask(lambda: list(check()), "check it") if check is not None else []
        for code, message in given:
            if not _CODE.match(str(code)):
                raise PackageLoadError(
                    f"the plug-in for {self.format} gives the code {code!r}: write prefix:E001"
                )
            yield str(code), str(message)
