"""Names of databases, collections and stored fields."""

from typing import Any
from zlib import crc32

import pytest
from bson.int64 import Int64
from bson.son import SON

from fairlane import schema
from fairlane.errors import ConfigurationError


@pytest.mark.parametrize("name", ["a", "fairlane", "x" * 63, "with-dash_1", "ä" * 31, "%"])
def test_database_name_that_mongodb_takes(name: str) -> None:
    assert schema.db_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "x" * 64, "ä" * 32, *(f"a{character}b" for character in '/\\. "$*<>:|?\0')]
)
def test_database_name_that_mongodb_refuses_somewhere(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^db_name must have"):
        schema.db_name(name)


@pytest.mark.parametrize("prefix", ["a", "fairlane", "my.app", "a-b", "x" * 120, "systems"])
def test_prefix_that_makes_collection_names(prefix: str) -> None:
    assert schema.prefix(prefix) == prefix


@pytest.mark.parametrize(
    "prefix", ["", "$", "a$b", "a\0", ".a", "system.", "system.x", "x" * 121, "ä" * 61]
)
def test_prefix_that_mongodb_refuses(prefix: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^prefix must have"):
        schema.prefix(prefix)


@pytest.mark.parametrize("value", [None, 1, b"a", "\ud800"], ids=ascii)
def test_name_that_is_no_text_is_refused(value: Any) -> None:
    for check in (schema.db_name, schema.prefix):
        with pytest.raises(ConfigurationError):
            check(value)


def test_longest_names_fit_a_namespace() -> None:
    longest = f"{'d' * 63}.{'p' * 120}_messages"
    assert len(longest) < schema.MAX_NAMESPACE_BYTES


def test_partition_is_that_of_the_design() -> None:
    """Programs in other languages compute it as well."""
    assert schema.partition_of("order-42", 16) == crc32(b"order-42") % 16
    assert schema.partition_of("größe", 16) == crc32("größe".encode()) % 16


def test_message_keeps_the_names_of_the_original_design() -> None:
    document = schema.message(seq=7, group_id="g", event=1, priority=2, published_at=3.5)
    assert {key: document[key] for key in ("_id", "group_id", "event")} == {
        "_id": 7,
        "group_id": "g",
        "event": 1,
    }
    assert isinstance(document["_id"], Int64)


def test_message_without_an_id_of_the_caller_does_not_have_the_field() -> None:
    """The unique index holds strings only; a null would be one value for all."""
    document = schema.message(seq=7, group_id="g", event=1, priority=0, published_at=0.0)
    assert "message_id" not in document


def test_message_with_an_id_of_the_caller_has_it() -> None:
    document = schema.message(
        seq=7, group_id="g", event=1, priority=0, published_at=0.0, message_id="m"
    )
    assert document["message_id"] == "m"


def test_definition_of_an_index_is_without_what_servers_add() -> None:
    index = {"v": 2, "key": SON([("a", 1)]), "name": "a_1", "ns": "db.c", "background": False}
    definition = schema.definition(index)
    assert definition == {"key": {"a": 1}, "name": "a_1"}
    assert type(definition["key"]) is dict  # people read it


@pytest.mark.parametrize(
    ("key", "is_same"),
    [
        ({"a": 1, "b": -1}, True),
        ({"b": -1, "a": 1}, False),
        ({"a": 1}, False),
        ({"a": 1, "b": 1}, False),
    ],
)
def test_keys_of_an_index_are_the_same_in_order_and_direction(
    key: dict[str, int], is_same: bool
) -> None:
    assert schema.same_keys({"key": key}, [("a", 1), ("b", -1)]) is is_same
