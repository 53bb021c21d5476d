"""Events as BSON: what cannot be stored is refused with its place, before anything is written."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar, cast

import bson
from bson.errors import BSONError, InvalidDocument
from bson.raw_bson import RawBSONDocument

from fairlane import schema
from fairlane.driver import BSON, RAW_BSON, Document
from fairlane.errors import ConfigurationError, PayloadError
from fairlane.model import Message

__all__ = ("Codec", "Payload", "as_bson", "as_read", "plain", "stored")

E = TypeVar("E")

MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
RESERVED_BYTES = 32 * 1024
"""Room beside an event for the other fields, in the message and in its dead letter."""

MAX_DEPTH = 96
"""Levels of nesting; MongoDB promises 100, with the message and its dead letter around it."""

STORABLE = (
    "str, int, float, bool, None, bytes, datetime, UUID, the types of `bson` such as Decimal128, "
    "and lists and dicts of these"
)

CANNOT_ENCODE = (BSONError, LookupError, OverflowError, RecursionError, TypeError, ValueError)


class Codec(Protocol[E]):
    """Maps a type of event to a BSON value and back."""

    def encode(self, event: E, /) -> Any: ...
    def decode(self, value: Any, /) -> E: ...


class Payload(Generic[E]):
    """Turns events into BSON values and back, by way of the caller's codec if there is one."""

    def __init__(self, codec: Codec[E] | None) -> None:
        if codec is not None and not all(
            callable(getattr(codec, verb, None)) for verb in ("encode", "decode")
        ):
            raise ConfigurationError(
                f"codec must have the methods encode and decode, not be {codec!r:.100}"
            )
        self._codec = codec

    def encode(self, event: E, *, group_id: str, message_id: str | None = None) -> tuple[Any, int]:
        """Return a copy of the event that is known to be BSON, and its bytes.

        Later changes of the event do not matter.

        Raises:
            PayloadError: naming the path inside the event.
        """
        value = event if self._codec is None else _encoded(self._codec, event)
        beside = 4 * len(group_id.encode()) + len((message_id or "").encode())
        return _sized_bson("event", value, beside=beside)

    def decode(self, value: Any) -> E:
        """Return the event of a stored value. Whatever the codec raises passes through."""
        return cast("E", value) if self._codec is None else self._codec.decode(value)

    def message(self, document: Document) -> Message[E]:
        """Return a stored message. Whatever the codec raises passes through."""
        return Message(
            seq=int(document["_id"]),
            group_id=document["group_id"],
            event=self.decode(document["event"]),
            published_at=schema.published_instant(document),
        )


def as_bson(name: str, value: Any, *, beside: int) -> Any:
    """Return a copy of the value that is known to be BSON.

    `beside` is how many bytes of other texts go into its document.

    Raises:
        PayloadError: naming the path inside the value, which begins with `name`.
    """
    return _sized_bson(name, value, beside=beside)[0]


def _sized_bson(name: str, value: Any, *, beside: int) -> tuple[Any, int]:
    data = _bytes(name, value)
    room = MAX_DOCUMENT_BYTES - RESERVED_BYTES - beside
    if len(data) > room:
        raise PayloadError(name, f"it has {len(data)} bytes as BSON; at most {max(0, room)} fit")
    if data.count(b"\x03") + data.count(b"\x04") > MAX_DEPTH:
        _refuse_deep(name, value, MAX_DEPTH)
    return RawBSONDocument(data, RAW_BSON)[name], len(data)


def as_read(name: str, value: Any) -> Any:
    """Return the value as it comes back from BSON. Raises `PayloadError` as `as_bson` does."""
    return bson.decode(_bytes(name, value), BSON)[name]


def stored(document: Mapping[str, Any], *, as_bytes: bool) -> Mapping[str, Any]:
    """Return a document ready to be written: its exact bytes, or plain values for a fake."""
    data = bson.encode(document, codec_options=BSON)
    if as_bytes:
        return RawBSONDocument(data, RAW_BSON)
    return bson.decode(data, BSON)


def plain(document: Any) -> Document:
    """Return a document that was read undecoded as plain values. Raises `InvalidBSON`."""
    if isinstance(document, RawBSONDocument):
        return bson.decode(document.raw, BSON)
    return dict(document)


def _encoded(codec: Codec[E], event: E) -> Any:
    try:
        return codec.encode(event)
    except Exception as error:
        raise PayloadError("event", f"the codec refused it: {error}") from error


def _bytes(name: str, value: Any) -> bytes:
    try:
        return _readable(name, value)
    except PayloadError:
        raise
    except CANNOT_ENCODE as error:
        path, problem = _locate(name, value, error)
        raise PayloadError(path, problem) from error


def _readable(name: str, value: Any) -> bytes:
    """Encode a value, and see that it can be decoded: not so a UUID of three bytes."""
    data = bson.encode({name: value}, codec_options=BSON)
    if bson.decode(data, BSON)[name] != value:
        _refuse_changed(name, value)
    return data


def _refuse_changed(path: str, value: Any) -> None:
    """Refuse what would come back as something else (lists for tuples are fine)."""
    if isinstance(value, datetime) and value.tzinfo is None:
        raise PayloadError(path, "a datetime without a zone; give it a tzinfo")
    if isinstance(value, Mapping) and {"$ref", "$id"} <= value.keys():
        raise PayloadError(path, "a mapping with $ref and $id, which BSON reads as a DBRef")
    for step, child in _children(value):
        _refuse_changed(path + step, child)


def _refuse_deep(path: str, value: Any, left: int) -> None:
    if not left:
        raise PayloadError(path, f"it is nested deeper than {MAX_DEPTH} levels")
    for step, child in _children(value):
        _refuse_deep(path + step, child, left - 1)


def _locate(path: str, value: Any, error: Exception) -> tuple[str, str]:
    """Walk down to the smallest part that cannot be stored."""
    if isinstance(error, RecursionError):
        return path, "it is nested too deeply, or contains itself"
    for step, child in _children(value):
        try:
            _readable("v", child)
        except CANNOT_ENCODE as inner:
            return _locate(path + step, child, inner)
    return path, _unstorable(value, error)


def _unstorable(value: Any, error: Exception) -> str:
    kind = type(value).__name__
    if not isinstance(error, InvalidDocument) or isinstance(value, Mapping | list | tuple):
        return f"{kind}: {error}"
    return f"BSON has no {kind}; it has {STORABLE}"


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, child in value.items():
            if isinstance(key, str):
                yield f".{key}" if key.isidentifier() else f"[{key!r}]", child
    elif isinstance(value, list | tuple):
        for index, child in enumerate(value):
            yield f"[{index}]", child
