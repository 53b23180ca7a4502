"""The interactive prompt without its terminal: lines in, text out, completions.

Input is a statement or a block of them as in a `Body` (an expression shows its value), or a command
that begins with a colon. `$` is the prompt's own object until `:use` puts another one there.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from vetro.muranopl import (
    MemoryPackage,
    MuranoError,
    MuranoObject,
    MuranoType,
    Runtime,
    VersionSpec,
    describe_class,
)
from vetro.yaql import MURANOPL, YaqlException, parse

if TYPE_CHECKING:
    from vetro.cli.offline.world import World
    from vetro.muranopl import ClassDescription, Session

_NAME = "vetro.prompt"
_CHAIN = re.compile(r"\$\w*(?:\.\w+)*\Z")
_WORD = re.compile(r"[\w.:$]*\Z")
_KEYED = re.compile(r"[^\s'\"(\[{:]+:(?:\s|\Z)")
"""`Throw: X` is a statement, though `Throw:X` would be a class of a namespace."""
_BLOCK = re.compile(r"(?:- )?(?:If|While|For|Repeat|Match|Switch|Parallel|Try|Do)\s*:")
_FORMS = ("new", "type", "typeinfo", "cast", "super", "coalesce", "switch", "let", "with")
_LONG = 4_000
"""Characters of a value that are shown."""


class Quit(Exception):
    """The person wants to leave."""


class Mistake(Exception):
    """A command was given wrongly."""


def render(value: object) -> str:
    """A value as people read it: JSON, with objects and classes named."""
    text = json.dumps(_plain(value), indent=2, ensure_ascii=False, default=str)
    if len(text) <= 100:
        text = json.dumps(_plain(value), ensure_ascii=False, default=str)
    return text if len(text) <= _LONG else f"{text[:_LONG]}… ({len(text)} characters)"


def _plain(value: object) -> Any:
    if isinstance(value, MuranoObject):
        return _Shown(f"<{value.type.name} {value.id}>")
    if isinstance(value, MuranoType):
        return _Shown(f"<class {value.name}>")
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {key if isinstance(key, str) else str(key): _plain(item) for key, item in items}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in cast("Sequence[object]", value)]
    return value


class _Shown(str):
    """An object's stand-in; a text for JSON."""


def needs_more(text: str) -> bool:
    """Whether a person has not finished: an open bracket, a key without its value, a block."""
    lines = text.split("\n")
    if len(lines) > 1:
        return bool(lines[-1].strip())
    depth, quote = 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
    stripped = text.rstrip()
    if _BLOCK.match(stripped):
        return True
    return depth > 0 or (stripped.endswith((":", "- |", ": |")) and not stripped.startswith(":"))


def _is_expression(text: str) -> bool:
    """Whether a line is an expression by itself; `5` and `[1, 2]` are values, not statements."""
    if "\n" in text or _KEYED.match(text):
        return False
    try:
        parse(text, MURANOPL)
    except YaqlException:
        return False
    return True


def _is_meant_as_one(text: str) -> bool:
    """Whether the best message for a wrong line is what is wrong with it as an expression."""
    return "\n" not in text and not re.search(r":(\s|\Z)", text) and text[:1] not in "-{[&*!%|>#"


