"""Package lint: report all mistakes at once (packages-and-forms.md A8).

Three passes, each reporting all its findings: the manifest, the form, and the classes, which the
language itself reads and compiles (`vetro.muranopl.check_package`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from vetro import documents
from vetro.documents import DocumentError
from vetro.muranopl import (
    MemoryPackage,
    MuranoError,
    NoPackageFound,
    Runtime,
    check_package,
    version_spec,
)
from vetro.packages.check_codes import CODES
from vetro.packages.check_forms import check_form
from vetro.packages.check_template import check_template
from vetro.packages.check_yaml import Finding, Findings, suggestion
from vetro.packages.data import read_json, read_yaml
from vetro.packages.errors import PackageError
from vetro.packages.manifest import FILE, Manifest, read_manifest
from vetro.packages.members import (
    ArchiveLimits,
    ArchiveMembers,
    DirectoryMembers,
    Members,
    safe_name,
)
from vetro.packages.package import LOGO_BYTES, LOGO_STARTS, Package, open_package
from vetro.packages.repositories import IMAGES, image_problems, parse_images

_ROOT_FILES = frozenset(
    ["manifest.yaml", "LICENSE", "README.rst", "README.md", "images.lst", "template.yaml"]
)
CORE = "io.murano"
"""The class library: a part of its classes and functions is native."""
FRAMEWORK = "io.murano.applications"
"""The library that comes with the engine, and that packages have to require."""
_FOLDERS = ("Classes/", "Resources/", "UI/")


class NotAPackage(PackageError):
    """There is nothing to check: the file, archive or manifest is missing."""


_OF_HOSTS = frozenset(("E301", "E311", "E312", "E313", "W206", "W208", "W209", "W210", "W211"))
"""Findings about names that a host may supply: native classes, their members and functions."""


def check(source: Path | bytes, runtime: Runtime | None = None) -> list[Finding]:
    """All findings of a package, in order of file and line. Raises NotAPackage.

    ``runtime`` holds the packages that this one needs and the native classes of its host
    (``vetro.engine.system.system_runtime``). Without it only the built-in classes of the language are
    known, and names in ``io.murano`` itself are not checked: the host supplies a part of it.
    """
    members = _members(source)
    if not members.has(FILE):
        raise NotAPackage(f"Unable to find package manifest {FILE}")
    manifest = Findings(FILE)
    found: list[Finding] = manifest.found
    declared = read_manifest(members.read(FILE), manifest)
    if declared is None:
        return found
    plugin = _plugin(source, declared, manifest)
    if declared.plugin is not None:
        # The plug-in says which classes there are, and which files it needs.
        declared = replace(declared, classes={})
    _files(members, declared, manifest)
    found = [
        *found,
        *plugin,
        *form_findings(members, declared.ui, declared.full_name),
        *_resources(members),
    ]
    if declared.format == "HOT":
        found += check_template(members).found
    else:
        listed = _classes(source, members, found, runtime or _language(), declared, manifest)
        if runtime is None and declared.full_name == CORE:
            listed = [item for item in listed if item.code not in _OF_HOSTS]
        found += listed
    return sort_findings(found)


def _plugin(source: Path | bytes, declared: Manifest, manifest: Findings) -> list[Finding]:
    """What the plug-in of the package's format finds."""
    if declared.plugin is None or manifest.refusals:
        return []
    try:
        package = open_package(source)
        package.check_classes()
        assert package.plugin is not None
        reported = list(package.plugin.findings())
    except PackageError as error:
        place = (FILE, None, None) if error.file is None else (error.file, error.line, error.column)
        return [Finding("error", "E001", error.message, *place)]
    return [
        Finding("error" if ":E" in code else "warning", code, message, FILE)
        for code, message in reported
    ]


def _language() -> Runtime:
    """A runtime without a host's classes, for programs and their tests."""
    from vetro.muranopl import enable_testing

    runtime = Runtime()
    enable_testing(runtime)
    return runtime


def check_manifest_only(source: Path | bytes) -> list[Finding]:
    """The check of a client before an upload: errors of the manifest alone."""
    members = _members(source)
    if not members.has(FILE):
        raise NotAPackage(f"Unable to find package manifest {FILE}")
    findings = Findings(FILE)
    read_manifest(members.read(FILE), findings)
    return [item for item in findings.found if item.level == "error"]


