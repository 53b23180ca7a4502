"""How large the body of a call may be (catalog-api.md §11), unless operators say otherwise."""

from typing import Any

import pytest

Api = Any  # the fixture of conftest.py
MIB = 2**20
CALLS = [
    ("POST", "/environments", 8),
    ("PUT", "/environments/{e}", 1),
    ("POST", "/environments/{e}/services", 8),
    ("PUT", "/environments/{e}/services", 8),
    ("PATCH", "/environments/{e}/model/", 8),
    ("POST", "/templates", 8),
    ("POST", "/templates/{t}/services", 8),
    ("PUT", "/templates/{t}", 1),
    ("POST", "/catalog/categories", 1),
    ("PATCH", "/catalog/packages/{p}", 1),
]
TYPES = {
    "/environments/{e}/model/": "application/env-model-json-patch",
    "/catalog/packages/{p}": "application/murano-packages-json-patch",
}


@pytest.mark.parametrize(("method", "path", "mebibytes"), CALLS)
async def test_bodies_are_read_up_to_their_limit(
    api: Api, package_zip: Any, method: str, path: str, mebibytes: int
) -> None:
    """One byte more is 413 with the limit; at the limit, what is wrong with the content is said."""
    environment, session = await api.opened()
    template = (await api.call("POST", "/templates", {"name": "t"})).json()["id"]
    package = (await api.upload(package_zip(), user="root")).json()["id"]
    where = path.format(e=environment, t=template, p=package)
    headers = {
        "X-Auth-Token": "root",
        "X-Configuration-Session": session,
        "Content-Type": TYPES.get(path, "application/json"),
    }
    for size, status in ((mebibytes * MIB, 400), (mebibytes * MIB + 1, 413)):
        body = b'["' + b"x" * (size - 4) + b'"]'
        answer = await api.http.request(method, f"/v1{where}", content=body, headers=headers)
        assert answer.status == status, answer.text[:300]
        assert ("larger than" in answer.text) is (status == 413)


@pytest.mark.parametrize(("mebibytes", "status"), [(5, 413), (4.9, 400)])
async def test_an_upload_may_be_a_mebibyte_more_than_a_package(
    api: Api, mebibytes: float, status: int
) -> None:
    """Beyond the package's own limit a smaller body is 400, as the released service had it."""
    answer = await api.upload(b"x" * int((mebibytes + 1) * MIB))
    assert answer.status == status
    assert ("The limit is 5 MiB" in answer.text) is (status == 400)
