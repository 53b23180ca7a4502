"""The settings ``[blobs]``."""

from __future__ import annotations

from dataclasses import dataclass

#: What stores are for, and how their files' names end.
BLOB_SUFFIXES = {"packages": ".zip", "images": ".image", "volume-backups": ".backup"}


@dataclass(frozen=True)
class BlobsSection:
    """Where archives of packages, images and backups of volumes are kept
    ([several-services.md](several-services.md)).
    """

    store: str = "directory"
    """`directory`: in `server.shared_dir`; `database`: in the database; `s3`: in a bucket of an
    S3-compatible store.
    """
    bucket: str = ""
    """Name of the bucket, which must exist."""
    prefix: str = ""
    """Names of our objects begin with this and `/`: several installations can have one bucket."""
    endpoint: str = ""
    """Address of the store, such as `https://s3.example.com`; empty: Amazon's."""
    region: str = "us-east-1"
    """The bucket's region; most stores other than Amazon's take any."""
    access_key: str = ""
    """Access key; empty: `AWS_ACCESS_KEY_ID`, or the machine's role."""
    secret_key: str = ""
    """Its secret (better as `VETRO_BLOBS_SECRET_KEY`); empty: `AWS_SECRET_ACCESS_KEY`."""
    cache_mib: int = 10_240
    """MiB of copies that a service keeps of each kind of file from the database or a bucket; copies that
    were used within the last hour stay beyond it.
    """
