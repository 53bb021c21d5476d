"""Types of jobs: what is refused when they are defined, and what they enqueue."""

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field

from fairlane import (
    Backoff,
    ConfigurationError,
    Enqueued,
    EnqueuedMany,
    JobContext,
    Jobs,
    NewJob,
    PayloadError,
)


class Email(BaseModel):
    to: str
    copies: int = 1


class Plain:
    """A payload model that is none of pydantic's."""

    def __init__(self, word: str) -> None:
        self.word = word

    @classmethod
    def model_validate(cls, value: Any) -> "Plain":
        if not isinstance(value, dict):
            raise TypeError("a dict is needed")
        return cls(str(value["word"]))

    def model_dump(self) -> dict[str, str]:
        return {"word": self.word}


class Queue:
    """Notes what is enqueued."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, str, dict[str, Any]]] = []
        self.many: list[Any] = []

    async def enqueue(self, payload: Any, type: str, **options: Any) -> Enqueued:
        self.calls.append((payload, type, options))
        return Enqueued(id="1", created=True)

    async def enqueue_many(self, payloads: Iterable[Any], type: str) -> EnqueuedMany:
        self.many += payloads
        ids = tuple(f"id-{number}" for number in range(len(self.many)))
        return EnqueuedMany(ids=ids, created=len(ids), skipped=0, replaced=0, errors=())


async def handle(ctx: JobContext, params: Any) -> None:
    """Succeed at once."""


async def run(ctx: JobContext) -> None:
    """Succeed at once."""


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@pytest.fixture
def queue() -> Queue:
    return Queue()


BAD_OPTIONS: dict[str, dict[str, Any]] = {
    "max_attempts": {"max_attempts": 0},
    "lease": {"lease": 0},
    "priority": {"priority": "high"},
    "max_concurrency": {"max_concurrency": 0},
    "retry": {"retry": 3},
    "payload": {"payload": dict},
    "on_error": {"on_error": lambda error: None},
    "on_stale": {"on_stale": "notify"},
    "keep_history": {"keep_history": -1},
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_option_is_refused_by_name_when_the_type_is_defined(jobs: Jobs, name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        jobs.event("work", **BAD_OPTIONS[name])(handle)
    assert len(jobs) == 0


def test_unknown_option_is_refused(jobs: Jobs) -> None:
    with pytest.raises(TypeError, match="max_tries"):
        jobs.event("work", max_tries=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["", 3, None])
def test_name_must_be_text(jobs: Jobs, name: Any) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        jobs.event(name)(handle)


def generator(ctx: JobContext, params: Any) -> Iterable[int]:
    yield 1


@pytest.mark.parametrize("function", [None, run, generator, "handle"])
def test_what_cannot_handle_an_event_job_is_refused(jobs: Jobs, function: Any) -> None:
    with pytest.raises(ConfigurationError, match="handler"):
        jobs.event("work")(function)


def test_second_job_of_a_name_is_refused_whatever_its_kind(jobs: Jobs) -> None:
    jobs.event("work")(handle)
    with pytest.raises(ConfigurationError, match="'work' is registered already"):
        jobs.recurring("work", every=1)(run)


def test_defined_handler_can_be_called_as_before(jobs: Jobs) -> None:
    double = jobs.event("double")(lambda ctx, params: params * 2)
    assert double(None, 4) == 8


async def test_type_enqueues_with_its_own_defaults(jobs: Jobs, queue: Queue) -> None:
    """A12.83: the name is set."""
    job = jobs.event("work", priority=7, max_attempts=5)(handle)
    await job.enqueue(queue, {"a": 1}, delay=60)
    assert queue.calls == [({"a": 1}, "work", {"priority": 7, "max_attempts": 5, "delay": 60})]


async def test_option_of_the_call_wins_over_the_type(jobs: Jobs, queue: Queue) -> None:
    """C1.7: priority 0 is a priority."""
    job = jobs.event("work", priority=7, max_attempts=5)(handle)
    await job.enqueue(queue, priority=0, max_attempts=1)
    assert queue.calls[0][2] == {"priority": 0, "max_attempts": 1}


async def test_payload_is_validated_and_coerced_when_it_is_enqueued(
    jobs: Jobs, queue: Queue
) -> None:
    """A12.90: "10" becomes 10."""
    job = jobs.event("email", payload=Email)(handle)
    await job.enqueue(queue, {"to": "ann", "copies": "10"})
    assert queue.calls[0][0] == {"to": "ann", "copies": 10}


async def test_instance_of_the_model_is_dumped(jobs: Jobs, queue: Queue) -> None:
    job = jobs.event("plain", payload=Plain)(handle)
    await job.enqueue(queue, Plain("hello"))
    assert queue.calls[0][0] == {"word": "hello"}


async def test_invalid_payload_is_refused_before_anything_is_enqueued(
    jobs: Jobs, queue: Queue
) -> None:
    job = jobs.event("email", payload=Email)(handle)
    with pytest.raises(PayloadError, match="Email refused it"):
        await job.enqueue(queue, {"copies": 1})
    assert queue.calls == []


async def test_instance_that_was_spoilt_later_is_refused(jobs: Jobs, queue: Queue) -> None:
    job = jobs.event("email", payload=Email)(handle)
    email = Email(to="ann")
    email.copies = "many"  # type: ignore[assignment]
    with pytest.raises(PayloadError), pytest.warns(UserWarning, match="serializ"):
        await job.enqueue(queue, email)


async def test_items_of_many_keep_their_own_options(jobs: Jobs, queue: Queue) -> None:
    """A12.85: mixed options; A12.84: each is validated."""
    job = jobs.event("email", payload=Email, priority=3)(handle)
    await job.enqueue_many(queue, [{"to": "ann"}, NewJob({"to": "bob"}, priority=0, delay=5)])
    assert [(each.payload["to"], each.priority, each.delay) for each in queue.many] == [
        ("ann", 3, None),
        ("bob", 0, 5),
    ]


async def test_item_that_the_model_refuses_does_not_keep_the_others_out(
    jobs: Jobs, queue: Queue
) -> None:
    """A12.84 and A12.38: the error is told with its index."""
    job = jobs.event("email", payload=Email)(handle)
    told = await job.enqueue_many(queue, [{"to": "ann"}, {"copies": 1}, {"to": "bob"}])
    assert told.ids == ("id-0", None, "id-1")
    assert [(index, type(error)) for index, error in told.errors] == [(1, PayloadError)]
    assert told.created == 2


async def test_type_that_nobody_registered_cannot_be_enqueued(jobs: Jobs, queue: Queue) -> None:
    """A12.86."""
    jobs.event("work")(handle)
    jobs.recurring("clean", every=1)(run)
    for name in ("wrok", "clean"):
        with pytest.raises(ConfigurationError, match=f"no event job '{name}'.*only 'work'"):
            await jobs.enqueue(queue, name)


async def test_type_can_be_enqueued_by_its_name(jobs: Jobs, queue: Queue) -> None:
    jobs.event("work")(handle)
    await jobs.enqueue(queue, "work", 1, unique_key="k")
    assert queue.calls == [(1, "work", {"priority": 0, "unique_key": "k"})]


BAD_SCHEDULES: dict[str, dict[str, Any]] = {
    "one of every, cron and next_run": {},
    "not every and cron": {"every": 1, "cron": "* * * * *", "timezone": "UTC"},
    "needs a timezone": {"cron": "* * * * *"},
    "no timezone 'Mars/Olympus'": {"cron": "* * * * *", "timezone": "Mars/Olympus"},
    "no timezone '../etc/passwd'": {"cron": "* * * * *", "timezone": "../etc/passwd"},
    "no schedule": {"cron": "61 * * * *", "timezone": "UTC"},
    "five fields": {"cron": "* * * * * *", "timezone": "UTC"},
    "five fields, not|five fields": {"cron": 5, "timezone": "UTC"},
    "never comes|no schedule": {"cron": "0 0 30 2 *", "timezone": "UTC"},
    "timezone belongs to cron": {"every": 1, "timezone": "UTC"},
    "every must be longer": {"every": 0},
    "every must be seconds": {"every": "soon"},
    "every must be": {"every": float("nan")},
    "next_run": {"next_run": lambda: None},
    "misfire must be": {"every": 1, "misfire": "never"},
}


@pytest.mark.parametrize("message", BAD_SCHEDULES)
def test_bad_schedule_is_refused_when_it_is_defined(jobs: Jobs, message: str) -> None:
    """A12.52: a cron schedule needs a zone."""
    with pytest.raises(ConfigurationError, match=message):
        jobs.recurring("clean", **BAD_SCHEDULES[message])(run)


GOOD_SCHEDULES: list[dict[str, Any]] = [
    {"every": 5},
    {"every": timedelta(hours=1)},
    {"every": "1h30m"},
    {"cron": "0 3 * * MON", "timezone": "Europe/Berlin"},
    {"next_run": lambda after: datetime.max.replace(tzinfo=UTC)},
]


@pytest.mark.parametrize("schedule", GOOD_SCHEDULES)
def test_each_kind_of_schedule_is_accepted(jobs: Jobs, schedule: dict[str, Any]) -> None:
    """A12.51."""
    jobs.recurring("clean", retry=Backoff(), **schedule)(run)
    assert "clean" in jobs


def test_recurring_handler_gets_no_params(jobs: Jobs) -> None:
    with pytest.raises(ConfigurationError, match="handler"):
        jobs.recurring("clean", every=1)(handle)


def test_plain_functions_may_handle(jobs: Jobs) -> None:
    function: Callable[[Any, Any], None] = lambda ctx, params: None  # noqa: E731
    assert jobs.event("work")(function).name == "work"


class Parcel(BaseModel):
    model_config = ConfigDict(extra="forbid")

    recipient: str = Field(alias="to")

    @computed_field
    def label(self) -> str:
        return f"to {self.recipient}"


class Pair(BaseModel):
    model_config = ConfigDict(strict=True)

    both: tuple[int, int]


class OneWay(BaseModel):
    name: str = Field(validation_alias="given_name")


class Stay(BaseModel):
    night: date


class Blocking:
    """A queue whose verbs return at once what became of the jobs."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, str, dict[str, Any]]] = []

    def enqueue(self, payload: Any, type: str, **options: Any) -> Enqueued:
        self.calls.append((payload, type, options))
        return Enqueued(id="1", created=True)

    def enqueue_many(self, payloads: Iterable[Any], type: str) -> EnqueuedMany:
        ids = tuple(str(each.payload) for each in payloads)
        return EnqueuedMany(ids=ids, created=len(ids), skipped=0, replaced=0, errors=())


