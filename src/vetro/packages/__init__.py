"""Application packages: archives, manifests, versions, forms, checks (packages-and-forms.md).

``open_package`` opens and checks one (directory, zip or bytes) as a ``Package``, which the language can
load classes from. ``build_archive`` writes a directory as a zip, ``check`` lists everything that is
wrong, ``forms`` turns a form's answers into an application's object.
"""

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used
from vetro.muranopl import Version, VersionSpec, version_spec
from vetro.packages.check import CODES, Finding, NotAPackage, check, check_manifest_only
from vetro.packages.data import read_json, read_yaml, text_of
from vetro.packages.errors import (
    DataError,
    PackageClassError,
    PackageError,
    PackageFormatError,
    PackageLimitError,
    PackageLoadError,
    SourceAbsentError,
    SourceError,
)
from vetro.packages.examine import MAX_TAGS, check_upload, examine, other_errors
from vetro.packages.manifest import Manifest, parse_manifest
from vetro.packages.members import ArchiveLimits
from vetro.packages.package import Package, build_archive, open_package
from vetro.packages.plugin_formats import enable_plugins, is_enabled, known_formats
from vetro.packages.repositories import (
    INDEX,
    BundleEntry,
    ImageEntry,
    IndexEntry,
    archive_names,
    best_entry,
    check_name,
    hash_mismatch,
    images_of,
    is_package_name,
    parse_bundle,
    parse_images,
    parse_index,
    write_index,
)
from vetro.packages.repository_files import (
    ARCHIVE_BYTES,
    BUNDLE_BYTES,
    RepositoryFiles,
    is_address,
    no_file,
)
from vetro.packages.requirement_closure import Closure, requirement_closure
from vetro.packages.schemas import (
    argument_problems,
    did_you_mean,
    missing_arguments,
    value_problems,
)
from vetro.packages.signatures import (
    SIGNATURE_SUFFIX,
    Signature,
    Signers,
    parse_signature,
    sign_archive,
)

if TYPE_CHECKING:
    from vetro.packages.forms import FormError, load_form

__getattr__ = import_when_used(__name__)

__all__ = [
    "ARCHIVE_BYTES",
    "BUNDLE_BYTES",
    "CODES",
    "INDEX",
    "MAX_TAGS",
    "SIGNATURE_SUFFIX",
    "ArchiveLimits",
    "BundleEntry",
    "Closure",
    "DataError",
    "Finding",
    "FormError",
    "ImageEntry",
    "IndexEntry",
    "Manifest",
    "NotAPackage",
    "Package",
    "PackageClassError",
    "PackageError",
    "PackageFormatError",
    "PackageLimitError",
    "PackageLoadError",
    "RepositoryFiles",
    "Signature",
    "Signers",
    "SourceAbsentError",
    "SourceError",
    "Version",
    "VersionSpec",
    "archive_names",
    "argument_problems",
    "best_entry",
    "build_archive",
    "check",
    "check_manifest_only",
    "check_name",
    "check_upload",
    "did_you_mean",
    "enable_plugins",
    "examine",
    "hash_mismatch",
    "images_of",
    "is_address",
    "is_enabled",
    "is_package_name",
    "known_formats",
    "load_form",
    "missing_arguments",
    "no_file",
    "open_package",
    "other_errors",
    "parse_bundle",
    "parse_images",
    "parse_index",
    "parse_manifest",
    "parse_signature",
    "read_json",
    "read_yaml",
    "requirement_closure",
    "sign_archive",
    "text_of",
    "value_problems",
    "version_spec",
    "write_index",
]
