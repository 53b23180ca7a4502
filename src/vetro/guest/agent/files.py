"""The files of one plan: written, downloaded and linked below one folder (guest-agent.md §7.4).

::

    <root>/<file id>                    an inline file
    <root>/<file id>/…                  what a downloadable file fetched
    <root>/<script name>/<Name>         a link to either
"""

import base64
import binascii
import hashlib
import os
import re
import shutil
import subprocess
from urllib.parse import unquote, urlsplit

from . import log
from .errors import AgentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_GIT = re.compile(r"^git://|^git\+https?:/|\.git$")
_SVN = re.compile(r"^https?://.+/svn/|^svn://")
_SAFE_NAME = re.compile(r"^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$")
_DOWNLOAD_SECONDS = 600


class FileManager:
    """Owns the folder of one plan's files. Use as a context manager: emptied before and after."""

    def __init__(self, files_directory: str, plan_id: str, entries: "dict[str, Any]") -> None:
        self.root = folder_of(files_directory, plan_id)
        self._entries = entries

    def __enter__(self) -> "FileManager":
        remove_folder(self.root)
        os.makedirs(self.root, mode=0o700)
        return self

    def __exit__(self, *_details: object) -> None:
        remove_folder(self.root)

    def script_folder(self, script: str) -> str:
        """The working folder of a script, made if need be."""
        folder = os.path.join(self.root, script)
        if os.path.isfile(folder):
            raise AgentError("The script %r has the name of a file id; rename one" % script)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return folder

    def place(self, file_id: str, script: str) -> str:
        """Make a file available to a script; returns its path below the script's folder."""
        entry = self._entries[file_id]
        source = os.path.join(self.root, file_id)
        if not os.path.lexists(source):
            if entry.get("Type") == "Downloadable":
                self._download(file_id, entry, source)
            else:
                _write_inline(file_id, entry, source)
        link = os.path.join(self.script_folder(script), entry["Name"])
        if not os.path.lexists(link):
            os.makedirs(os.path.dirname(link), mode=0o700, exist_ok=True)
            os.symlink(source, link)
        return link

    def _download(self, file_id: str, entry: "dict[str, Any]", target: str) -> None:
        url: str = entry["URL"]
        parts = urlsplit(url)
        if not parts.scheme or not (parts.netloc or parts.path):
            raise AgentError("File %r: the URL %r is not valid" % (file_id, url))
        log.info("Fetching %s" % url)
        os.mkdir(target, 0o700)
        try:
            if _GIT.search(url):
                source = url[len("git+") :] if url.startswith("git+") else url
                _run_fetcher(["git", "clone", "--quiet", "--", source, target], url)
            elif _SVN.search(url):
                _run_fetcher(
                    ["svn", "checkout", "--quiet", "--non-interactive", "--", url, target], url
                )
            else:
                _fetch_http(file_id, entry, parts.path, target)
        except BaseException:
            remove_folder(target)
            raise


def folder_of(files_directory: str, plan_id: str) -> str:
    """The folder of a plan's files. An id that is no plain name is replaced by its digest."""
    if not _SAFE_NAME.match(plan_id):
        plan_id = hashlib.sha256(plan_id.encode("utf-8", "surrogatepass")).hexdigest()
    return os.path.join(files_directory, plan_id)


def remove_folder(path: str) -> None:
    """Remove a folder if it is there."""
    if os.path.isdir(path):
        shutil.rmtree(path)


def _write_inline(file_id: str, entry: "dict[str, Any]", path: str) -> None:
    if entry["BodyType"] == "Base64":
        try:
            data = base64.b64decode("".join(entry["Body"].split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise AgentError("File %r: the body is not base64: %s" % (file_id, error)) from error
    else:
        data = entry["Body"].encode("utf-8")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def _run_fetcher(command: "list[str]", url: str) -> None:
    environment = dict(os.environ, GIT_TERMINAL_PROMPT="0", LC_ALL="C")
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            timeout=_DOWNLOAD_SECONDS,
            check=False,
        )
    except OSError as error:
        raise AgentError(
            "%s cannot be fetched: the program %s does not run here: %s" % (url, command[0], error)
        ) from error
    except subprocess.TimeoutExpired as error:
        raise AgentError(
            "%s cannot be fetched: no end after %d seconds" % (url, _DOWNLOAD_SECONDS)
        ) from error
    if done.returncode != 0:
        raise AgentError(
            "%s cannot be fetched: %s" % (url, done.stdout.decode("utf-8", "replace").strip())
        )


def _fetch_http(file_id: str, entry: "dict[str, Any]", path: str, folder: str) -> None:
    import urllib.request  # only plans with downloads pay for it

    url: str = entry["URL"]
    name = unquote(path.rstrip("/").rsplit("/", 1)[-1])
    if not name or name in (".", "..") or "/" in name:
        raise AgentError("File %r: the URL %r names no file" % (file_id, url))
    if not url.startswith(("http://", "https://", "ftp://")):
        raise AgentError("File %r: the URL %r has a scheme that is not served" % (file_id, url))
    digest = hashlib.sha256()
    try:
        with urllib.request.urlopen(url, timeout=60) as response, open(  # noqa: S310 checked above
            os.path.join(folder, name), "wb"
        ) as stream:
            while True:
                block = response.read(1 << 16)
                if not block:
                    break
                digest.update(block)
                stream.write(block)
    except (OSError, ValueError) as error:
        raise AgentError("%s cannot be fetched: %s" % (url, error)) from error
    expected = entry.get("Checksum")
    if expected is not None and expected != "sha256:" + digest.hexdigest():
        raise AgentError(
            "%s is not what the plan expects: checksum sha256:%s instead of %s"
            % (url, digest.hexdigest(), expected)
        )
