"""The result of `fairlane demo`: its keys, its rates, and when it is good."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from fairlane.cli.demo.check import Breach, Published, Verdict
from fairlane.cli.demo.input import Event
from fairlane.cli.demo.plan import Plan
from fairlane.cli.demo.report import Leftovers, percentile, report, to_json

SECOND = 1_000_000_000
KEYS = [
    "published",
    "processed",
    "groups",
    "out_of_order",
    "overlapping",
    "lost",
    "redelivered",
    "dead",
    "workers",
    "processes",
    "seconds",
    "publish_per_s",
    "process_per_s",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "server",
    "driver",
    "ok",
]

PLAN = Plan(events=tuple(Event(group=f"g{n}", index=0, body=n) for n in range(2)))
PUBLISHED = [
    Published(
        group=f"g{n}", index=0, seq=n, digest="", started_at=n * SECOND, returned_at=2 * SECOND
    )
    for n in range(2)
]
VERDICT = Verdict(
    processed=2,
    redelivered=Counter(failure=1),
    ended_at=4 * SECOND,
    latencies=(2 * SECOND, 3 * SECOND),
    breaches=(),
)

NOTHING = Leftovers()


def result(verdict: Verdict = VERDICT, left: Leftovers = NOTHING, published=PUBLISHED):
    return report(PLAN, "a server", published, verdict, left)


def test_the_json_object_has_exactly_the_promised_keys():
    assert list(json.loads(to_json(result()))) == KEYS


def test_rates_and_latencies_are_in_seconds_and_milliseconds():
    summary = result()
    assert (summary.seconds, summary.publish_per_s, summary.process_per_s) == (4.0, 1.0, 0.5)
    assert (summary.p50_ms, summary.p95_ms, summary.p99_ms) == (2000.0, 3000.0, 3000.0)


def test_a_run_without_breaches_and_leftovers_is_ok():
    assert result().ok


@pytest.mark.parametrize("kind", ["lost", "out_of_order", "overlapping", "unexpected"])
def test_any_breach_makes_the_run_bad(kind: str):
    breach = Breach(kind=kind, detail="")  # type: ignore[arg-type]
    assert not result(replace(VERDICT, breaches=(breach,))).ok


@pytest.mark.parametrize("noun", ["messages", "locks", "dead"])
def test_anything_left_behind_makes_the_run_bad(noun: str):
    assert not result(left=Leftovers(**{noun: 1})).ok


def test_a_run_that_did_not_publish_all_is_bad():
    assert not result(replace(VERDICT, processed=1), published=PUBLISHED[:1]).ok


def test_breaches_are_counted_under_their_kind():
    breaches = (Breach(kind="lost", detail=""), Breach(kind="out_of_order", detail="")) * 2
    summary = result(replace(VERDICT, breaches=breaches), Leftovers(dead=3))
    assert (summary.lost, summary.out_of_order, summary.overlapping) == (2, 2, 0)
    assert summary.dead == 3


def test_a_run_in_which_nothing_happened_is_bad_and_has_no_rates() -> None:
    nothing = Verdict(processed=0, redelivered=Counter(), ended_at=None, latencies=(), breaches=())
    summary = result(nothing, published=[])
    assert (summary.ok, summary.seconds, summary.publish_per_s) == (False, 0.0, 0.0)


def test_latencies_are_null_where_nothing_was_handled():
    nothing = Verdict(processed=0, redelivered=Counter(), ended_at=None, latencies=(), breaches=())
    assert json.loads(to_json(result(nothing)))["p50_ms"] is None


@pytest.mark.parametrize(("percent", "expected"), [(1, 1.0), (50, 50.0), (95, 95.0), (99, 99.0)])
def test_a_percentile_is_the_nearest_rank(percent: int, expected: float):
    assert percentile([n * 1_000_000 for n in range(1, 101)], percent) == expected
