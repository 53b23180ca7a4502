"""What forms themselves say, in other languages than English (dashboard-and-cli.md, "Beyond upstream").

Texts of authors have translations of their own (``label.de``). Those of this room are English where they
are made, as errors of the API are; `in_language` is for where people read them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

#: English to German; ``{}`` stands for what is said, in the same order.
_GERMAN = {
    "Step {}": "Schritt {}",
    "Optional": "Optional",
    "Stays as it is": "Bleibt, wie es ist",
    "Select Application": "Anwendung wählen",
    "Select Image": "Image wählen",
    "No images available": "Es gibt keine Images",
    "Not in domain": "In keiner Domäne",
    "(none)": "(keine)",
    "Auto": "Automatisch",
    "One a line": "Eins je Zeile",
    "One entry a line: name=value": "Ein Eintrag je Zeile: name=wert",
    "One entry a line: name=a, b, c": "Ein Eintrag je Zeile: name=a, b, c",
    "There is no component and no package with a class {}": "Es gibt keine Komponente und kein Paket mit"
    " einer Klasse {}",
    "Application name": "Name der Anwendung",
    "The name of the application in its environment": "Der Name der Anwendung in ihrer Umgebung",
    "Use only letters, digits, - and _": "Nur Buchstaben, Ziffern, - und _",
    "Continue application adding": "Weitere Anwendungen hinzufügen",
    "Stay in the catalog and add further applications": "Im Katalog bleiben und weitere Anwendungen"
    " hinzufügen",
    "This field is required": "Dieses Feld ist erforderlich",
    "Enter text": "Geben Sie Text ein",
    "Enter a whole number": "Geben Sie eine ganze Zahl ein",
    "Choose yes or no": "Wählen Sie ja oder nein",
    "Enter an IPv4 address, such as 10.0.0.5": "Geben Sie eine IPv4-Adresse ein, zum Beispiel 10.0.0.5",
    "{} is not a name for a database: begin with a letter or _, then use letters, digits, _ $ # @": "{} ist"
    " kein Name für eine Datenbank: erst ein Buchstabe oder _, dann Buchstaben, Ziffern, _ $ # @",
    "Enter the rows of the table as JSON": "Geben Sie die Zeilen der Tabelle als JSON ein",
    "A table is a list of at most {} rows": "Eine Tabelle hat höchstens {} Zeilen",
    "Each row of the table is a map of its columns": "Jede Zeile der Tabelle ordnet ihren Spalten Werte zu",
    "The table has no column {}": "Die Tabelle hat keine Spalte {}",
    "Choose a network": "Wählen Sie ein Netz",
    "The network {} is not offered here": "Das Netz {} wird hier nicht angeboten",
    "{} cannot be chosen now": "{} kann jetzt nicht gewählt werden",
    "Choose one of the values": "Wählen Sie einen der Werte",
    "{} is not one of the values to choose; {}": "{} ist keiner der Werte zur Auswahl; {}",
    "There is no {} {}; {}": "Nicht gefunden: {} {}; {}",
    "did you mean {}?": "meinten Sie {}?",
    "there are: {}": "es gibt: {}",
    "there are none yet": "es gibt noch keine",
    "{}s don't match": "{}: die beiden Eingaben sind verschieden",
    "Enter at least {} rows": "Geben Sie mindestens {} Zeilen ein",
    "Enter at most {} rows": "Geben Sie höchstens {} Zeilen ein",
    "Enter at least {} lines": "Geben Sie mindestens {} Zeilen ein",
    "Enter at most {} lines": "Geben Sie höchstens {} Zeilen ein",
    "Choose at least {} components": "Wählen Sie mindestens {} Komponenten",
    "Choose at most {} components": "Wählen Sie höchstens {} Komponenten",
    "Choose at most {} rows as {}": "Wählen Sie höchstens {} Zeilen als {}",
    "Choose one row as {}": "Wählen Sie eine Zeile als {}",
    "Enter a number of at least {}": "Geben Sie eine Zahl ab {} ein",
    "Enter a number of at most {}": "Geben Sie eine Zahl bis {} ein",
    "Enter at least {} characters": "Geben Sie mindestens {} Zeichen ein",
    "Enter at most {} characters": "Geben Sie höchstens {} Zeichen ein",
    "Enter a value that matches {}": "Geben Sie einen Wert ein, auf den {} passt",
    "The value does not satisfy {}": "Der Wert erfüllt nicht {}",
    "Validation Error occurred": "Die Eingaben passen nicht zusammen",
    "Write each line as name=value": "Schreiben Sie jede Zeile als name=wert",
    "Write each line as name=number": "Schreiben Sie jede Zeile als name=zahl",
    "Enter one whole number a line": "Geben Sie eine ganze Zahl je Zeile ein",
    "Enter true or false in each line": "Geben Sie in jeder Zeile true oder false ein",
    "Each line is one of: {}": "Jede Zeile ist eins von: {}",
    "{}: enter a whole number": "{}: geben Sie eine ganze Zahl ein",
    "{}: enter something in each row": "{}: geben Sie in jeder Zeile etwas ein",
    "{}: enter one of: {}": "{}: geben Sie eins ein von: {}",
    "Enter 7 to 255 characters": "Geben Sie 7 bis 255 Zeichen ein",
    "Use at least one digit": "Mindestens eine Ziffer",
    "Use at least one lower-case letter": "Mindestens ein Kleinbuchstabe",
    "Use at least one upper-case letter": "Mindestens ein Großbuchstabe",
    "Use at least one special character: {}": "Mindestens ein Sonderzeichen: {}",
}
PHRASES: Mapping[str, Mapping[str, str]] = {"de": _GERMAN}
"""By language, the English texts and their translations."""
_PARTS = {
    language: [
        (re.compile("(.+?)".join(map(re.escape, text.split("{}"))), re.DOTALL), there)
        for text, there in phrases.items()
        if "{}" in text
    ]
    for language, phrases in PHRASES.items()
}
_LONGEST = 2000
"""Characters of a text that is looked for among those with parts."""


def in_language(text: str, language: str) -> str:
    """A text of forms in a language (``de``, ``de-AT``); as it is, where it has no translation."""
    language = language.lower().partition("-")[0]
    exact = PHRASES.get(language, {}).get(text)
    if exact is not None or len(text) > _LONGEST:
        return exact or text
    for pattern, there in _PARTS.get(language, ()):
        found = pattern.fullmatch(text)
        if found:
            *said, last = found.groups()
            # What follows a semicolon is a phrase of its own: a hint.
            hint = in_language(last, language) if there.endswith("; {}") else last
            return there.format(*said, hint)
    return text


def translations(attribute: str, text: str) -> dict[str, str]:
    """An attribute of a field with its translations, as an author would write them."""
    return {attribute: text} | {
        f"{attribute}.{language}": phrases[text]
        for language, phrases in PHRASES.items()
        if text in phrases
    }


def all_in_language(errors: Mapping[str, list[str]], language: str) -> dict[str, list[str]]:
    """Errors by field, in a language."""
    return {name: [in_language(one, language) for one in texts] for name, texts in errors.items()}
