"""Settings of stores of files, for tests."""

import os
from pathlib import Path

import pytest


def bucket(store: str, directory: Path) -> dict[str, str]:
    """The settings of a store: for ``s3`` those of the tests' server, with names of its own."""
    if store != "s3":
        return {"blobs.store": store}
    address = os.environ.get("VETRO_TEST_S3_URL")
    if address is None:
        pytest.skip("VETRO_TEST_S3_URL is not set; tools/with-s3.sh sets it")
    return {
        "blobs.store": "s3",
        "blobs.bucket": "vetro",
        "blobs.prefix": f"{directory.parent.name}/{directory.name}",
        "blobs.endpoint": address,
        "blobs.access_key": "S3RVER",
        "blobs.secret_key": "S3RVER",
    }
