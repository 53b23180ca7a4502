"""The admin calls for files: listing, uploading, directories, removal (metadata-repository.md §7)."""

import asyncio
from typing import Any

import pytest

from .conftest import Api

XML = b"<workflow/>"


async def test_listings_are_recursive_relative_and_sorted(api: Api) -> None:
    """A type lists its files with their directories; a directory those below it, relative to it."""
    assert await api.ok("GET", "/admin/workflows") == {
        "workflows": ["Common.xml", "Demo.xml", "Web.xml"]
    }
    assert await api.ok("GET", "/admin/workflow/") == {
        "workflow": ["Common.xml", "Demo.xml", "Web.xml"]
    }
    assert await api.ok("GET", "/admin/scripts//Linux/") == {"scripts": ["run.sh"]}
    assert (await api.ok("GET", "/admin/manifests"))["manifests"] == [
        "demoService-manifest.yaml",
        "webServer-manifest.yaml",
    ]
    for path in ("/admin/other", "/admin/scripts/none", "/admin/scripts/Linux/none"):
        assert (await api.call("GET", path)).status == 404, path


async def test_bytes_come_back_as_they_were(api: Api) -> None:
    """A file is stored and returned unmodified, under the name that was given."""
    body = bytes(range(256)) * 10
    await api.ok("POST", "/admin/scripts?filename=a%20b%C3%A9.bin", body)
    answer = await api.call("GET", "/admin/scripts/a%20b%C3%A9.bin")
    assert answer.content == body
    assert answer.headers["content-type"] == "application/octet-stream"
    form = await api.http.request(
        "POST",
        "/v1/admin/scripts/Linux",
        files={"file": ("C:\\x\\..my file.sh", b"")},
        headers={"X-Auth-Token": "ann"},
    )
    assert form.status == 200, form.text
    assert (await api.call("GET", "/admin/scripts/Linux/my_file.sh")).content == b""


async def test_nothing_is_overwritten_unless_asked(api: Api) -> None:
    """A second upload of a name is 403; with overwrite=true it replaces the file in place."""
    await api.ok("POST", "/admin/workflows?filename=A.xml", XML)
    again = await api.call("POST", "/admin/workflows?filename=A.xml", b"<workflow></workflow>")
    assert again.status == 403
    assert "overwrite=true" in again.text
    assert (await api.call("GET", "/admin/workflows/A.xml")).content == XML
    await api.ok("POST", "/admin/workflows?filename=A.xml&overwrite=true", b"<w/>")
    assert (await api.call("GET", "/admin/workflows/A.xml")).content == b"<w/>"
    assert (await api.call("POST", "/admin/scripts?filename=Linux", b"x")).status == 403


async def test_directories(api: Api) -> None:
    """Directories are made with all above them, twice without harm, and not where files stand."""
    for _ in range(2):
        await api.ok("PUT", "/admin/agent/a/b/c", json={})
    await api.ok("POST", "/admin/agent/a/b?filename=x.template", b"{}")
    assert await api.ok("GET", "/admin/agent/a") == {"agent": ["b/x.template"]}
    assert await api.ok("GET", "/admin/agent/a/b/c") == {"agent": []}
    assert (await api.call("PUT", "/admin/agent/a/b/x.template/d")).status == 403
    assert (await api.call("PUT", "/admin/manifests/d")).status == 403
    assert (await api.call("PUT", "/admin/other/d")).status == 404
    assert (await api.call("POST", "/admin/manifests/d?filename=x", b"x")).status in (403, 404)
    assert (await api.call("POST", "/admin/agent/none?filename=x", b"x")).status == 404
    assert (await api.call("POST", "/admin/agent/a/b/x.template?filename=x", b"x")).status == 404
    for method, path in (("PUT", "/admin/agent"), ("DELETE", "/admin/agent")):
        assert (await api.call(method, path)).status == 405


