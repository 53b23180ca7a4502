"""What an agent's answer means: good entries and errors (§10.2, §10.4; guest-agent.md §4, §5.5)."""

from __future__ import annotations

from typing import cast

from vetro.workflows.ports import AgentAnswer
from vetro.workflows.values import Json


def decode(answer: AgentAnswer, timestamp: str) -> tuple[list[Json], list[dict[str, Json]]]:
    """The good entries and the error entries of an answer."""
    if answer.failure is not None:
        return [], [_plan_error([None, answer.failure], "execution_plan", timestamp)]
    if answer.timed_out is not None:
        seconds = answer.timed_out
        shown = int(seconds) if float(seconds).is_integer() else seconds
        return [], [
            {
                "source": "timeout",
                "message": f"no answer from the agent within {shown} s",
                "timeout": shown,
                "timestamp": timestamp,
            }
        ]
    result = answer.result
    if isinstance(result, dict):
        known = cast("dict[str, Json]", result)
        if "ErrorCode" in known or str(known.get("FormatVersion", "")).startswith("2."):
            return _decode_v2(known)
        if "IsException" in known:
            return _decode_v1(known, timestamp)
    return [], [
        _plan_error(
            [None, "the agent's answer is not the result of a plan"], "execution_plan", timestamp
        )
    ]


def _decode_v1(result: dict[str, Json], timestamp: str) -> tuple[list[Json], list[dict[str, Json]]]:
    inner = result.get("Result")
    if result["IsException"]:
        return [], [_plan_error(inner, "execution_plan", timestamp)]
    good: list[Json] = []
    errors: list[dict[str, Json]] = []
    entries = cast("list[Json]", inner) if isinstance(inner, list) else []
    for entry in entries:
        if isinstance(entry, dict) and cast("dict[str, Json]", entry).get("IsException"):
            errors.append(
                _plan_error(cast("dict[str, Json]", entry).get("Result"), "command", timestamp)
            )
        else:
            good.append(entry)
    return good, errors


def _plan_error(items: Json, source: str, timestamp: str) -> dict[str, Json]:
    """One to four items, or a bare message."""
    listed = cast("list[Json]", items) if isinstance(items, list) else [None, items]
    four = [*listed[:4], *[None] * (4 - len(listed))]
    return {
        "source": source,
        "type": four[0],
        "message": four[1],
        "command": four[2],
        "details": four[3],
        "timestamp": timestamp,
    }


def _decode_v2(result: dict[str, Json]) -> tuple[list[Json], list[dict[str, Json]]]:
    code = result.get("ErrorCode") or 0
    body = result.get("Body")
    if not code:
        return [body], []
    details = dict(cast("dict[str, Json]", body)) if isinstance(body, dict) else {"Message": body}
    message, more = details.pop("Message", None), details.pop("AdditionalInfo", None)
    return [], [
        {
            "message": message,
            "details": more,
            "errorCode": code,
            "time": result.get("Time"),
            "extra": details or None,
        }
    ]
