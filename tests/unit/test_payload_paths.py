"""Events become BSON, or an error that says where they cannot."""

from collections.abc import Iterator, Mapping
from datetime import date
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import bson
import pytest
from bson.raw_bson import RawBSONDocument

from fairlane.driver import BSON
from fairlane.errors import ConfigurationError, PayloadError
from fairlane.payload import Payload, plain, stored

MEGABYTE = 1024 * 1024


def encoded(event: Any, **options: Any) -> Any:
    return Payload[Any](None).encode(event, **{"group_id": "g", **options})[0]


def refusal(event: Any, **options: Any) -> PayloadError:
    with pytest.raises(PayloadError) as raised:
        encoded(event, **options)
    return raised.value


class Point(NamedTuple):
    x: Any
    y: Any


@pytest.mark.parametrize(
    ("event", "path"),
    [
        ({1}, "event"),
        ([{1}], "event[0]"),
        ((0, {1}), "event[1]"),
        ({"a": {1}}, "event.a"),
        ({"a": 1, "b": {"c": [0, {"d": {1}}]}}, "event.b.c[1].d"),
        ({"a b": {1}}, "event['a b']"),
        ({"a.b": {1}}, "event['a.b']"),
        ({"$set": {1}}, "event['$set']"),
        ({"": {1}}, "event['']"),
        ({"0": {1}}, "event['0']"),
        ({"größe": {1}}, "event.größe"),
        (Point(1, date(2026, 1, 1)), "event[1]"),
        ({"a": {"b": {5: 1}}}, "event.a.b"),
        ({"a": {"b\0": 1}}, "event.a"),
        ({"good": 1, "bad": 2**63, "worse": {1}}, "event.bad"),
    ],
)
def test_refusal_names_the_smallest_part_that_cannot_be_stored(event: Any, path: str) -> None:
    assert refusal(event).path == path


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"a": {1}}, "set"),
        ({"a": 2**63}, "int"),
        ({"a": "\ud800"}, "str"),
        ({"a": {1: 2}}, "dict"),
    ],
)
def test_refusal_names_the_type(event: Any, words: str) -> None:
    assert words in refusal(event).problem


def itself() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["a"] = [value]
    return value


def test_event_that_contains_itself_is_refused() -> None:
    assert "contains itself" in refusal(itself()).problem


def test_refusal_keeps_the_cause() -> None:
    assert isinstance(refusal({"a": {1}}).__cause__, bson.errors.BSONError)


def test_encoded_event_is_a_copy() -> None:
    event = {"a": [1]}
    copy = encoded(event)
    event["a"].append(2)
    assert plain(stored({"event": copy}, as_bytes=True)) == {"event": {"a": [1]}}


@pytest.mark.parametrize("as_bytes", [True, False])
def test_stored_document_is_read_back_as_plain_values(as_bytes: bool) -> None:
    document = {"_id": 1, "event": encoded({"u": UUID(int=5), "n": [None, b"x"]})}
    assert plain(stored(document, as_bytes=as_bytes)) == {
        "_id": 1,
        "event": {"u": UUID(int=5), "n": [None, b"x"]},
    }


def test_stored_document_is_its_exact_bytes() -> None:
    document = {"_id": 1, "event": encoded({"b": 1, "a": 2.0})}
    raw = stored(document, as_bytes=True)
    assert isinstance(raw, RawBSONDocument)
    assert raw.raw == bson.encode({"_id": 1, "event": {"b": 1, "a": 2.0}}, codec_options=BSON)


class OddMapping(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        return {"a": {1}}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(("a",))

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize(
    "event", [OddMapping(), MappingProxyType({"a": {1}})], ids=lambda event: type(event).__name__
)
def test_refusal_looks_into_any_mapping(event: Any) -> None:
    assert refusal(event).path in {"event", "event.a"}


def test_size_is_measured_with_room_for_the_other_fields() -> None:
    assert "at most" in refusal(b"x" * (16 * MEGABYTE)).problem
    assert encoded(b"x" * (16 * MEGABYTE - 64 * 1024))


@pytest.mark.parametrize("name", ["group_id", "message_id"])
def test_long_names_leave_less_room(name: str) -> None:
    event = b"x" * (16 * MEGABYTE - 64 * 1024)
    assert refusal(event, **{name: "x" * 100_000}).path == "event"


def test_event_without_a_codec_is_decoded_as_it_is() -> None:
    value = {"a": 1}
    assert Payload[Any](None).decode(value) is value


class Upper:
    def encode(self, event: Any) -> Any:
        if event == "bad":
            raise LookupError("no such event")
        return event.upper()

    def decode(self, value: Any) -> Any:
        return value.lower()


def test_codec_maps_both_ways() -> None:
    payload: Payload[str] = Payload(Upper())
    assert payload.encode("abc", group_id="g")[0] == "ABC"
    assert payload.decode("ABC") == "abc"


def test_error_of_a_codec_is_a_payload_error() -> None:
    with pytest.raises(PayloadError, match="codec refused it: no such event") as raised:
        Payload(Upper()).encode("bad", group_id="g")
    assert isinstance(raised.value.__cause__, LookupError)


def test_codec_that_makes_no_bson_is_found_out() -> None:
    class Sets(Upper):
        def encode(self, event: Any) -> Any:
            return {"a": {event}}

    with pytest.raises(PayloadError) as raised:
        Payload(Sets()).encode("x", group_id="g")
    assert raised.value.path == "event.a"


@pytest.mark.parametrize("codec", [object, "json", 5, {"encode": 1, "decode": 2}], ids=repr)
def test_codec_without_its_methods_is_refused(codec: Any) -> None:
    with pytest.raises(ConfigurationError, match="codec"):
        Payload[Any](codec)
