"""`rule` and `workflow` (§6)."""

from __future__ import annotations

from typing import cast

from vetro.workflows.content import BLOCKS, Compile, Compiler, placed, text_argument
from vetro.workflows.errors import WorkflowSyntaxError
from vetro.workflows.functions import integer
from vetro.workflows.queries import compile_query, join_query
from vetro.workflows.running import Closure, Frame
from vetro.workflows.scopes import RuleMark, Scope, rule_key
from vetro.workflows.source import Element
from vetro.workflows.values import Json, text


def _children(compiler: Compiler, element: Element) -> list[tuple[Closure, bool]]:
    """The calls in a body, each with whether it is a rule."""
    return [
        (compiler.call(child), child.tag == "rule")
        for child in element.elements()
        if child.tag != "parameter" and child.tag not in BLOCKS
    ]


def workflow(compiler: Compiler, element: Element) -> Closure:
    """`workflow`: run the children; after a rule that changed something, ``True`` at once (§6.3)."""
    children = _children(compiler, element)

    def call(frame: Frame, scope: Scope) -> Json:
        own = Scope(scope)
        for child, is_rule in children:
            child(frame, own)
            if is_rule and frame.run.changed:
                return True
        return False

    return call


def rule(compiler: Compiler, element: Element) -> Closure:
    """`rule`: run the body with the cursor at each match (§6.1)."""
    arguments = compiler.arguments(element, joined={"match": join_query})
    arguments.require("match")
    constant = arguments.constant("match")
    fixed = None if constant is None else compile_query(constant)
    if constant is not None and not constant.strip():
        raise WorkflowSyntaxError("rule: the argument 'match' is empty", element.place)
    number = compiler.next_rule()
    children = _children(compiler, element)
    empty = compiler.block(element, "empty")
    empty_block = None if empty is None else placed(empty, element.place)
    fixed_id = arguments.constant("id") or (None if "id" in arguments else f"#{number}")
    has_parameters = bool(arguments.parameters)
    description = arguments.constant("desc") or constant or ""
    fixed_limit = (
        None
        if "limit" in arguments.parameters
        else integer(arguments.constants.get("limit") or 0, "rule: 'limit'")
    )
    marks: dict[RuleMark | None, RuleMark] = {}

    def mark_of(parent: RuleMark | None, values: dict[str, Json]) -> RuleMark:
        """The mark of this rule below another one; kept, for it is the same for all objects."""
        own_id = fixed_id if fixed_id is not None else text(values["id"])
        known = marks.get(parent) if fixed_id is not None else None
        if known is None:
            full = rule_key(own_id if parent is None else f"{parent.id}/{own_id}")
            known = RuleMark(full, element.place, description, parent)
            if fixed_id is not None:
                marks[parent] = known
        return known

    def call(frame: Frame, scope: Scope) -> Json:
        own = Scope(scope)
        run = frame.run
        task = run.task
        values = arguments.evaluate(frame, own) if has_parameters else {}
        query = fixed or compile_query(text_argument(values, "match", "rule"))
        mark = mark_of(frame.rule, values)
        matches = query.match(task.model, frame.cursor)
        if not matches:
            if empty_block is not None:
                empty_block(Frame(run, frame.cursor, mark, frame.object_id, frame.anonymous), own)
            return
        limit = fixed_limit
        if limit is None:
            limit = integer(values.get("limit") or 0, "rule: 'limit'")
        mutes = run.mutes
        is_muted, rule_id, trace = mutes.is_muted, mark.id, task.trace
        for cursor, value in matches[:limit] if limit > 0 else matches:
            object_id, anonymous = _object_id(frame, value)
            if object_id is not None:
                if is_muted(rule_id, object_id):
                    continue
                mutes.mute_for_round(rule_id, object_id)
            inner = Frame(run, cursor, mark, object_id, anonymous)
            if trace is not None:
                trace.fired(task.round, mark, cursor, object_id)
            for child, is_rule in children:
                child(inner, own)
                if is_rule and run.changed:
                    break

    return call


def _object_id(frame: Frame, value: Json) -> tuple[str | None, bool]:
    """The chain of ids of a match; ``None`` if it or a matched object around it has none."""
    if frame.anonymous or not isinstance(value, dict):
        return None, True
    own = cast("dict[str, Json]", value).get("id")
    if own is None or isinstance(own, (dict, list)):
        return None, True
    own = own if isinstance(own, str) else text(own)
    return (own if frame.object_id is None else f"{frame.object_id}/{own}"), False


RULES: dict[str, Compile] = {"rule": rule, "workflow": workflow}