def sort_findings(found: Iterable[Finding]) -> list[Finding]:
    """Each finding once, by file, place and code."""
    return sorted(
        dict.fromkeys(found),
        key=lambda item: (item.file or "", item.line or 0, item.column or 0, item.code),
    )


def _members(source: Path | bytes) -> Members:
    limits = ArchiveLimits()
    try:
        if isinstance(source, bytes):
            return ArchiveMembers(source, limits)
        if source.is_dir():
            return DirectoryMembers(source, limits)
        if not source.is_file():
            raise NotAPackage(f"Unable to find package file {source}")
        return ArchiveMembers(source, limits)
    except NotAPackage:
        raise
    except PackageError as error:
        raise NotAPackage(error.message, file=error.file) from error


# -- files ---------------------------------------------------------------------------------------


def _has(members: Members, name: str) -> bool:
    try:
        return members.has(name)
    except PackageError:
        return False


def _missing(folder: str, name: str, purpose: str = "") -> str:
    """In words, why there is no file that the manifest names."""
    try:
        safe_name(name)
    except PackageError as error:
        return error.problem
    return f"there is no file {folder}{name}{purpose}"


def _files(members: Members, declared: Manifest, findings: Findings) -> None:
    add = findings.add
    is_hot = declared.format == "HOT"
    is_made = is_hot or declared.plugin is not None
    places = declared.places
    for name, file in declared.classes.items():
        if not _has(members, f"Classes/{file}"):
            add(
                "E050",
                _missing("Classes/", file, f" for class {name}"),
                places[f"Classes/{name}"],
            )
    if is_hot and not members.has("template.yaml"):
        add("E050", "a Heat package has a template.yaml")
    if "UI" in places and not _has(members, f"UI/{declared.ui}"):
        add("E050", _missing("UI/", declared.ui), places["UI"])
    _logo(members, declared.logo, places.get("Logo"), findings)
    _logo(members, declared.supplier_logo, places.get("Supplier/Logo"), findings)
    if declared.type == "Application":
        if not is_made and not _has(members, f"UI/{declared.ui}"):
            add("W073", "there is no UI/ui.yaml: an Application should have a form")
        if not _has(members, declared.logo) and declared.plugin is None:
            add("W074", "there is no logo.png: an Application should have a logo")
    known = {*_ROOT_FILES, declared.logo, declared.supplier_logo}
    named = {f"Classes/{file}" for file in declared.classes.values()}
    for name in members.names():
        if name.startswith("Classes/"):
            if name.endswith((".yaml", ".yml")) and name not in named and not is_made:
                findings.found.append(
                    Finding("warning", "W020", "not named in the manifest's Classes", name)
                )
        elif not name.startswith(_FOLDERS) and name not in known and declared.plugin is None:
            findings.found.append(
                Finding("warning", "W120", "unexpected in the root of a package", name)
            )
    if _has(members, IMAGES):
        entries, skipped = parse_images(members.read(IMAGES))
        found = [*skipped, *(text for one in entries for text in image_problems(one))]
        findings.found += [Finding("warning", "W077", text, IMAGES) for text in found]
    if not members.has("LICENSE"):
        add("W121", "there is no LICENSE")


def _logo(members: Members, name: str, node: object, findings: Findings) -> None:
    if not _has(members, name):
        if node is not None:
            findings.add("E075", _missing("", name), node)
        return
    try:
        content = members.read(safe_name(name))
    except PackageError as error:
        findings.add("E075", error.message, node)
        return
    if len(content) > LOGO_BYTES:
        findings.add("E075", f"{name} is larger than {LOGO_BYTES // 1024} KiB", node)
    elif not content.startswith(LOGO_STARTS):
        findings.add("E075", f"{name} is not a PNG, JPEG or GIF image", node)


def form_findings(
    members: Members, ui: str, full_name: str, *, loads: bool = True
) -> list[Finding]:
    """Mistakes in the form ``UI/<ui>`` of a package; none when it has no form.

    ``loads``: whether a version 2 form that cannot be filled in is a mistake.
    """
    if not _has(members, f"UI/{ui}"):
        return []
    findings = Findings(f"UI/{ui}")
    content = members.read(f"UI/{ui}")
    is_current = check_form(content, findings)
    # A version 1 form need not be fillable here: clients of the catalog show it.
    if loads and is_current and not findings.found:
        from vetro.packages.forms import FormError, load_form

        try:
            load_form(content.decode("utf-8-sig"), package_name=full_name, title="")
        except FormError as error:
            findings.found.append(
                Finding("error", "E087", str(error), findings.file, error.line, error.column)
            )
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            findings.add("E087", f"the form cannot be read: {error}")
    return findings.found