@pytest.mark.parametrize("given", [{"to": "ann"}, Parcel(to="ann")], ids=["dict", "instance"])
async def test_worker_reads_what_a_model_with_aliases_and_computed_fields_has_enqueued(
    jobs: Jobs, queue: Queue, given: Any
) -> None:
    job = jobs.event("parcel", payload=Parcel)(handle)
    await job.enqueue(queue, given)
    assert job.definition.params(queue.calls[0][0]) == Parcel(to="ann")


@pytest.mark.parametrize(
    ("model", "given"), [(Pair, {"both": (1, 2)}), (OneWay, {"given_name": "ann"})]
)
def test_what_no_worker_could_read_is_refused_when_it_is_enqueued(
    jobs: Jobs, queue: Queue, model: type[Any], given: Any
) -> None:
    job = jobs.event("work", payload=model)(handle)
    with pytest.raises(PayloadError, match=f"a worker could not read it: {model.__name__}"):
        job.enqueue(queue, given)


def test_field_that_bson_cannot_hold_is_named_with_the_way_out(jobs: Jobs, queue: Queue) -> None:
    job = jobs.event("stay", payload=Stay)(handle)
    with pytest.raises(PayloadError, match=r"has no date; it has str.*field_serializer") as raised:
        job.enqueue(queue, {"night": "2026-12-01"})
    assert raised.value.path == "payload.night"


