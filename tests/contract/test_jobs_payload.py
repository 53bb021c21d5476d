"""What a payload may be: it comes back as it was. Behaviours B6.11 to B6.16."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from bson import Decimal128, ObjectId

from fairlane import AsyncJobQueue, Job

Claimed = Callable[..., Awaitable[Job]]
Stored = Callable[..., Awaitable[list[dict[str, Any]]]]

SCRIPTS = {"emoji": "🦊🚀", "cjk": "東京都", "arabic": "مرحبا"}


async def returned(queue: AsyncJobQueue, claimed: Claimed, payload: Any) -> Any:
    await queue.enqueue(payload, "t")
    return (await claimed("t")).payload


async def test_empty_payload_stays_an_empty_map(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """B6.11."""
    assert await returned(queue, claimed, {}) == {}


async def test_nesting_is_preserved(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """B6.12."""
    payload = await returned(queue, claimed, {"a": {"b": {"c": {"d": "leaf"}}}})
    assert payload["a"]["b"]["c"]["d"] == "leaf"


async def test_all_scripts_are_preserved(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """B6.13."""
    assert await returned(queue, claimed, SCRIPTS) == SCRIPTS


async def test_arrays_are_preserved(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """B6.14."""
    payload = {"tags": ["a", "b", "c"], "scores": [10, 20, 30]}
    assert await returned(queue, claimed, payload) == payload


async def test_long_string_is_preserved(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """B6.15."""
    text = "x" * 51_200
    assert await returned(queue, claimed, {"text": text}) == {"text": text}


async def test_numbers_and_truths_keep_their_types(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """B6.16."""
    payload = await returned(queue, claimed, {"int": 42, "float": 3.14, "bool": True})
    assert [(type(value), value) for value in payload.values()] == [
        (int, 42),
        (float, 3.14),
        (bool, True),
    ]


@pytest.mark.parametrize(
    "payload",
    [
        *(None, "text", 5, [1, [2]], b"bytes", datetime(2030, 1, 2, 3, tzinfo=UTC)),
        *(UUID(int=7), ObjectId("0" * 24), Decimal128("1.10"), {"$set": {"a.b": "$x"}}),
    ],
    ids=repr,
)
async def test_payload_may_be_any_bson_value(
    queue: AsyncJobQueue, claimed: Claimed, payload: Any
) -> None:
    """One that looks like an operator is stored as it is."""
    assert await returned(queue, claimed, payload) == payload
    assert [job.payload for job in await replaced(queue, payload)] == [payload]


async def replaced(queue: AsyncJobQueue, payload: Any) -> list[Job]:
    await queue.clear()
    await queue.enqueue("old", "t", unique_key="k")
    await queue.enqueue(payload, "t", unique_key="k", on_duplicate="replace")
    await queue.enqueue("other", "u")
    return await queue.claim_many(5, "t")


async def test_payload_is_a_copy(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """What happens to it after the call began does not matter."""
    payload = {"n": [1]}
    await queue.enqueue(payload, "t")
    payload["n"].append(2)
    assert (await claimed("t")).payload == {"n": [1]}


@pytest.mark.parametrize("result", [{"rows": 3}, 0, "", [], False, {"$inc": 1}], ids=repr)
async def test_result_is_kept_with_the_job(
    queue: AsyncJobQueue, claimed: Claimed, result: Any
) -> None:
    await queue.enqueue(1, "t")
    job = await claimed("t")
    assert await queue.ack(job, result)
    ended = await queue.get(job.id)
    assert ended is not None
    assert (ended.state, ended.result) == ("done", result)


async def test_job_tells_all_about_itself(
    queue: AsyncJobQueue, claimed: Claimed, clock: Any, stored: Stored
) -> None:
    """What is looked at has no token: it is nobody's lease."""
    await queue.enqueue(1, "t", priority=-7, max_attempts=9, unique_key="k")
    job = await claimed("t", worker_id="w", lease=20)
    at = datetime.fromtimestamp(clock(), UTC)
    assert (job.type, job.priority, job.max_attempts, job.unique_key) == ("t", -7, 9, "k")
    assert (job.created_at, job.locked_at, job.locked_by) == (at, at, "w")
    assert (job.available_at, job.epoch, job.done_at) == (clock() + 20, 1, None)
    assert job.token is not None
    assert job.token.startswith("w:")
    seen = await queue.get(job.id)
    assert seen is not None
    assert (seen.state, seen.token, seen.attempts) == ("processing", None, 1)
    (document,) = await stored()
    assert document["kind"] == "event"
    assert "expires_at" not in document


async def test_worker_is_named_after_host_and_process(
    queue: AsyncJobQueue, claimed: Claimed
) -> None:
    await queue.enqueue(1, "t")
    job = await claimed("t")
    assert job.token is not None
    assert job.token.rpartition(":")[0] == job.locked_by != ""