_READERS = {".yaml": read_yaml, ".yml": read_yaml, ".json": read_json}


def _resources(members: Members) -> list[Finding]:
    """Resources that a program could not read: damaged, or of another type than their names say."""
    found: list[Finding] = []
    for name in members.names():
        if not name.startswith("Resources/"):
            continue
        try:
            content = members.read(name)
            reader = _READERS.get(Path(name).suffix)
            if reader is not None:
                reader(content, name)
        except PackageError as error:
            found.append(Finding("warning", "W076", error.message, name, error.line, error.column))
    return found


# -- classes -------------------------------------------------------------------------------------


def _classes(
    source: Path | bytes,
    members: Members,
    known: list[Finding],
    runtime: Runtime,
    declared: Manifest,
    manifest: Findings,
) -> list[Finding]:
    """What the language finds in the classes."""
    unreadable = _unreadable(members, declared)
    package: Package | MemoryPackage = _declared_package(members, declared)
    # Mistakes in the manifest are already reported; the classes can be checked nevertheless.
    if not any(item.level == "error" and item.file == FILE for item in known) and not unreadable:
        try:
            package = open_package(source)
        except PackageError as error:
            if not manifest.refusals and not any(item.level == "error" for item in known):
                place = (error.file, error.line, error.column)
                return [Finding("error", "E001", error.message, *place)]
    missing = _missing_requirements(package, runtime, declared)
    if missing:
        return [*unreadable, *missing]
    try:
        checked = check_package(runtime, runtime.add_package(package))
    except MuranoError as error:
        return [*unreadable, Finding("error", "E305", error.message, FILE)]
    prefix = f"{package.full_name}/"
    broken = {item.file for item in unreadable}
    found = list(unreadable)
    for item in checked:
        place = item.position
        file = place.file.removeprefix(prefix)
        if item.code not in CODES or file in broken:
            continue
        message = item.message.removeprefix(f"{place.file} is not YAML: ")
        if item.code == "E301" and f'"{FRAMEWORK}.' in message:
            message += _unrequired(package)
        if item.code == "E051":
            found.append(Finding(item.level, item.code, message, file))
        else:
            found.append(Finding(item.level, item.code, message, file, place.line, place.column))
    return found


def _unrequired(package: Package | MemoryPackage) -> str:
    """What is missing for the framework's classes to be found; nothing when it is required."""
    if FRAMEWORK in package.requirements:
        return ""
    return f"; it needs 'Require: {{{FRAMEWORK}: }}' in {FILE}"


def _unreadable(members: Members, declared: Manifest) -> list[Finding]:
    """Class files that are not text."""
    found: list[Finding] = []
    for path in {f"Classes/{file}": None for file in declared.classes.values()}:
        if _has(members, path):
            try:
                documents.text_of(members.read(safe_name(path)))
            except DocumentError as error:
                found.append(Finding("error", "E002", error.message, path))
    return found


def _declared_package(members: Members, declared: Manifest) -> MemoryPackage:
    """The declared classes, with existing files, of a package that cannot be opened."""
    texts: dict[str, str] = {}
    for file in declared.classes.values():
        path = f"Classes/{file}"
        if _has(members, path):
            texts[file] = members.read(safe_name(path)).decode("utf-8-sig", errors="replace")
    return MemoryPackage(
        declared.full_name or "package",
        texts,
        {name: file for name, file in declared.classes.items() if file in texts},
        format=declared.format,
        requirements=declared.requirements,
    )


def _missing_requirements(
    package: Package | MemoryPackage, runtime: Runtime, declared: Manifest
) -> list[Finding]:
    found: list[Finding] = []
    for name, spec in package.requirements.items():
        try:
            runtime.shelf.find_package(name, version_spec(spec))
        except NoPackageFound as error:
            node = declared.places.get(f"Require/{name}")
            place = Findings(FILE)
            near = suggestion(name, [FRAMEWORK, CORE])
            place.add("E307", f"{error.message}{near}", node)
            found += place.found
    return found


__all__ = ["CODES", "Finding", "NotAPackage", "check", "check_manifest_only", "sort_findings"]
