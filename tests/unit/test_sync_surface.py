"""The blocking facades say what the asynchronous classes say, and refuse what they cannot serve."""

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from fairlane import (
    AsyncJobQueue,
    AsyncMongoTransport,
    ConfigurationError,
    JobQueue,
    MongoTransport,
)


def _is_verb(value: object) -> bool:
    return inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value)


VERBS = [
    name
    for name, value in inspect.getmembers(AsyncMongoTransport)
    if not name.startswith("_") and _is_verb(value)
]
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "publish": ("g", 1),
    "publish_many": ([("g", 1)],),
    "claim": ("w1",),
    "claim_many": ("w1", 2),
    "ack": (None,),
    "ack_many": ([],),
    "nack": (None,),
    "nack_many": ([],),
    "release_many": ([],),
    "extend": (None,),
    "extend_many": ([],),
    "release": (None,),
    "dead_letter": (None, "why"),
    "peek": ("g",),
    "resume": ("g",),
    "repartition": (4,),
}


def parameters(method: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(method).parameters.values())


def returned(method: Callable[..., Any]) -> str:
    return str(inspect.signature(method).return_annotation).replace("AsyncIterator", "Iterator")


def test_the_verbs_are_all_found() -> None:
    assert {"publish", "claim", "ack", "dead_letters", "close"} < set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_verb_takes_what_the_asynchronous_one_takes(verb: str) -> None:
    blocking = getattr(MongoTransport, verb)
    assert parameters(blocking) == parameters(getattr(AsyncMongoTransport, verb))


@pytest.mark.parametrize("verb", VERBS)
def test_verb_returns_what_the_asynchronous_one_returns(verb: str) -> None:
    blocking = getattr(MongoTransport, verb)
    assert returned(blocking) == returned(getattr(AsyncMongoTransport, verb))


@pytest.mark.parametrize("verb", VERBS)
def test_verb_blocks(verb: str) -> None:
    assert not _is_verb(getattr(MongoTransport, verb))


def test_from_url_takes_what_the_asynchronous_one_takes() -> None:
    assert parameters(MongoTransport.from_url) == parameters(AsyncMongoTransport.from_url)


def test_nothing_public_is_there_beyond_the_verbs() -> None:
    names = {name for name in dir(MongoTransport) if not name.startswith("_")}
    assert names == {*VERBS, "from_url", "partitions", "strategy"}


@pytest.mark.parametrize("name", [*VERBS, "from_url", "strategy"])
def test_everything_public_has_a_docstring(name: str) -> None:
    assert getattr(MongoTransport, name).__doc__


@pytest.mark.parametrize("verb", VERBS)
async def test_verb_refuses_a_running_loop(verb: str) -> None:
    transport: MongoTransport[Any] = MongoTransport(lambda: pytest.fail("was opened"))
    with pytest.raises(ConfigurationError, match="AsyncMongoTransport and `await`"):
        getattr(transport, verb)(*ARGUMENTS.get(verb, ()))


async def test_strategy_refuses_a_running_loop() -> None:
    transport: MongoTransport[Any] = MongoTransport(lambda: pytest.fail("was opened"))
    with pytest.raises(ConfigurationError, match="AsyncMongoTransport and `await`"):
        _ = transport.strategy


async def test_from_url_refuses_a_running_loop() -> None:
    with pytest.raises(ConfigurationError, match="AsyncMongoTransport and `await`"):
        MongoTransport.from_url("mongodb://localhost")


async def test_with_refuses_a_running_loop() -> None:
    transport: MongoTransport[Any] = MongoTransport(lambda: pytest.fail("was opened"))
    with pytest.raises(ConfigurationError), transport:
        pass


@pytest.mark.parametrize(
    "given",
    [
        AsyncMongoTransport(AsyncMongoClient(connect=False)),
        AsyncMongoClient(connect=False),
        AsyncMongoTransport.from_url("mongodb://localhost"),
        "mongodb://localhost",
        None,
    ],
    ids=["a transport", "a client", "an opening", "a url", "nothing"],
)
def test_what_is_no_factory_is_refused_with_what_to_give(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"function that opens.*MongoTransport\.from_url"):
        MongoTransport(given)


