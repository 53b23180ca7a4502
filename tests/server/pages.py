"""A person with a browser, as far as pages without scripts need one: it follows forms, and keeps cookies."""

from __future__ import annotations

import re
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from http.cookiejar import CookieJar


@dataclass
class Person:
    """Who looks at one site. ``at``: its address, with a slash at the end."""

    at: str
    cookies: CookieJar = field(default_factory=CookieJar)

    def sees(self, path: str = "", **form: str) -> str:
        """The page at a path, or the one that a filled in form leads to; an error's page, too."""
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))
        body = urllib.parse.urlencode(form).encode() if form else None
        try:
            with opener.open(self.at + path, body, timeout=120) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return f"{error.code}: {error.read().decode()}"

    def reads(self, path: str = "", **form: str) -> str:
        """The words of that page, without its markup, scripts and styles."""
        text = re.sub(r"(?s)<(script|style)\b.*?</\1>", " ", self.sees(path, **form))
        return " ".join(re.sub(r"(?s)<[^>]*>", " ", text).split())


def title(page: str) -> str:
    """The title of a page."""
    found = re.search(r"(?s)<title>(.*?)</title>", page)
    return found[1].strip() if found else ""