class Prompt:
    """One conversation over a world of packages."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.runtime: Runtime = world.runtime
        self.variables: dict[str, Any] = {}
        self.scope = self._own_class()
        self.session: Session = world.session()
        self.own: MuranoObject = self._own_object()
        self.this: MuranoObject = self.own
        self.commands: dict[str, tuple[Callable[[str], str], str]] = {
            ":help": (self.help, "what one can type"),
            ":load": (self.load, "PATH: add a package (directory or zip)"),
            ":model": (self.model, "FILE: load an object model (JSON or YAML); its root is $root"),
            ":classes": (self.classes, "[TEXT]: the classes whose names contain the text"),
            ":show": (self.show, "EXPRESSION: an object's properties, or what a class offers"),
            ":use": (self.use, "[EXPRESSION]: make $ this object, as its own code would see it"),
            ":vars": (self.vars, "the variables"),
            ":objects": (self.objects, "[TEXT]: the objects of the session"),
            ":dump": (self.dump, "[EXPRESSION]: the model of an object, or the session's model"),
            ":functions": (self.functions, "[TEXT]: functions and methods of the language"),
            ":reset": (self.reset, "forget objects and variables"),
            ":quit": (self.quit, "leave (also Ctrl-D)"),
        }

    def _own_class(self) -> MuranoType:
        """A class in whose code the lines stand: it sees every package."""
        classes = [name for package in self.world.packages for name in package.class_files]
        default = classes[0].rpartition(".")[0] if classes else _NAME
        spaces = {"=": default or _NAME, "std": "io.murano", "sys": "io.murano.system"}
        spaces |= {"res": "io.murano.resources"}
        text = json.dumps({"Namespaces": spaces, "Name": f"{_NAME}.Prompt"})
        source = MemoryPackage(_NAME, {"prompt": text}, {f"{_NAME}.Prompt": "prompt"})
        self.package = self.runtime.add_package(source)
        for package in self.runtime.packages:
            self._sees(package.name)
        return self.package.find_type(f"{_NAME}.Prompt")

    def _sees(self, name: str) -> None:
        if name != _NAME:
            self.package.requirements[name] = VersionSpec("*")

    def _own_object(self) -> MuranoObject:
        return self.session.in_green_thread(lambda: self.session.new(f"{_NAME}.Prompt"))

    # -- input ---------------------------------------------------------------------------------

    def answer(self, text: str) -> str:
        """What to print. Raises Quit; MuranoError and Mistake are for the caller to show."""
        stripped = text.strip()
        word, _, rest = stripped.partition(" ")
        command = self.commands.get(word)
        if command is not None:
            return command[0](rest.strip())
        if re.match(r":[a-z]+(\s|\Z)", stripped):
            raise Mistake(f"there is no command {word}; :help lists them")
        if not stripped:
            return ""
        value = self._run(text)
        return "" if value is None else render(value)

    def _run(self, text: str) -> Any:
        scope = self.scope if self.this is self.own else self.this.type
        if _is_expression(text.strip()) or _is_meant_as_one(text.strip()):
            value = self.session.evaluate(text.strip(), self.this, **self.variables)
        else:
            value = self.session.execute(text.rstrip(), self.this, self.variables, scope=scope)
        self.variables["_"] = value
        return value

    def explain(self, error: MuranoError) -> str:
        """An error with its trace and hint."""
        text = error.format()
        hint = error.hint
        if hint is None and "#property#" in error.message and ".'" not in error.message:
            hint = "the name of a class with dots stands in quotes: new('org.acme.App')"
        return f"{text}\nHint: {hint}" if hint else text

    # -- commands ------------------------------------------------------------------------------

    def help(self, _rest: str) -> str:
        """The commands, and what else one can type."""
        width = max(len(name) for name in self.commands)
        lines = [f"  {name.ljust(width)}  {text}" for name, (_, text) in self.commands.items()]
        return "\n".join(
            [
                "An expression shows its value: $x + 1, new(Main).run(), [1, 2].select($ * 2)",
                "An assignment keeps it:        $x: 5",
                "A statement runs:              If: $x > 3   (end a block with an empty line)",
                "$_ is the last value, $ the object in use.",
                *lines,
            ]
        )

    def load(self, rest: str) -> str:
        """Add a package."""
        from vetro.packages import PackageError, open_package

        if not rest:
            raise Mistake(":load takes the path of a package")
        try:
            package = self.runtime.add_package(open_package(Path(rest).expanduser()))
        except PackageError as error:
            raise Mistake(f"{rest}: {error}") from error
        self.world.packages.append(package)
        self._sees(package.name)
        names = ", ".join(package.class_files)
        return f"{package.name} {package.version}: {names}"

    def model(self, rest: str) -> str:
        """Load a model."""
        from vetro.cli.offline.language import read_model

        if not rest:
            raise Mistake(":model takes the name of a file")
        try:
            text = Path(rest).expanduser().read_text(encoding="utf-8")
        except OSError as error:
            raise Mistake(f"{rest}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise Mistake(f"{rest}: not UTF-8 text") from error
        root = self.session.load(read_model(text, rest))
        self.variables["root"] = root
        return render(root)

    def classes(self, rest: str) -> str:
        """Class names."""
        return "\n".join(name for name in self._class_names() if rest.lower() in name.lower())

    def show(self, rest: str) -> str:
        """What an object holds, or what a class offers."""
        if not rest:
            raise Mistake(":show takes an expression or the name of a class")
        value: object = None
        if re.fullmatch(r"[\w.]+", rest):
            known = [n for n in self._class_names() if n == rest or n.endswith("." + rest)]
            if known:
                return class_text(describe_class(self.scope.find_type(known[0])))
            if rest[0].isalpha():
                raise Mistake(f"there is no class {rest}; :classes lists them")
        value = self._run(rest)
        if isinstance(value, MuranoType):
            return class_text(describe_class(value))
        if not isinstance(value, MuranoObject):
            return render(value)
        lines = [f"{value.type.name} {value.id}"]
        if value.owner is not None:
            lines.append(f"  owner: {render(value.owner)}")
        for name in value.type.property_names():
            held = value.get(name, _UNSET)
            lines.append(f"  {name}: {'(no value)' if held is _UNSET else render(held)}")
        return "\n".join(lines)

    def use(self, rest: str) -> str:
        """Change what `$` is."""
        if not rest:
            self.this = self.own
            return "$ is the prompt's own object"
        value = self._run(rest)
        if not isinstance(value, MuranoObject):
            raise Mistake(f"{render(value)} is no object")
        self.this = value
        return f"$ is {render(value)}"

    def vars(self, _rest: str) -> str:
        """Variables and their values."""
        kept = {name: value for name, value in self.variables.items() if name != "_"}
        return "\n".join(f"${name}: {render(value)}" for name, value in kept.items())

    def objects(self, rest: str) -> str:
        """The session's objects."""
        found = [item for item in self.session.objects() if item is not self.own]
        lines = [f"{item.id}  {item.type.name}  {item.name or ''}".rstrip() for item in found]
        return "\n".join(line for line in lines if rest.lower() in line.lower())

    def dump(self, rest: str) -> str:
        """A model."""
        if not rest:
            return json.dumps(self.session.dump()["Objects"], indent=2, default=str)
        value = self._run(rest)
        return json.dumps(self.session.serialize(value), indent=2, default=str)

    def functions(self, rest: str) -> str:
        """Names that the language itself has."""
        library = self.runtime.library_for(self.package)
        functions = [f"{name}()" for name in library.names(False) if rest.lower() in name.lower()]
        methods = [f".{name}()" for name in library.names(True) if rest.lower() in name.lower()]
        return "  ".join([*functions, *methods])

    def reset(self, _rest: str) -> str:
        """Begin again with the same packages."""
        self.close()
        self.variables.clear()
        self.session = self.world.session()
        self.this = self.own = self._own_object()
        return ""

    def quit(self, _rest: str) -> str:
        """Leave."""
        raise Quit

    def close(self) -> None:
        """End the session; objects are destroyed."""
        with contextlib.suppress(
            MuranoError
        ):  # errors of clean-up code do not matter to a user who leaves
            self.session.close()

    # -- completion ----------------------------------------------------------------------------

    def _class_names(self) -> list[str]:
        return [
            name
            for package in self.runtime.packages
            if package.name != _NAME
            for name in package.class_files
        ]

    def complete(self, line: str) -> list[str]:
        """What the last word of a line may become, each as the whole word."""
        if re.fullmatch(r":[a-z]*", line):
            return [name for name in self.commands if name.startswith(line)]
        if line.startswith((":load ", ":model ")):
            return _paths(line.partition(" ")[2])
        match = _WORD.search(line)
        word = match.group() if match else ""
        target, dot, start = word.rpartition(".")
        if dot and _CHAIN.match(target):
            return [f"{target}.{name}" for name in self._members(target) if name.startswith(start)]
        if word.startswith("$"):
            return [f"${name}" for name in self.variables if f"${name}".startswith(word)]
        if line.startswith((":show ", ":classes ", ":use ")):
            return [name for name in self._class_names() if name.startswith(word)]
        known = [f"{name}(" for name in self.runtime.library_for(self.package).names(False)]
        known += [name.rpartition(".")[2] for name in self._class_names()] + self._class_names()
        known += [f"{name}(" for name in _FORMS]
        return sorted({name for name in known if word and name.startswith(word)})

    def _members(self, chain: str) -> list[str]:
        """Members of what a chain of properties gives; nothing is called."""
        parts = chain.removeprefix("$").split(".")
        value: object = self.variables.get(parts[0]) if parts[0] not in ("", "this") else self.this
        for name in parts[1:]:
            if isinstance(value, MuranoObject):
                value = value.get(name)
            elif isinstance(value, Mapping):
                value = cast("Mapping[object, object]", value).get(name)
            else:
                value = None
        if isinstance(value, MuranoObject):
            methods = [f"{name}(" for name in value.type.method_names() if name[0] not in "._"]
            return sorted([*value.type.property_names(), *methods])
        if isinstance(value, Mapping):
            return sorted(str(key) for key in cast("Mapping[object, object]", value))
        if value is None:
            return []
        return [f"{name}(" for name in self.runtime.library_for(self.package).names(True)]


