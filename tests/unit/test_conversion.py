"""Stored values become what an annotation names, or are refused with the place of what is wrong."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NewType, TypedDict, TypeVar
from uuid import UUID

import pydantic
import pydantic.dataclasses
import pytest
from bson import Decimal128, Int64

from fairlane.conversion import converter
from fairlane.errors import ConfigurationError, PayloadError

T = TypeVar("T")
Cents = NewType("Cents", int)


class Kind(enum.Enum):
    PAID = "paid"


class Note(TypedDict):
    text: str


class Buyer(pydantic.BaseModel):
    name: str
    age: int = 0


@dataclass
class Line:
    article: str
    count: int = 1


@dataclass
class Order:
    number: int
    lines: list[Line] = field(default_factory=list)
    total: float = 0.0
    buyer: Buyer | None = None
    before: "Order | None" = None
    is_new: bool = field(default=True, init=False)


@dataclass
class Everything:
    cents: Cents
    noted: Annotated[str, "a note"]
    kind: Kind
    state: Literal["open", 1]
    at: datetime
    key: UUID
    exact: Decimal128
    pair: tuple[int, str]
    many: tuple[int, ...]
    row: Sequence[int]
    by_name: Mapping[str, Line]
    note: Note
    nothing: None
    anything: Any


EVERYTHING: dict[str, Any] = {
    "cents": Int64(5),
    "noted": "n",
    "kind": "paid",
    "state": "open",
    "at": datetime(2030, 1, 1, tzinfo=UTC),
    "key": UUID(int=1),
    "exact": Decimal128("1.5"),
    "pair": [1, "a"],
    "many": [1, 2],
    "row": [3],
    "by_name": {"a b": {"article": "pen"}},
    "note": {"text": "t"},
    "nothing": None,
    "anything": {1, 2},
}


def converted(annotation: Any, value: Any) -> Any:
    convert = converter(annotation)
    assert convert is not None
    return convert("event", value)


def test_dataclass_is_made_with_all_that_is_in_it() -> None:
    stored = {
        "number": 7,
        "lines": [{"article": "pen"}, {"article": "ink", "count": 2}],
        "total": 3,
        "buyer": {"name": "ann"},
        "before": {"number": 6},
    }
    order = converted(Order, stored)
    assert order == Order(7, [Line("pen"), Line("ink", 2)], 3.0, Buyer(name="ann"), before=Order(6))
    assert isinstance(order.total, float)


def test_every_type_that_bson_can_carry_is_converted() -> None:
    made = converted(Everything, EVERYTHING)
    assert (made.kind, made.pair, made.many) == (Kind.PAID, (1, "a"), (1, 2))
    assert (made.row, made.by_name) == ([3], {"a b": Line("pen")})


def test_key_that_is_no_field_is_left_out() -> None:
    assert converted(Line, {"article": "pen", "colour": "red"}) == Line("pen")


@pytest.mark.parametrize("instance", [Line("pen"), Buyer(name="ann")])
def test_instance_is_left_as_it_is(instance: Any) -> None:
    assert converted(type(instance), instance) is instance


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cents": "5"}, "event.cents: must be int, not str"),
        ({"cents": True}, "event.cents: must be int, not bool"),
        ({"kind": "lost"}, "event.kind: Kind refused it: ValueError: 'lost' is not a valid Kind"),
        ({"state": True}, "event.state: must be one of 'open', 1, not True"),
        ({"at": "2030-01-01"}, "event.at: must be datetime, not str"),
        ({"pair": [1]}, "event.pair: must have 2 items, not 1"),
        ({"pair": [1, 2]}, r"event.pair\[1\]: must be str, not int"),
        ({"many": 1}, "event.many: must be list, not int"),
        ({"by_name": {"a b": {}}}, r"event.by_name\['a b'\].article: Line needs it"),
        ({"note": "t"}, "event.note: must be dict, not str"),
        ({"nothing": 1}, "event.nothing: must be NoneType, not int"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        converted(Everything, EVERYTHING | change)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x", "event: must be dict, for Order, not str"),
        ({}, "event.number: Order needs it"),
        ({"number": 1, "total": True}, "event.total: must be float, not bool"),
        ({"number": 1, "before": {"number": "x"}}, "event.before.number: must be int"),
        ({"number": 1, "before": 5}, "event.before: must be dict, for Order.*or must be NoneType"),
        ({"number": 1, "buyer": {"name": "ann", "age": "x"}}, "event.buyer.age: Buyer refused it"),
    ],
)
def test_place_inside_nested_classes_is_named(value: Any, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        converted(Order, value)


def test_pydantic_says_what_is_wrong_and_how_much_more() -> None:
    with pytest.raises(PayloadError) as raised:
        converted(Buyer, {"name": 1, "age": "secret"})
    assert raised.value.path == "event.name"
    assert "Input should be a valid string, and 1 more" in raised.value.problem
    assert "secret" not in raised.value.problem


def test_dataclass_of_pydantic_validates_itself() -> None:
    @pydantic.dataclasses.dataclass
    class Checked:
        count: pydantic.PositiveInt

    assert converted(Checked, {"count": "3"}).count == 3
    with pytest.raises(PayloadError, match=r"event\.count: Checked refused it"):
        converted(Checked, {"count": 0})


def test_struct_of_msgspec_is_converted_strictly() -> None:
    msgspec = pytest.importorskip("msgspec")
    struct = msgspec.defstruct("Paid", [("cents", int), ("tags", list[str], [])])
    assert converted(struct, {"cents": Int64(3)}).cents == 3
    with pytest.raises(PayloadError, match=r"event\.tags\[0\]: Paid refused it.*Expected `str`"):
        converted(struct, {"cents": 3, "tags": [1]})


def test_error_that_a_class_raises_about_its_values_is_a_refusal() -> None:
    @dataclass
    class Even:
        number: int

        def __post_init__(self) -> None:
            if self.number % 2:
                raise ValueError("odd")

    with pytest.raises(PayloadError, match="event: Even refused it: ValueError: odd"):
        converted(Even, {"number": 1})


@pytest.mark.parametrize("annotation", [list[Line], tuple[Line, ...], dict[str, Line]])
def test_class_inside_a_container_is_converted(annotation: Any) -> None:
    stored: Any = {"a": {"article": "pen"}} if "dict" in str(annotation) else [{"article": "pen"}]
    made = converted(annotation, stored)
    assert (made["a"] if isinstance(made, dict) else made[0]) == Line("pen")


def test_first_class_of_a_union_that_fits_is_taken() -> None:
    assert converted(Order | Line, {"article": "pen"}) == Line("pen")


@pytest.mark.parametrize("annotation", [Any, dict, dict[str, int], Note, str, Kind, T, list[int]])
def test_annotation_that_names_no_class_asks_for_nothing(annotation: Any) -> None:
    assert converter(annotation) is None


def test_field_that_no_stored_value_can_become_is_named_at_once() -> None:
    @dataclass
    class Tagged:
        tags: set[str]

    with pytest.raises(ConfigurationError, match=r"set\[str\], the type of Tagged.tags"):
        converter(Tagged)


def test_dataclass_that_takes_more_than_its_fields_is_refused_at_once() -> None:
    @dataclass
    class Seeded:
        number: int
        seed: InitVar[int]

    with pytest.raises(ConfigurationError, match="Seeded cannot be made of its fields alone"):
        converter(Seeded)


def test_field_whose_type_cannot_be_resolved_is_refused_at_once() -> None:
    @dataclass
    class Vague:
        what: "Unknown"  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigurationError, match=r"fields of .*Vague cannot be resolved.*Unknown"):
        converter(Vague)