def test_type_enqueues_into_a_blocking_queue_without_await(jobs: Jobs) -> None:
    job, queue = jobs.event("work", priority=7, max_attempts=5)(handle), Blocking()
    assert job.enqueue(queue, 1) == jobs.enqueue(queue, "work", 1) == Enqueued(id="1", created=True)
    assert queue.calls == [(1, "work", {"priority": 7, "max_attempts": 5})] * 2


def test_many_into_a_blocking_queue_are_told_with_those_refused(jobs: Jobs) -> None:
    job = jobs.event("email", payload=Email)(handle)
    told = job.enqueue_many(Blocking(), [{"copies": 1}, {"to": "ann"}])
    assert [index for index, _ in told.errors] == [0]
    assert told.ids == (None, "{'to': 'ann', 'copies': 1}")


def test_what_is_no_queue_is_refused_at_the_call(jobs: Jobs, queue: Queue) -> None:
    job: Any = jobs.event("work")(handle)
    registry: Any = jobs
    calls: list[Callable[[], Any]] = [
        lambda: job.enqueue({"n": 1}, queue),
        lambda: job.enqueue_many([1], queue),
        lambda: job.enqueue(Queue, 1),
        lambda: registry.enqueue("work", queue, {}),
        lambda: job.enqueue(jobs, 1),
        lambda: job.enqueue(job, 1),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match=r"the queue comes first, .*enqueue"):
            call()


def test_name_that_is_taken_is_told_with_the_place_where_it_is(jobs: Jobs) -> None:
    jobs.event("work")(handle)
    with pytest.raises(ConfigurationError, match=r"by handle, .*test_jobs_registry\.py:\d+"):
        jobs.event("work")(handle)
