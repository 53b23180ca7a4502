"""RSA verification in plain integers, against keys and signatures of a real library."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from hypothesis import given
from hypothesis import strategies as st

from vetro.guest.agent.errors import ConfigurationError
from vetro.guest.agent.signature import PublicKey, load_public_key

KEY = rsa.generate_private_key(65537, 2048)


def _public(form: serialization.PublicFormat = serialization.PublicFormat.PKCS1) -> PublicKey:
    pem = KEY.public_key().public_bytes(serialization.Encoding.PEM, form)
    return load_public_key(pem.decode())


@given(st.binary(max_size=400))
def test_genuine_signatures_verify(message: bytes) -> None:
    """Signatures of the library verify with both PEM forms of its key."""
    signature = KEY.sign(message, padding.PKCS1v15(), hashes.SHA256())
    assert _public().verify(message, signature)
    assert _public(serialization.PublicFormat.SubjectPublicKeyInfo).verify(message, signature)


@given(st.binary(min_size=1, max_size=100), st.integers(0, 2047))
def test_one_wrong_bit_is_noticed(message: bytes, bit: int) -> None:
    """A flipped bit anywhere in the signature makes it invalid."""
    signature = bytearray(KEY.sign(message, padding.PKCS1v15(), hashes.SHA256()))
    signature[bit // 8] ^= 1 << (bit % 8)
    assert not _public().verify(message, bytes(signature))


@pytest.mark.parametrize("signature", [b"", b"\x00" * 256, b"\xff" * 256, b"\x01" * 255])
def test_nonsense_is_no_signature(signature: bytes) -> None:
    """Empty, short and large numbers give false, not an exception."""
    assert not _public().verify(b"message", signature)


def test_other_digests_and_paddings_are_refused() -> None:
    """SHA-1 or PSS signatures of the same key are refused."""
    message = b"message"
    sha512 = KEY.sign(message, padding.PKCS1v15(), hashes.SHA512())
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.MAX_LENGTH)
    assert not _public().verify(message, sha512)
    assert not _public().verify(message, KEY.sign(message, pss, hashes.SHA256()))


def test_forged_padding_with_room_for_garbage_is_refused() -> None:
    """A block whose padding is short and whose tail is free (a known forgery) fails."""
    public = PublicKey((1 << 2047) + 9, 3)
    digest = bytes.fromhex("3031300d060960864801650304020105000420") + b"\x00" * 32
    block = b"\x00\x01" + b"\xff" * 8 + b"\x00" + digest
    target = int.from_bytes(block.ljust(256, b"\x00"), "big")
    root = round(target ** (1 / 3)) if target < 1 << 900 else _cube_root(target)
    assert not public.verify(b"x", root.to_bytes(256, "big"))


def _cube_root(number: int) -> int:
    low, high = 0, 1 << ((number.bit_length() + 2) // 3 + 1)
    while low < high:
        middle = (low + high) // 2
        if middle**3 < number:
            low = middle + 1
        else:
            high = middle
    return low


@pytest.mark.parametrize(
    "pem",
    [
        "",
        "no key",
        "-----BEGIN RSA PUBLIC KEY-----\n!!!\n-----END RSA PUBLIC KEY-----",
        "-----BEGIN RSA PUBLIC KEY-----\nMAA=\n-----END RSA PUBLIC KEY-----",
        "-----BEGIN RSA PUBLIC KEY-----\nMIIBCgKCAQEA\n-----END RSA PUBLIC KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nMAA=\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_damaged_keys_are_named(pem: str) -> None:
    """A key that cannot be read is a configuration error that names the option."""
    with pytest.raises(ConfigurationError, match="engine_key"):
        load_public_key(pem)


def test_an_elliptic_key_is_refused() -> None:
    """A public key of another kind is refused with its reason."""
    from cryptography.hazmat.primitives.asymmetric import ec

    pem = ec.generate_private_key(ec.SECP256R1()).public_key()
    text: Any = pem.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    with pytest.raises(ConfigurationError, match="not an RSA key"):
        load_public_key(text.decode())