_UNSET: object = object()


def _paths(start: str) -> list[str]:
    path = Path(start).expanduser()
    folder, name = (path, "") if start.endswith("/") or not start else (path.parent, path.name)
    try:
        found = sorted(item for item in folder.iterdir() if item.name.startswith(name))
    except OSError:
        return []
    prefix = start[: len(start) - len(name)] if name else start
    return [f"{prefix}{item.name}{'/' if item.is_dir() else ''}" for item in found]


def class_text(found: ClassDescription) -> str:
    """A class as text: its line of descent, properties and methods."""
    lines = [f"{found.name} ({found.usage}) of {found.package} {found.version}"]
    if found.texts.text:
        lines += [f"  {line}" for line in found.texts.text.splitlines()]
    if found.ancestors:
        lines.append(f"  extends {', '.join(found.ancestors)}")
    for item in found.properties:
        default = "" if item.default is None else f" = {item.default}"
        lines.append(f"  {item.name}: {item.contract}{default} ({item.usage})")
    for method in found.methods:
        action = ", action" if method.is_action else ""
        lines.append(f"  {method.signature} ({method.usage}{action})")
    if found.inherited_properties:
        lines.append(f"  inherited: {', '.join(found.inherited_properties)}")
    if found.inherited_methods:
        lines.append(f"  inherited: {', '.join(f'{name}()' for name in found.inherited_methods)}")
    return "\n".join(lines)
