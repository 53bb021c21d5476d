"""A handler gets messages of one group under one lease, and may fail in the middle of them."""

from typing import Any

import anyio
import pytest
from batch_fakes import SEQS, BatchSource
from worker_fakes import FakeSource, Record, handled, in_virtual_time

from fairlane.errors import ConfigurationError
from fairlane.model import Lease
from fairlane.retry import Reject, Retry
from fairlane.worker import WorkerPool


async def worked_off(source: BatchSource, handler: Any, ending: str, **options: Any) -> Record:
    record = Record()
    async with WorkerPool(source, handler, batch=4, on_event=record, **options):
        await record.until(ending)
    return record


@in_virtual_time
async def test_pool_asks_for_so_many_messages_of_a_group() -> None:
    source = BatchSource()

    async def handle(lease: Lease[Any]) -> None:
        assert [message.seq for message in lease.messages] == list(SEQS)

    await worked_off(source, handle, "acked")
    assert source.asked[0] == 4


@in_virtual_time
async def test_return_acknowledges_all() -> None:
    source = BatchSource()
    record = await worked_off(source, handled, "acked")
    assert source.settled == [("ack",)]
    assert [event.messages for event in record.events] == [4, 4]


def failing_at(seq: int, error: Exception) -> Any:
    async def handle(lease: Lease[Any]) -> None:
        for message in lease.messages:
            if message.seq == seq:
                raise error
            lease.done(message)

    return handle


@pytest.mark.parametrize("seq", SEQS)
def test_failure_settles_the_messages_before_it(seq: int) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source = BatchSource()
        await worked_off(source, failing_at(seq, Retry(1)), "nacked")
        assert source.settled == [("nack", seq - 1)]

    scenario()


@in_virtual_time
async def test_message_that_is_rejected_goes_alone() -> None:
    source = BatchSource()
    await worked_off(source, failing_at(3, Reject("no")), "dead_lettered")
    assert source.settled == [("dead_letter", 2)]


@in_virtual_time
async def test_failure_of_a_handler_that_notes_nothing_is_that_of_all() -> None:
    source = BatchSource()

    async def handle(_: Lease[Any]) -> None:
        raise Retry(1)

    await worked_off(source, handle, "nacked")
    assert source.settled == [("nack", 0)]


@in_virtual_time
async def test_failure_when_all_messages_are_done_is_an_ack() -> None:
    source = BatchSource()

    async def handle(lease: Lease[Any]) -> None:
        lease.done(lease.messages[-1])
        raise ValueError("too late")

    record = await worked_off(source, handle, "acked")
    assert source.settled == [("ack",)]
    assert record.kinds == ["claimed", "handler_failed", "acked"]


@in_virtual_time
async def test_message_that_is_done_stays_done_when_an_earlier_one_is() -> None:
    source = BatchSource()

    async def handle(lease: Lease[Any]) -> None:
        lease.done(lease.messages[2])
        lease.done(lease.messages[0])
        raise Retry(1)

    await worked_off(source, handle, "nacked")
    assert source.settled == [("nack", 3)]


@in_virtual_time
async def test_last_attempt_of_the_first_message_is_not_that_of_those_behind_it() -> None:
    source = BatchSource(attempt=5)
    await worked_off(source, failing_at(2, ValueError("broken")), "nacked", max_attempts=5)
    assert source.settled == [("nack", 1)]


@in_virtual_time
async def test_shutdown_in_the_middle_settles_what_is_done() -> None:
    source, record = BatchSource(), Record()

    async def handle(lease: Lease[Any]) -> None:
        lease.done(lease.messages[1])
        await anyio.sleep_forever()

    async with WorkerPool(source, handle, batch=4, drain_timeout=0, on_event=record):
        await record.until("claimed")
        await anyio.sleep(1)
    assert source.settled == [("release", 2)]


def test_log_names_the_message_that_failed(caplog: pytest.LogCaptureFixture) -> None:
    @in_virtual_time
    async def scenario() -> None:
        await worked_off(BatchSource(), failing_at(3, ValueError("no")), "nacked")

    scenario()
    assert "the handler failed on group 'g', seq 3, attempt 1" in caplog.text


@pytest.mark.parametrize("batch", [0, 1_001, True, "2"])
def test_bad_batch_is_refused_by_its_name(batch: Any) -> None:
    with pytest.raises(ConfigurationError, match="batch must be an int from 1 to 1000"):
        WorkerPool(BatchSource(), failing_at(1, Retry()), batch=batch)


def test_source_that_knows_no_batches_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="FakeSource have no batch="):
        WorkerPool(FakeSource(), failing_at(1, Retry()), batch=2)


def test_single_attempt_is_refused_with_batches() -> None:
    """A death is charged to the first message, which may be innocent."""
    with pytest.raises(ConfigurationError, match="max_attempts must be 2 at least"):
        WorkerPool(BatchSource(), handled, batch=2, max_attempts=1)
