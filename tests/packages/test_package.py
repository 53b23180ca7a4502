"""Opening packages: what is accepted, what is refused, and where it says so."""

import io
import stat
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vetro.packages import (
    ArchiveLimits,
    PackageClassError,
    PackageError,
    PackageFormatError,
    PackageLimitError,
    PackageLoadError,
    build_archive,
    check_upload,
    open_package,
    parse_manifest,
)
from vetro.packages.unpacking import DAMAGE, unpacked

MANIFEST = (
    "Format: '1.4'\nType: Application\nFullName: org.acme.App\nClasses:\n  org.acme.App: App.yaml\n"
)
MANIFEST_OF_A = "Format: 1.4\nType: Library\nFullName: A\nClasses: {A: A.yaml}\n"
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def archive(files: dict[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip with these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return buffer.getvalue()


def good(**more: str | bytes) -> dict[str, str | bytes]:
    """The files of a good package; keyword names with / as __."""
    files: dict[str, str | bytes] = {
        "manifest.yaml": MANIFEST,
        "Classes/App.yaml": "Name: App\n",
        "UI/ui.yaml": "Version: 2\n",
        "logo.png": PNG,
        "Resources/a/b.txt": "x",
    }
    files.update({name.replace("__", "/"): content for name, content in more.items()})
    return files


def test_an_archive_is_opened_and_read() -> None:
    """A good package offers its manifest, classes, resources, form and logo."""
    package = open_package(archive(good()))
    assert (package.full_name, package.format, package.version) == ("org.acme.App", "1.4", "0.0.0")
    assert package.read_class("App.yaml") == "Name: App\n"
    assert package.read_resource("a/b.txt") == b"x"
    assert package.ui == "Version: 2\n"
    assert package.logo == PNG
    assert package.manifest.name == "org.acme.App"


def test_a_directory_is_the_same_package_as_its_archive(tmp_path: Path) -> None:
    """Building an archive keeps the content, and building it twice makes the same bytes."""
    directory = tmp_path / "p"
    for name, content in good().items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    first = build_archive(directory, tmp_path / "a.zip")
    assert build_archive(directory, tmp_path / "b.zip") == first
    # Where `vetro package build .` and `build -o . .` write: no archive has an earlier one in it.
    (directory / "dist/packages").mkdir(parents=True)
    for at in ("dist/packages/p.zip", "dist/packages/p.zip", "p.zip", "p.zip"):
        assert build_archive(directory, directory / at) == first
    (directory / "p.zip").unlink()
    assert (
        open_package(tmp_path / "a.zip").members.names() == open_package(directory).members.names()
    )


def link_member() -> bytes:
    """An archive with a symbolic link."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("manifest.yaml", MANIFEST)
        info = zipfile.ZipInfo("Classes/App.yaml")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        made.writestr(info, "/etc/passwd")
    return buffer.getvalue()


def twice() -> bytes:
    """An archive with one name twice."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("manifest.yaml", MANIFEST)
        with pytest.warns(UserWarning, match="Duplicate"):
            made.writestr("manifest.yaml", MANIFEST)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"", PackageFormatError, "not a zip archive"),
        (b"PK\x03\x04 broken", PackageFormatError, "not a zip archive"),
        (b"hello", PackageFormatError, "not a zip archive"),
        (archive({"a": "b"}), PackageLoadError, "Unable to find package manifest"),
        (
            archive({"app/manifest.yaml": MANIFEST}),
            PackageLoadError,
            "must hold the package itself, not a folder",
        ),
        (archive(good(**{"../evil": "x"})), PackageFormatError, "leaves the package"),
        (archive(good(**{"/etc/x": "x"})), PackageFormatError, "leaves the package"),
        (archive(good(**{"a\\..\\b": "x"})), PackageFormatError, "leaves the package"),
        (archive(good(**{"C:/x": "x"})), PackageFormatError, "leaves the package"),
        (link_member(), PackageFormatError, "is a link or a device"),
        (
            archive({k: v for k, v in good().items() if k != "Classes/App.yaml"}),
            PackageError,
            'load class "org.acme.App" from package org.acme.App: File with class definition not found',
        ),
        (archive(good(**{"logo.png": b"GIF?"})), PackageLoadError, "not a PNG, JPEG or GIF"),
        (archive(good(**{"logo.png": PNG + b"\0" * 600_000})), PackageLoadError, "500 KiB"),
    ],
)
def test_bad_archives_are_refused(content: bytes, kind: type, message: str) -> None:
    """Each bad archive is refused with its reason, before anything is unpacked."""
    with pytest.raises(kind, match=message):
        open_package(content)


