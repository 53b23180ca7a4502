"""Signatures of archives: made, checked, refused; whose they are."""

import hashlib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from vetro.packages import (
    PackageFormatError,
    PackageLoadError,
    Signature,
    Signers,
    parse_index,
    parse_signature,
    sign_archive,
)

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
PUBLIC = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
#: Of the archive b"zip": signatures that are out stay good.
KNOWN = "vetro-ed25519 A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="


def digest(content: bytes) -> str:
    """The SHA-256 that an archive is kept by."""
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(name="archive")
def fixture_archive(tmp_path: Path) -> Path:
    """A file to sign."""
    path = tmp_path / "a.zip"
    path.write_bytes(b"zip")
    return path


def test_a_signature_is_of_one_archive(archive: Path) -> None:
    """Its line is read back; it holds for these bytes, in either case of the hash, and for no others."""
    made = sign_archive(archive, PEM)
    assert made.text().startswith(KNOWN + " ")
    assert parse_signature(made.text()) == made
    assert made.belongs_to(digest(b"zip"))
    assert made.belongs_to(digest(b"zip").upper())
    assert not made.belongs_to(digest(b"zap"))
    assert not Signature(made.key, bytes(64)).belongs_to(digest(b"zip"))
    assert not Signature(b"\xff" * 32, made.value).belongs_to(digest(b"zip"))
    assert made.fingerprint == "SHA256:Vkdap1RjR0wChd9dvyvKtz2mUTWIOem3dIGy6rEHcIw"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "vetro-ed25519 AA== AA==",
        KNOWN,
        f"{KNOWN} AAAA AAAA",
        f"{KNOWN} not-base-64",
        f"ssh-ed25519 {KNOWN.split()[1]} {'A' * 86}==",
        "x" * 100_000,
    ],
)
def test_what_is_no_signature_is_refused(text: str) -> None:
    """The error says what a signature looks like."""
    with pytest.raises(PackageFormatError, match="is not a line 'vetro-ed25519 KEY SIGNATURE'"):
        parse_signature(text)


def test_the_signer_is_the_name_of_a_known_key(tmp_path: Path, archive: Path) -> None:
    """A key that is not in the directory is shown by its fingerprint alone."""
    (tmp_path / "acme.pem").write_bytes(PUBLIC)
    text = sign_archive(archive, PEM).text()
    fingerprint = parse_signature(text).fingerprint
    known, nobody = Signers.read(tmp_path), Signers.read(None)
    assert known.describe(text) == {"key": fingerprint, "signer": "acme"}
    assert nobody.describe(text) == {"key": fingerprint, "signer": None}
    assert known.describe(None) is None


def test_keys_of_another_kind_are_refused(tmp_path: Path, archive: Path) -> None:
    """Private and public keys, files that are not keys, and a missing directory."""
    other = generate_private_key(SECP256R1())
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(PackageLoadError, match="not an Ed25519 key: 'openssl genpkey"):
        sign_archive(archive, pem)
    with pytest.raises(PackageLoadError, match="the key cannot be read"):
        sign_archive(archive, b"no key")
    with pytest.raises(PackageLoadError, match="no such directory"):
        Signers.read(tmp_path / "none")
    bad = tmp_path / "bad.pem"
    for content, words in (
        (b"no key", "not a public key"),
        (
            other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            "not an Ed25519 public key",
        ),
    ):
        bad.write_bytes(content)
        with pytest.raises(PackageLoadError, match=words):
            Signers.read(tmp_path)


def test_an_index_carries_signatures() -> None:
    """As text; an entry without one has none."""
    rows = '{"Name": "a.A", "Version": "1.0.0", "File": "apps/a.A.zip"'
    first, second = parse_index(
        f'{{"Packages": [{rows}, "Signature": "line"}}, {rows}}}]}}'.encode()
    )
    assert (first.signature, second.signature) == ("line", None)
