"""Hostile documents as bodies of every call of the catalog API that takes one."""

import io
import zipfile
from typing import Any

Api = Any  # the fixture of conftest.py
PATCHES = {
    "/environments/ENV/model": "application/env-model-json-patch",
    "/catalog/packages/none": "application/murano-packages-json-patch",
}


async def test_no_body_breaks_a_call(api: Api, hostile_documents: dict[str, bytes]) -> None:
    """Each body is refused with 400 or accepted as its value; never 5xx."""
    environment, session = await api.opened("e")
    calls = [
        ("POST", "/environments"),
        ("PUT", "/environments/ENV"),
        ("POST", "/environments/ENV/services"),
        ("PUT", "/environments/ENV/services"),
        ("PATCH", "/environments/ENV/model"),
        ("POST", "/environments/ENV/upgrades/preview"),
        ("POST", "/environments/ENV/deployments/none/cancel"),
        ("POST", "/environments/ENV/actions/none"),
        ("POST", "/actions"),
        ("POST", "/catalog/categories"),
        ("PATCH", "/catalog/packages/none"),
    ]
    for method, path in calls:
        headers = {
            "X-Auth-Token": "root" if "categories" in path else "ann",
            "X-Configuration-Session": session,
            "Content-Type": PATCHES.get(path, "application/json"),
        }
        for what, content in hostile_documents.items():
            answer = await api.http.request(
                method, f"/v1{path.replace('ENV', environment)}", content=content, headers=headers
            )
            assert answer.status < 500, (method, path, what, answer.text)


async def test_no_file_of_a_package_breaks_an_upload(
    api: Api, package_zip: Any, hostile_documents: dict[str, bytes]
) -> None:
    """A manifest, a class or a form of any content is refused with 400 or accepted."""
    good = package_zip()
    for file in ("manifest.yaml", "Classes/App.yaml", "UI/ui.yaml"):
        for what, content in hostile_documents.items():
            buffer = io.BytesIO()
            with zipfile.ZipFile(io.BytesIO(good)) as old, zipfile.ZipFile(buffer, "w") as new:
                for name in old.namelist():
                    new.writestr(name, content if name == file else old.read(name))
            answer = await api.upload(buffer.getvalue())
            assert answer.status in (200, 400, 409), (file, what, answer.text)
