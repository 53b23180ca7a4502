"""Package lint: everything that is wrong at once (packages-and-forms.md A8)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vetro.muranopl import MuranoError, Runtime
from vetro.packages.errors import PackageError
from vetro.packages.package import Package, open_package, syntax


@dataclass(frozen=True)
class Finding:
    """One thing to mend; ``file`` is relative to the package."""

    level: Literal["error", "warning"]
    code: str
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None


def check(source: Path | bytes, runtime: Runtime | None = None) -> list[Finding]:
    """All findings of a package: format errors, then each class, then advice.

    ``runtime`` holds what the package builds on (the core library); without one only the classes
    that the language itself has are there.
    """
    try:
        package = open_package(source)
    except PackageError as error:
        return [_finding(error)]
    return [*_classes(package, runtime or Runtime()), *_form(package), *_advice(package)]


def _finding(error: PackageError) -> Finding:
    return Finding("error", error.code, error.message, error.file, error.line, error.column)


def _classes(package: Package, runtime: Runtime) -> list[Finding]:
    findings: list[Finding] = []
    broken = False
    for file in dict.fromkeys(package.classes.values()):
        try:
            syntax(package.members.read(f"Classes/{file}"), f"Classes/{file}")
        except PackageError as error:
            broken = True
            findings.append(_finding(error))
    if broken:
        return findings
    runtime.add_package(package)
    for name in package.classes:
        try:
            runtime.type(name)
        except MuranoError as error:
            place = error.position
            findings.append(
                Finding(
                    "error",
                    "E050",
                    f"{name}: {error.message}",
                    f"Classes/{package.classes[name]}",
                    place.line if place else None,
                    place.column if place else None,
                )
            )
    return findings


def _form(package: Package) -> list[Finding]:
    text = package.ui
    file = f"UI/{package.manifest.ui}"
    if text is None:
        if package.manifest.type == "Application":
            return [Finding("warning", "W030", "an Application has no form", file)]
        return []
    from vetro.packages.forms import FormError, load_form

    try:
        load_form(text, package_name=package.full_name, title=package.manifest.name)
    except FormError as error:
        return [Finding("error", "E060", str(error), file, error.line, error.column)]
    return []


def _advice(package: Package) -> list[Finding]:
    manifest = package.manifest
    findings = [
        Finding("warning", "W011", f"unknown key {key}", "manifest.yaml")
        for key in manifest.unknown_keys
    ]
    if len(manifest.name) > 80:
        findings.append(
            Finding("error", "E027", "Name is longer than 80 characters", "manifest.yaml")
        )
    if package.logo is None and manifest.type == "Application":
        findings.append(Finding("warning", "W031", "an Application has no logo", manifest.logo))
    if not manifest.description:
        findings.append(Finding("warning", "W032", "no Description", "manifest.yaml"))
    listed = {f"Classes/{file}" for file in manifest.classes.values()}
    findings.extend(
        Finding("warning", "W033", "not named in the manifest's Classes", name)
        for name in package.members.names()
        if name.startswith("Classes/") and name.endswith((".yaml", ".yml")) and name not in listed
    )
    return findings
