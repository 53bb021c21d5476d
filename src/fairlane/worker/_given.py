"""The lease that a handler is given: with the events that its middleware and its types say."""

from dataclasses import replace
from typing import Any

from fairlane.conversion import Convert, undecodable
from fairlane.errors import FairlaneError, PayloadError
from fairlane.model import Lease
from fairlane.retry import Reject

__all__ = ("readable", "with_event_of")


def with_event_of(given: Any, own: Lease[Any]) -> Lease[Any]:
    """Return the pool's own lease with the events of the one that a middleware hands on.

    `event` is also that of the first message: whichever of the two was replaced decides.

    Raises:
        FairlaneError: it is no lease, or one of other messages.
    """
    if not isinstance(given, Lease):
        raise FairlaneError(f"call_next takes a Lease, not {given!r:.100}")
    seqs = [[each.seq for each in lease.messages] or [lease.seq] for lease in (own, given)]
    if seqs[0] != seqs[1]:
        raise FairlaneError(f"call_next takes a Lease of the messages {seqs[0]}, not {seqs[1]}")
    event, messages = given.event, given.messages
    if messages and event is not own.event:
        messages = (replace(messages[0], event=event), *messages[1:])
    elif messages:
        event = messages[0].event
    return replace(own, event=event, messages=messages)


def readable(lease: Lease[Any], convert: Convert | None) -> Lease[Any]:
    """Return a lease of the messages in front whose events can be converted.

    Raises:
        Reject: the first one cannot.
    """
    if convert is None:
        return lease
    if not lease.messages:
        return replace(lease, event=_converted(convert, lease.event))
    messages = [replace(lease.messages[0], event=_converted(convert, lease.messages[0].event))]
    for message in lease.messages[1:]:
        try:
            messages.append(replace(message, event=convert("event", message.event)))
        except PayloadError:  # it is seen to when it is the first one itself
            break
    return replace(lease, event=messages[0].event, messages=tuple(messages))


def _converted(convert: Convert, event: Any) -> Any:
    try:
        return convert("event", event)
    except PayloadError as error:
        raise Reject(undecodable(error)) from error
