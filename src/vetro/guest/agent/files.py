"""The files of one plan: written, downloaded and linked below one folder (guest-agent.md §7.4).

::

    <root>/<file id>                    an inline file
    <root>/<file id>/…                  the content of a downloadable file
    <root>/<script name>/<Name>         a link to either

A plan names scripts and files in two independent lists, and this folder also has names of the
agent's own. A name that cannot be used here is replaced (`_component`).
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
from .process import OUTPUT_FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_GIT = re.compile(r"^git://|^git\+https?:/|\.git$")
_SVN = re.compile(r"^https?://.+/svn/|^svn://")
_SAFE_NAME = re.compile(r"^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$")
_DOWNLOAD_SECONDS = 600
_MADE_PREFIX = ".vetro-"
_LONGEST_COMPONENT = 255


class FileManager:
    """Owns the folder of one plan's files. A context manager that empties it before and after."""

    def __init__(
        self,
        files_directory: str,
        plan_id: str,
        entries: "dict[str, Any]",
        scripts: "Iterable[str]" = (),
    ) -> None:
        self.root = folder_of(files_directory, plan_id)
        self._entries = entries
        self._scripts = frozenset(scripts)

    def __enter__(self) -> "FileManager":
        remove_folder(self.root)
        os.makedirs(self.root, mode=0o700)
        return self

    def __exit__(self, *_details: object) -> None:
        remove_folder(self.root)

    def script_folder(self, script: str) -> str:
        """The working folder of a script, created if needed."""
        folder = os.path.join(self.root, _component(script, "script"))
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return folder

    def place(self, file_id: str, script: str) -> str:
        """Make a file available to a script; returns its path below the script's folder.

        Raises `AgentError` when the file's name cannot be created there.
        """
        entry = self._entries[file_id]
        source = os.path.join(self.root, self._kept_as(file_id))
        if not os.path.lexists(source):
            if entry.get("Type") == "Downloadable":
                self._download(file_id, entry, source)
            else:
                _write_inline(file_id, entry, source)
        link = os.path.join(self.script_folder(script), entry["Name"])
        try:
            if not os.path.lexists(link):
                os.makedirs(os.path.dirname(link), mode=0o700, exist_ok=True)
                os.symlink(source, link)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise _no_such_name(file_id, entry["Name"], script, reason) from error
        if os.path.isdir(link) and not os.path.islink(link):
            raise _no_such_name(file_id, entry["Name"], script, "a folder has this name there")
        return link

    def _kept_as(self, file_id: str) -> str:
        """The name of a file below the root: its id, unless a script's folder has that name."""
        return _component(file_id, "file", taken=file_id in self._scripts)

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
    """The folder of a plan's files. An id that is not a plain name is replaced by its digest."""
    if not _SAFE_NAME.match(plan_id):
        plan_id = hashlib.sha256(plan_id.encode("utf-8", "surrogatepass")).hexdigest()
    return os.path.join(files_directory, plan_id)


def _component(name: str, kind: str, taken: bool = False) -> str:
    """The name in the root for a name of a plan.

    It is replaced by its digest when it is taken or the agent's own, or when no file can have it
    (too long, not encodable). Names that look like a replacement are replaced too, so that no two
    names collide.
    """
    encoded = name.encode("utf-8", "surrogatepass")
    if (
        taken
        or name == OUTPUT_FOLDER
        or name.startswith(_MADE_PREFIX)
        or len(encoded) > _LONGEST_COMPONENT
        or "\x00" in name
        or any("\ud800" <= character <= "\udfff" for character in name)
    ):
        return "%s%s-%s" % (_MADE_PREFIX, kind, hashlib.sha256(encoded).hexdigest())
    return name


def _no_such_name(file_id: str, name: str, script: str, reason: object) -> AgentError:
    return AgentError(
        "File %.100r cannot be %.300r in the folder of the script %.100r: %s; give the file another Name"
        % (file_id, name, script, reason)
    )


def remove_folder(path: str) -> None:
    """Remove a folder if it exists."""
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
    import urllib.request  # only needed for plans with downloads

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