@pytest.mark.parametrize(
    ("more", "options"),
    [(("app",), {}), ((), {"db_name": "app"}), (("app",), {"driver": "pymongo"})],
)
@pytest.mark.parametrize("first", ["mongodb://localhost", AsyncMongoClient(connect=False), dict])
def test_arguments_of_from_url_are_refused_with_where_to_give_them(
    first: Any, more: Any, options: Any
) -> None:
    with pytest.raises(ConfigurationError, match=r"MongoTransport\.from_url\(url, db_name\)"):
        MongoTransport(first, *more, **options)


SECRET_URL = "mongodb://user:secret@localhost/"


@pytest.mark.parametrize("given", [SECRET_URL, AsyncMongoClient(SECRET_URL, connect=False)])
def test_refusal_names_the_type_of_what_was_given_and_shows_no_password(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=type(given).__name__) as refusal:
        MongoTransport(given)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("made", [SECRET_URL, nullcontext(SECRET_URL)])
def test_refusal_of_what_a_factory_makes_names_the_type_and_shows_no_password(made: Any) -> None:
    with pytest.raises(ConfigurationError, match="not str") as refusal:
        MongoTransport(lambda: made).stats()
    assert "secret" not in str(refusal.value)


JOB_VERBS = [
    name
    for name, value in inspect.getmembers(AsyncJobQueue)
    if not name.startswith("_") and _is_verb(value)
]
JOB_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "enqueue": (1, "t"),
    "enqueue_many": ([1], "t"),
    "claim_many": (2,),
    "ack": (None,),
    "ack_many": ([],),
    "nack": (None,),
    "fail": (None,),
    "release": (None,),
    "release_many": ([],),
    "extend": (None,),
    "extend_many": ([],),
    "get": ("id",),
    "cancel": ("id",),
    "force_ack": ("id",),
    "force_fail": ("id",),
    "force_release": ("id",),
    "listen": (print, "t"),
    "remove_recurring": ("name",),
    "repartition": (4,),
}


def test_the_verbs_of_the_job_queue_are_all_found() -> None:
    assert {"enqueue", "claim", "dequeue", "ack", "reclaim_stale", "listen"} < set(JOB_VERBS)


@pytest.mark.parametrize("verb", JOB_VERBS)
def test_verb_of_the_job_queue_takes_and_returns_what_the_asynchronous_one_does(verb: str) -> None:
    blocking, asynchronous = getattr(JobQueue, verb), getattr(AsyncJobQueue, verb)
    assert parameters(blocking) == parameters(asynchronous)
    assert returned(blocking) == returned(asynchronous)
    assert not _is_verb(blocking)


def test_connect_takes_what_the_asynchronous_one_takes() -> None:
    assert parameters(JobQueue.connect) == parameters(AsyncJobQueue.connect)


def test_nothing_public_is_there_in_the_job_queue_beyond_the_verbs() -> None:
    names = {name for name in dir(JobQueue) if not name.startswith("_")}
    assert names == {*JOB_VERBS, "connect", "partitions", "strategy"}


@pytest.mark.parametrize("name", [*JOB_VERBS, "connect", "strategy", "partitions"])
@pytest.mark.parametrize("kind", [JobQueue, AsyncJobQueue])
def test_everything_public_of_the_job_queue_has_a_docstring(kind: type, name: str) -> None:
    assert getattr(kind, name).__doc__


@pytest.mark.parametrize("verb", JOB_VERBS)
async def test_verb_of_the_job_queue_refuses_a_running_loop(verb: str) -> None:
    queue = JobQueue(lambda: pytest.fail("was opened"))
    with pytest.raises(ConfigurationError, match="AsyncJobQueue and `await`"):
        getattr(queue, verb)(*JOB_ARGUMENTS.get(verb, ()))


async def test_connect_refuses_a_running_loop() -> None:
    with pytest.raises(ConfigurationError, match="AsyncJobQueue and `await`"):
        JobQueue.connect("mongodb://localhost")


@pytest.mark.parametrize(
    "given",
    [
        AsyncJobQueue(AsyncMongoClient(connect=False)),
        AsyncMongoClient(connect=False),
        AsyncJobQueue.connect("mongodb://localhost"),
        "mongodb://localhost",
        None,
    ],
    ids=["a queue", "a client", "an opening", "a url", "nothing"],
)
def test_what_opens_no_job_queue_is_refused_with_what_to_give(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"function that opens.*JobQueue\.connect"):
        JobQueue(given)


def test_factory_that_opens_a_transport_is_refused() -> None:
    queue = JobQueue(lambda: nullcontext(AsyncMongoTransport))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"opens an AsyncJobQueue .*connect"):
        queue.stats()