async def test_removal(api: Api) -> None:
    """Files and empty directories go; others need recursive=true; what is not there is 404."""
    await api.ok("PUT", "/admin/heat/a/b")
    await api.ok("POST", "/admin/heat/a/b?filename=x.template", b"{}")
    refused = await api.call("DELETE", "/admin/heat/a")
    assert refused.status == 403
    assert "recursive=true" in refused.text
    await api.ok("DELETE", "/admin/heat/a/b/x.template")
    await api.ok("DELETE", "/admin/heat/a/b")
    await api.ok("PUT", "/admin/heat/a/c/d")
    await api.ok("DELETE", "/admin/heat/a?recursive=true")
    assert (await api.call("DELETE", "/admin/heat/a")).status == 404
    await api.ok("DELETE", "/admin/workflows/Demo.xml")
    info = await api.ok("GET", "/admin/services/demoService/info")
    assert info["valid"] is False
    assert info["errors"] == ["workflows/Demo.xml is missing"]


@pytest.mark.parametrize(
    "path",
    [
        "/admin/scripts/%2e%2e/demoService-manifest.yaml",
        "/admin/scripts/Linux%2f..%2f..%2fx",
        "/admin/scripts/..%5cx",
        "/admin/scripts/a%00b",
        "/admin/scripts/C:/x",
        "/admin/scripts/.hidden",
        "/admin/scripts/a%0Ab",
        "/admin/scripts/%252e%252e/x",
        "/admin/scripts/" + "x" * 600,
        "/admin/scripts/" + "%C3%A9" * 200,
    ],
)
async def test_no_path_leaves_its_type(api: Api, path: str) -> None:
    """Paths in the address that leave their directory, or cannot be, are 404 for every method."""
    for method in ("GET", "PUT", "DELETE", "POST"):
        if method == "PUT" and "%252e" in path:
            continue  # a name with percent signs is a name like others
        answer = await api.call(method, path + "?filename=x" * (method == "POST"), b"x")
        assert answer.status == 404, (method, answer.text)


@pytest.mark.parametrize(
    "name", ["..", ".x", "a/b", "%2e%2e%2fx", "a%5cb", "C:x", "", "x" * 300, "a%0D%0Ab", "/etc/x"]
)
async def test_no_file_name_leaves_its_directory(api: Api, name: str) -> None:
    """Names in the query that leave their directory are 400, and nothing is stored."""
    before = await api.ok("GET", "/admin/scripts")
    answer = await api.call("POST", f"/admin/scripts?filename={name}", b"x")
    assert answer.status == 400, answer.text
    assert await api.ok("GET", "/admin/scripts") == before


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (b"", {"Content-Type": "application/octet-stream"}),
        (b"x", {"Content-Type": "text/plain"}),
        (b"x", {"Content-Type": "multipart/form-data"}),
        (b"x", {"Content-Type": "multipart/form-data; boundary=b"}),
        (
            b'--b\r\nContent-Disposition: form-data; name="other"; filename="x"\r\n\r\nx\r\n--b--\r\n',
            {"Content-Type": "multipart/form-data; boundary=b"},
        ),
        (
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="..."\r\n\r\nx\r\n--b--\r\n',
            {"Content-Type": "multipart/form-data; boundary=b"},
        ),
        (
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nx',
            {"Content-Type": "multipart/form-data; boundary=b"},
        ),
    ],
)
async def test_uploads_that_cannot_be(api: Api, content: bytes, headers: dict[str, str]) -> None:
    """A body without bytes, without the part `file`, or cut in the middle is 400."""
    answer = await api.call("POST", "/admin/scripts?filename=x", content, **headers)
    assert answer.status == 400, answer.text


async def test_size_limit_and_chunks(api: Api) -> None:
    """A streamed body is taken without a length, and refused at the limit."""

    async def pieces(count: int) -> Any:
        for _ in range(count):
            yield b"x" * 2**20

    headers = {"X-Auth-Token": "ann", "Content-Type": "Application/Octet-Stream; charset=x"}
    path = "/v1/admin/scripts?filename=big"
    assert (await api.http.request("POST", path, content=pieces(6), headers=headers)).status == 413
    fits = await api.http.request("POST", path, content=pieces(5), headers=headers)
    assert fits.status == 200, fits.text