def test_a_name_twice_is_refused() -> None:
    """An archive with two members of one name is ambiguous."""
    with pytest.raises(PackageFormatError, match="twice"):
        open_package(twice())


def test_bombs_are_refused_by_what_they_say_and_by_what_they_hold() -> None:
    """Too many members, too much content, and a member longer than its header says."""
    limits = ArchiveLimits(members=10, content_bytes=10_000, member_bytes=5000, archive_bytes=9000)
    with pytest.raises(PackageLimitError, match="members"):
        open_package(archive({f"f{i}": "" for i in range(11)}), limits=limits)
    with pytest.raises(PackageLimitError, match="unpacks to 6000 bytes"):
        open_package(archive({"a": "x" * 6000}), limits=limits)
    with pytest.raises(PackageLimitError, match="more than 10000 bytes"):
        open_package(archive(dict.fromkeys("abc", "x" * 4000)), limits=limits)
    with pytest.raises(PackageLimitError, match="archive is larger"):
        open_package(b"x" * 9001, limits=limits)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("FullName: a.b\n", "Invalid package Type None", None),
        ("Type: Application\n", "FullName is not specified", None),
        ("Type: Library\nFullname: a\n", "is Fullname a misspelling of it", None),
        ("Type: Library\nFullName: a..b\n", "Invalid FullName", 2),
        ("Type: Lib\nFullName: a\n", "Invalid package Type", 1),
        ("Type: Library\nFullName: a\nFormat: 9.9\n", "Unsupported format", 3),
        ("Type: Library\nFullName: a\nFormat: X/1.0\n", "Unsupported format", 3),
        ("Type: Library\nFullName: a\nFormat: Heat.HOT/1.0\n", "no file template.yaml", None),
        ("Type: Library\nFullName: a\nVersion: one\n", "Version", 3),
        ("Type: Library\nFullName: a\nTags: x\n", "Tags must be a list", 3),
        ("Type: Library\nFullName: a\nClasses: [x]\n", "Classes must be a map", 3),
        ("Type: Library\nFullName: a\nRequire:\n  b: >=1\n", "quote a value", 4),
        ("Type: Library\nFullName: a\nRequire:\n  b: !=1\n", "quote a value", 4),
        ("Type: Library\nFullName: a\nClasses:\n  a.A: /etc/a\n", "leaves the package", 4),
        ("Type: Library\nFullName: a\nClasses:\n  a.A: a.yaml\n", "definition not found", 4),
        ("Type: Library\nFullName: a\nUI: ../a\n", "leaves the package", 3),
        ("Type: Library\nFullName: a\nUI: a.yaml\n", "Unable to find UI definition", 3),
        ("Type: Library\nFullName: a\nLogo: ../a\n", "leaves the package", 3),
        ("Type: Library\nFullName: a\nLogo: a.png\n", "Unable to load logo", 3),
        ("Type: Library\nFullName: a\nMeta: 5\n", "a map or a list", 3),
        ("Type: Library\nFullName: a\nType: Library\n", "appears twice", 3),
        ("- a\n", "must be a map", 1),
        ("a: [\n", "Unable to load due to", 2),
        ("a: &x [1]\nb: " + "[" * 60 + "]" * 60, "nested deeper", None),
    ],
)
def test_bad_manifests_say_where(text: str, message: str, line: int | None) -> None:
    """Each mistake in a manifest is named with its line."""
    with pytest.raises(PackageError, match=message) as caught:
        open_package(archive({"manifest.yaml": text}))
    if line is not None:
        assert caught.value.line == line


def test_a_version_is_text_as_it_is_written() -> None:
    """`Version: 1.10` is not the number 1.1; of two values of a nested key the last one counts."""
    text = b"Type: Library\nFullName: a\nVersion: 1.10\nRequire: {b: 2.1, b: 2.10}\n"
    manifest = parse_manifest(text)
    assert (manifest.version, manifest.requirements) == ("1.10.0", {"b": "2.10"})


def test_alias_bombs_are_stopped() -> None:
    """Exponential YAML is refused before it is built."""
    text = "a: &a [x]\n" + "".join(
        f"b{i}: &b{i} [{', '.join(['*a' if i == 0 else f'*b{i - 1}'] * 9)}]\n" for i in range(20)
    )
    with pytest.raises(PackageLimitError, match="more than 20000 nodes"):
        open_package(archive({"manifest.yaml": text}))


def test_class_syntax_errors_have_a_position(tmp_path: Path) -> None:
    """Building a package with broken class YAML names file, line and column."""
    (tmp_path / "p/Classes").mkdir(parents=True)
    (tmp_path / "p/manifest.yaml").write_text(MANIFEST)
    (tmp_path / "p/Classes/App.yaml").write_text("Name: App\nMethods:\n  - a: [\n")
    with pytest.raises(PackageError, match="Classes/App.yaml:4") as caught:
        build_archive(tmp_path / "p", tmp_path / "a.zip")
    assert caught.value.line == 4
    assert not (tmp_path / "a.zip").exists()


