"""The conditions on a package for a catalog to accept it (packages-and-forms.md A4, A5).

Opening a package checks its archive and its manifest. A catalog of other people's packages checks
more: every class file is YAML, the form is valid, and no list is so long that storing its rows
delays other requests.
"""

from __future__ import annotations

from vetro.muranopl import YamlLimits
from vetro.packages.check import form_findings
from vetro.packages.errors import PackageLimitError, PackageLoadError
from vetro.packages.manifest import FILE
from vetro.packages.members import MEBIBYTE, safe_name
from vetro.packages.package import Package

MAX_TAGS = 100
MAX_CLASSES = 1000
MAX_REQUIREMENTS = 200
MAX_TEXT_BYTES = 64 * 1024
#: Bytes of one class file (the limit of the language), of all class files, of the form.
CLASS_BYTES = YamlLimits().bytes
CLASSES_BYTES = 16 * MEBIBYTE
FORM_BYTES = MEBIBYTE


def check_upload(package: Package) -> None:
    """Check a package as a whole. Errors: ``PackageError``, with the place of the first mistake.

    Takes seconds for a large package: do not call it in an event loop.
    """
    check_bounds(package)
    package.read_classes()
    package.check_classes()
    errors = [
        one
        for one in form_findings(
            package.members, package.manifest.ui, package.full_name, loads=False
        )
        if one.level == "error"
    ]
    if errors:
        first = errors[0]
        more = f" (and {len(errors) - 1} more: 'vetro check' lists them)" if errors[1:] else ""
        raise PackageLoadError(
            f"the form cannot be used: {first.message}{more}",
            file=first.file,
            line=first.line,
            column=first.column,
            code=first.code,
        )


def check_bounds(package: Package) -> None:
    """Check the sizes of a package. Errors: ``PackageLimitError``."""
    # Imported late: commands that open packages import this room and do not upload.
    import msgspec

    manifest = package.manifest
    for key, count, limit in (
        ("Tags", len(manifest.tags), MAX_TAGS),
        ("Classes", len(manifest.classes), MAX_CLASSES),
        ("Require", len(manifest.requirements), MAX_REQUIREMENTS),
    ):
        if count > limit:
            raise PackageLimitError(f"{key} has {count} entries; at most {limit}", file=FILE)
    for key, value in (
        ("Description", manifest.description),
        ("Supplier", manifest.supplier),
        ("Meta", manifest.meta),
    ):
        # Values of YAML without a JSON form count as text of about the same size.
        if len(msgspec.json.encode(value, enc_hook=str)) > MAX_TEXT_BYTES:
            raise PackageLimitError(f"{key} is larger than {MAX_TEXT_BYTES} bytes", file=FILE)
    total = 0
    for file in sorted(set(package.class_files.values())):
        path = f"Classes/{safe_name(file)}"
        size = len(package.members.read(path))
        total += size
        if size > CLASS_BYTES:
            raise PackageLimitError(f"larger than {CLASS_BYTES} bytes", file=path)
        if total > CLASSES_BYTES:
            raise PackageLimitError(
                f"the class files have more than {CLASSES_BYTES} bytes together"
            )
    form = f"UI/{safe_name(manifest.ui)}"
    if package.members.has(form) and len(package.members.read(form)) > FORM_BYTES:
        raise PackageLimitError(f"larger than {FORM_BYTES} bytes", file=form)