async def test_two_uploads_of_one_name(api: Api) -> None:
    """Of uploads of one name at the same time exactly one succeeds, and its bytes stay."""
    bodies = [str(number).encode() for number in range(6)]
    answers = await asyncio.gather(
        *(api.call("POST", "/admin/scripts?filename=once", body) for body in bodies)
    )
    assert sorted(one.status for one in answers) == [200, *[403] * 5]
    winner = bodies[next(n for n, one in enumerate(answers) if one.status == 200)]
    assert (await api.call("GET", "/admin/scripts/once")).content == winner


GUARDED = b"""<workflow><rule match="$.services[?(not @.ip)]"><rule match="$[?(not @.temp.x or @.y)]">
<update-cf-stack template="A"><success><set path="temp.x">1</set></success></update-cf-stack>
<update-cf-stack template="B"><success><rule match="$"><set path="::ip">1</set></rule></success>
</update-cf-stack></rule></rule></workflow>"""


@pytest.mark.parametrize(
    ("kind", "name", "body", "said"),
    [
        ("workflows", "x.xml", b"<a>\n<b>\n</a>", "workflows/x.xml:3: not well-formed XML"),
        ("workflows", "x.xml", b'<!DOCTYPE a [<!ENTITY b "c">]>\n<a>&b;</a>', "document type"),
        (
            "workflows",
            "x.xml",
            b'<!DOCTYPE a SYSTEM "file:///etc/passwd">\n<a/>',
            "document type",
        ),
        ("workflows", "x.xml", b"<a>" * 300 + b"</a>" * 300, "nest deeper"),
        ("workflows", "x.xml", b"\xff\xfe\x00", "not well-formed XML"),
        ("workflows", "x.xml", b'<?xml version="1.0" encoding="klingon"?><a/>', "encoding"),
        ("workflows", "x.xml", b"<rules/>", "workflows/x.xml:1: the root element is 'workflow'"),
        (
            "workflows",
            "x.xml",
            b"<workflow>\n<selekt/></workflow>",
            "x.xml:2: there is no function",
        ),
        ("workflows", "x.xml", b'<workflow>\n<rule match="a"/></workflow>', "x.xml:2: a JSONPath"),
        ("workflows", "x.xml", GUARDED, "workflows/x.xml:3: the fragment is left out of the next"),
        ("heat", "x.template", b'{\n"a": }', "heat/x.template:2: not JSON"),
        ("heat", "x.template", b"[]", "must be an object"),
        ("heat", "x.template", b"[" * 10_000, "nested deeper"),
        ("agent", "x.template", b"a:\n- [}", "agent/x.template:2"),
        ("agent", "x.template", b'{"Scripts": ["../../x"]}', "leaves its directory"),
        ("ui", "x.yaml", b"- 1", "one mapping"),
        ("manifests", "x.y-manifest.yaml", b"a: 1", "full_service_name"),
    ],
)
async def test_what_cannot_be_parsed_is_said(
    api: Api, kind: str, name: str, body: bytes, said: str
) -> None:
    """An upload that cannot be parsed is stored with a warning that names the line; strict: 400."""
    strict = await api.call("POST", f"/admin/{kind}?filename={name}&strict=true", body)
    assert strict.status == 400
    assert said in strict.text
    assert (await api.call("GET", f"/admin/{kind}/{name}")).status == 404
    stored = await api.ok("POST", f"/admin/{kind}?filename={name}", body)
    assert stored["result"] == "success"
    assert said in stored["warnings"][0]


async def test_errors_are_json_or_plain_text(api: Api) -> None:
    """Errors are JSON for those who accept it, else plain text, and never name the machine."""
    json = await api.call("GET", "/admin/scripts/none", Accept="application/json")
    assert json.json()["error"]["code"] == 404
    text = await api.call("GET", "/admin/scripts/none", Accept="text/html, text/plain")
    assert text.headers["content-type"].startswith("text/plain")
    assert text.text == "There is neither a file nor a directory none among the scripts"


async def test_everything_needs_a_token(api: Api) -> None:
    """Without a token every path is 401, those that do not exist too."""
    for path in ("/client/ui", "/admin/services", "/admin/nothing/at/all", "/nowhere"):
        for user in ("", "mallory"):
            assert (await api.call("GET", path, user=user)).status == 401, path
    assert (await api.call("GET", "/nowhere")).status == 404