@pytest.mark.parametrize(
    "name", ["../manifest.yaml", "/etc/passwd", "a/../../b", "none.txt", "", "a\\b"]
)
def test_resources_stay_inside_the_package(name: str) -> None:
    """A resource name that is absent or leaves ``Resources/`` is an error."""
    with pytest.raises((FileNotFoundError, PackageFormatError)):
        open_package(archive(good())).read_resource(name)


def test_links_out_of_a_directory_are_refused(tmp_path: Path) -> None:
    """In a package directory, a link that leads outside is not followed."""
    directory = tmp_path / "p"
    for name, content in good().items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "secret").write_text("s")
    (directory / "Resources/link").symlink_to(tmp_path / "secret")
    with pytest.raises(PackageFormatError, match="leaves the package"):
        open_package(directory).read_resource("link")


@pytest.mark.parametrize("method", METHODS)
def test_members_are_packed_by_any_usual_method(method: int) -> None:
    """Stored, deflated, bzip2 or LZMA: the content is the same."""
    files = good(Resources__empty="", Resources__long="long " * 50_000)
    package = open_package(archive(files, method))
    assert package.read_class("App.yaml") == "Name: App\n"
    assert package.read_resource("empty") == b""
    assert package.read_resource("long") == b"long " * 50_000


@pytest.mark.parametrize("method", METHODS)
def test_a_member_that_lies_about_its_size_unpacks_to_no_more(method: int) -> None:
    """Not to 32 MiB for a member of 10 bytes, which its checksum does not fit."""
    content = bytearray(archive(good(Resources__long=b"\0" * 2**25), method))
    directory = content.rindex(b"Resources/long") - 46
    content[directory + 24 : directory + 28] = (10).to_bytes(4, "little")
    if method == zipfile.ZIP_STORED:
        content[directory + 20 : directory + 24] = (10).to_bytes(4, "little")
    package = open_package(bytes(content))
    tracemalloc.start()
    try:
        with pytest.raises(PackageFormatError, match="Resources/long"):
            package.read_resource("long")
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_method_that_python_may_not_know_is_refused() -> None:
    """Whatever the Python of the catalog can unpack, an engine's must be able to as well."""
    content = bytearray(archive(good()))
    directory = content.rindex(b"Resources/a/b.txt") - 46
    content[directory + 10 : directory + 12] = (93).to_bytes(2, "little")
    package = open_package(bytes(content))
    with pytest.raises(PackageFormatError, match=r"method \(93\).*use deflate"):
        package.read_resource("a/b.txt")


@pytest.mark.parametrize("method", METHODS)
@given(noise=st.binary(max_size=300), position=st.integers(0, 400))
def test_damaged_archives_never_crash(method: int, noise: bytes, position: int) -> None:
    """Whatever bytes are changed, the result is a package or a ``PackageError``."""
    content = bytearray(archive(good(), method))
    at = position % len(content)
    content[at : at + len(noise)] = noise
    try:
        package = open_package(bytes(content))
        package.check_classes()
    except PackageError:
        pass


@pytest.mark.parametrize(
    ("offset", "noise"),
    [
        (6, b"\x00\x08"),  # the name is UTF-8, it says
        (6, b"\x01\x00"),  # the member is encrypted, it says
    ],
)
def test_a_local_header_that_differs_from_the_directory_is_an_error(
    offset: int, noise: bytes
) -> None:
    """What is wrong with a member alone is found when it is read."""
    content = bytearray(archive(good()))
    content[offset : offset + 2] = noise
    content[30:31] = b"\xff"  # the first byte of the first member's name
    with pytest.raises(PackageError):
        package = open_package(bytes(content))
        for name in package.members.names():
            package.members.read(name)


def manifest_of(**lists: Any) -> str:
    """The good manifest with more keys."""
    return MANIFEST + "".join(f"{key}: {value}\n" for key, value in lists.items())


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"manifest.yaml": manifest_of(Tags=[f"t{n}" for n in range(101)])}, "Tags has 101"),
        (
            {"manifest.yaml": manifest_of(Require={f"p{n}": "1" for n in range(201)})},
            "Require has 201",
        ),
        (
            {
                "manifest.yaml": MANIFEST
                + "".join(f"  org.acme.C{n}: App.yaml\n" for n in range(1000))
            },
            "Classes has 1001",
        ),
        ({"manifest.yaml": manifest_of(Description="x" * 70_000)}, "Description is larger"),
        ({"manifest.yaml": manifest_of(Supplier={"Name": "x" * 70_000})}, "Supplier is larger"),
        ({"manifest.yaml": manifest_of(Meta=["x" * 70_000])}, "Meta is larger"),
        ({"Classes/App.yaml": "Name: App\n#" + "x" * 2**22}, "larger than 4194304 bytes"),
        ({"UI/ui.yaml": "Version: 2\n"}, "Application section is required"),
    ],
)
def test_a_catalog_takes_packages_of_a_size_that_it_can_serve(
    files: dict[str, str | bytes], said: str
) -> None:
    """Lists, texts and files of others have bounds, and the form is one; the message says which."""
    package = open_package(archive({**good(), **files}))
    with pytest.raises(PackageLoadError, match=said):
        check_upload(package)


