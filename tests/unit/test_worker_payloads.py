"""A handler that names the class of its events gets them as such, or never sees them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Protocol, TypeVar
from unittest.mock import AsyncMock, MagicMock, create_autospec

import pydantic
import pytest
from batch_fakes import BatchSource
from worker_fakes import FakeSource, Record, in_virtual_time

from fairlane.errors import ConfigurationError
from fairlane.model import Lease
from fairlane.retry import Retry
from fairlane.worker import WorkerPool

T = TypeVar("T")
PAID = {"kind": "paid", "cents": 5}


@dataclass
class Order:
    kind: str
    cents: int = 0


class Model(pydantic.BaseModel):
    kind: str
    cents: int = 0


class HasEvent(Protocol):
    event: Any


got: list[Any] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    got.clear()


async def of_dataclass(lease: Lease[Order]) -> None:
    got.append(lease.event)


def of_model_in_a_thread(lease: Lease[Model]) -> None:
    got.append(lease.event)


async def of_text(lease: "Lease[Order]") -> None:
    got.append(lease.event)


async def of_text_inside(lease: Lease["Order"]) -> None:
    got.append(lease.event)


async def of_more(more: object, lease: "Lease[Order]") -> None:
    got.append(lease.event)


async def of_some(lease: Lease[Order] | None) -> None:
    got.append(lease.event if lease else None)


class Handlers:
    async def handle(self, lease: Lease[Order]) -> None:
        got.append(lease.event)

    async def __call__(self, lease: "Lease[Order]") -> None:
        got.append(lease.event)


@wraps(of_text)
async def decorated(*args: Any) -> None:
    await of_text(*args)


async def outcome(handler: Callable[..., Any], event: Any, ending: str = "acked") -> FakeSource:
    source, record = FakeSource(), Record()
    source.publish("g", event)
    async with WorkerPool(source, handler, on_event=record):
        await record.until(ending)
    return source


@pytest.mark.parametrize(
    "handler",
    [
        of_dataclass,
        of_text,
        of_text_inside,
        of_some,
        decorated,
        partial(of_more, 1),
        Handlers().handle,
        Handlers(),
    ],
)
def test_event_is_made_an_instance_of_what_is_annotated(handler: Callable[..., Any]) -> None:
    in_virtual_time(lambda: outcome(handler, PAID))()  # type: ignore[arg-type, return-value]
    assert got == [Order("paid", 5)]


async def test_handler_in_a_thread_gets_the_instance_too() -> None:
    await outcome(of_model_in_a_thread, PAID)
    assert got == [Model(kind="paid", cents=5)]


@in_virtual_time
async def test_event_that_is_an_instance_is_left_alone() -> None:
    """A codec has made it."""
    order = Order("paid")
    await outcome(of_dataclass, order)
    assert got[0] is order


async def unannotated(lease):  # type: ignore[no-untyped-def]
    got.append(lease.event)


async def of_lease(lease: Lease) -> None:  # type: ignore[type-arg, unused-ignore]
    got.append(lease.event)


async def of_any(lease: Lease[Any]) -> None:
    got.append(lease.event)


async def of_dict(lease: Lease[dict[str, Any]]) -> None:
    got.append(lease.event)


async def of_variable(lease: Lease[T]) -> None:
    got.append(lease.event)


async def of_protocol(lease: HasEvent) -> None:
    got.append(lease.event)


async def of_object(lease: object) -> None:
    got.append(lease.event)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "handler",
    [unannotated, of_lease, of_any, of_dict, of_variable, of_protocol, of_object],
)
def test_event_is_left_alone_where_no_class_is_named(handler: Callable[..., Any]) -> None:
    in_virtual_time(lambda: outcome(handler, PAID))()  # type: ignore[arg-type, return-value]
    assert got[0] is PAID


@in_virtual_time
async def test_event_that_does_not_fit_goes_to_the_dead_letters_at_once() -> None:
    source = await outcome(of_dataclass, {"kind": "paid", "cents": "5"}, "dead_lettered")
    assert source.dead == [(1, "cannot be decoded: event.cents: must be int, not str")]
    assert got == []
    assert source.calls["nack"] == 0


async def of_order(lease: Order) -> None: ...


async def of_unknown(lease: "Lease[Unknown]") -> None: ...  # type: ignore[name-defined]  # noqa: F821


async def of_broken(lease: Lease[Order]) -> None: ...


of_broken.__annotations__["lease"] = "Lease["


async def of_set(lease: Lease[set[Order]]) -> None: ...


async def of_two(lease: Lease[Order] | Lease[Model]) -> None: ...


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (of_order, "handler of_order gets a Lease, so its argument is not Order"),
        (of_unknown, r"'Lease\[Unknown\]' of the handler of_unknown .*'Unknown' is not defined"),
        (of_broken, "of the handler of_broken cannot be resolved"),
        (of_set, "annotation of the handler of_set: no stored value becomes set"),
        (of_two, "handler of_two gets a Lease"),
    ],
)
def test_annotation_that_cannot_be_heeded_is_refused_at_once(handler: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        WorkerPool(FakeSource(), handler)


def test_name_of_a_lease_is_known_also_where_only_type_checkers_import_it() -> None:
    names: dict[str, Any] = {"Order": Order}
    exec("def handle(lease: 'Lease[Order]') -> None: ...", names)
    assert WorkerPool(FakeSource(), names["handle"]).health.state == "stopped"


@pytest.mark.parametrize("stand_in", [AsyncMock(), MagicMock(), create_autospec(of_dataclass)])
def test_stand_in_for_a_handler_is_accepted(stand_in: Any) -> None:
    assert WorkerPool(FakeSource(), stand_in).health.state == "stopped"


def test_class_that_the_handler_uses_may_be_local() -> None:
    @dataclass
    class Local:
        kind: str

    async def handle(lease: "Lease[Local]") -> None:
        assert isinstance(lease.event, Local)

    assert WorkerPool(FakeSource(), handle).health.state == "stopped"


def spoilt(seq: int) -> BatchSource:
    return BatchSource(events=["bad" if each == seq else PAID for each in range(1, 5)])


async def worked_off(source: BatchSource, handler: Any, ending: str) -> list[str]:
    record = Record()
    async with WorkerPool(source, handler, batch=4, on_event=record):
        await record.until(ending)
    return record.kinds


async def note_all(lease: Lease[Order]) -> None:
    for message in lease.messages:
        got.append(message.event.cents)
        lease.done(message)


@in_virtual_time
async def test_handler_gets_the_messages_before_one_that_cannot_be_decoded() -> None:
    source = spoilt(3)
    await worked_off(source, note_all, "released")
    assert got == [5, 5]
    assert source.settled == [("release", 2)]


@in_virtual_time
async def test_messages_before_it_are_done_when_the_handler_returns() -> None:
    source = spoilt(4)
    await worked_off(source, of_dataclass, "released")
    assert source.settled == [("release", 3)]


@in_virtual_time
async def test_first_message_that_cannot_be_decoded_goes_alone() -> None:
    source = spoilt(1)
    await worked_off(source, of_dataclass, "dead_lettered")
    assert source.settled == [("dead_letter", 0)]
    assert got == []


@in_virtual_time
async def test_failure_before_it_is_that_of_a_message_that_the_handler_got() -> None:
    async def handle(lease: Lease[Order]) -> None:
        lease.done(lease.messages[0])
        raise Retry(1)

    source = spoilt(3)
    await worked_off(source, handle, "nacked")
    assert source.settled == [("nack", 1)]


@in_virtual_time
async def test_failure_when_all_before_it_are_done_is_not_charged_to_it() -> None:
    async def handle(lease: Lease[Order]) -> None:
        lease.done(lease.messages[-1])
        raise ValueError("too late")

    source = spoilt(3)
    kinds = await worked_off(source, handle, "released")
    assert source.settled == [("release", 2)]
    assert kinds == ["claimed", "handler_failed", "released"]


@in_virtual_time
async def test_event_of_the_lease_is_that_of_its_first_message() -> None:
    async def handle(lease: Lease[Order]) -> None:
        got.append(lease.event is lease.messages[0].event)

    await worked_off(spoilt(9), handle, "acked")
    assert got == [True]