def test_masses_in_a_manifest_are_refused_before_anything_is_built() -> None:
    """However they nest: the nodes are counted while they are read."""
    with pytest.raises(PackageLimitError, match="more than 20000 nodes"):
        open_package(archive({**good(), "manifest.yaml": manifest_of(Tags=[0] * 30_000)}))


def test_a_package_that_a_catalog_takes_may_have_no_form() -> None:
    """What is not there has no mistakes; a good form has none."""
    files = good()
    del files["UI/ui.yaml"]
    check_upload(open_package(archive(files)))
    form = "Version: 2\nApplication: {'?': {type: org.acme.App}}\n"
    check_upload(open_package(archive({**files, "UI/ui.yaml": form})))


@pytest.mark.parametrize("key", ["Name", "Description", "Author", "Tags"])
def test_a_manifest_has_no_nul(key: str) -> None:
    """No database takes it; the place is named."""
    value = '["a\\0b"]' if key == "Tags" else '"a\\0b"'
    with pytest.raises(PackageFormatError, match=r"manifest\.yaml:6.*NUL"):
        open_package(archive({**good(), "manifest.yaml": MANIFEST + f"{key}: {value}\n"}))


def test_a_readme_is_found_and_cut() -> None:
    """Markdown comes before other kinds; a file that is not text, or longer than the limit, breaks
    nothing."""
    assert open_package(archive(good())).readme is None
    files = {**good(), "README.rst": "old", "README.md": b"\xff" + b"a" * 300_000}
    file, text = open_package(archive(files)).readme or ("", "")
    assert (file, len(text), text[:2]) == ("README.md", 256 * 1024, "\ufffda")


def test_a_small_member_is_read_as_zipfile_reads_it() -> None:
    """Whatever byte of an archive is another one: the same content, or the same refusal."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("packed", b"abc" * 30, zipfile.ZIP_DEFLATED)
        made.writestr("stored", b"xyz")
    whole = buffer.getvalue()
    for at in range(len(whole)):
        for bit in (1, 8, 64):
            damaged = bytearray(whole)
            damaged[at] ^= bit
            try:
                archive = zipfile.ZipFile(io.BytesIO(damaged))
            except DAMAGE:
                continue
            for info in archive.infolist():
                assert _read(unpacked, archive, info) == _read(_by_zipfile, archive, info), at


def _by_zipfile(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return unpacked(archive, info)
    with archive.open(info) as member:
        return member.read(info.file_size + 1)


def _read(how: Any, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> object:
    try:
        return how(archive, info)
    except DAMAGE as error:
        return type(error), str(error)


@pytest.mark.parametrize(
    ("text", "parents"),
    [
        ("Name: A\nExtends: [B, C]\n", ["B", "C"]),
        ("Name: Other\n--- \nName: A\nExtends: B\n", ["B"]),
        ("Name: A\nExtends: &x B\nMeta: *x\n", ["B"]),
        ("Name: A\nExtends: {a: b}\n", []),
    ],
)
def test_classes_read_for_an_upload_have_the_same_parents_as_read_alone(
    text: str, parents: list[str]
) -> None:
    content = archive({"manifest.yaml": MANIFEST_OF_A, "Classes/A.yaml": text})
    checked = open_package(content)
    check_upload(checked)
    assert [one.rpartition(".")[2] for one in checked.parents_of("A")] == parents
    assert checked.parents_of("A") == open_package(content).parents_of("A")


@pytest.mark.parametrize("text", ["", "# nothing\n", "a: [", "a: *b\n", "&a [*a]\n", "a: " * 9])
def test_a_class_file_is_refused_although_its_classes_were_read(text: str) -> None:
    content = archive({"manifest.yaml": MANIFEST_OF_A, "Classes/A.yaml": text})
    with pytest.raises(PackageClassError) as alone:
        open_package(content).check_classes()
    with pytest.raises(PackageClassError) as found:
        check_upload(open_package(content))
    assert str(found.value) == str(alone.value)
