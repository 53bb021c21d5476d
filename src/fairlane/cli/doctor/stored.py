"""What is stored beside the data: the settings, and the indexes that claims walk along."""

from collections.abc import Mapping, Sequence
from typing import Any

from pymongo.operations import IndexModel

from fairlane import schema
from fairlane.cli.doctor.finding import Finding
from fairlane.cli.target import Deployment
from fairlane.errors import ConfigurationError
from fairlane.lease.settings import Partitioning
from fairlane.lease.strategy import Strategy

__all__ = ("indexes", "judge_indexes", "judge_settings", "settings")

SETTINGS = {"messages": "settings", "jobs": "settings:jobs"}
ADVICE = {
    "missing": "claims walk over what they do not want: `fairlane repair` creates the indexes, as "
    "every program does that is opened without ensure_indexes=False",
    "different": "programs that create indexes refuse to start: `fairlane repair` shows both "
    "definitions; drop the one that is there",
}

Wanted = Mapping[str, Sequence[IndexModel]]
Documents = Sequence[Mapping[str, Any]]


async def settings(deployment: Deployment) -> Finding:
    target = deployment.target
    counters = deployment.driver.collection(target.db_name, f"{target.prefix}_counters")
    is_there = {"messages": deployment.has_messages, "jobs": deployment.has_jobs}
    found = {
        product: await counters.find_one({"_id": key})
        for product, key in SETTINGS.items()
        if is_there[product]
    }
    return judge_settings(found, await deployment.driver.server_time() or 0.0)


def judge_settings(found: Mapping[str, Mapping[str, Any] | None], now: float) -> Finding:
    """Judge the settings documents of the products that there are."""
    if not found:
        return Finding(
            check="settings",
            status="warning",
            detail="there are no messages and no jobs here",
            advice="fine before the first program has run; else it is another --db or --prefix",
        )
    try:
        said = {name: Partitioning.stored(document or {}) for name, document in found.items()}
    except ConfigurationError as error:
        advice = "somebody else has written the settings in the counters: programs cannot start"
        return Finding(check="settings", status="error", detail=str(error), advice=advice)
    return Finding(
        check="settings",
        status="ok",
        detail="; ".join(f"{name}: {_in_words(each, now)}" for name, each in said.items()),
        data={name: each.document() for name, each in said.items()},
    )


def _in_words(partitioning: Partitioning, now: float) -> str:
    number = partitioning.partitions
    said = f"{number:,} partition{'' if number == 1 else 's'}"
    if now < partitioning.switch_at:
        return f"{said} in {partitioning.switch_at - now:.0f} s, {partitioning.former:,} until then"
    if partitioning.span > number:
        return f"{said}, claims still look into {partitioning.span:,}: pools, or repair, end that"
    return said


async def indexes(deployment: Deployment, strategy: Strategy) -> Finding:
    """Look at the indexes; that of tokens is needed where `strategy` leaves no choice."""
    target = deployment.target
    wanted = _wanted(deployment, tokens=strategy == "update_one")
    found = {}
    for noun in wanted:
        collection = deployment.driver.collection(target.db_name, f"{target.prefix}_{noun}")
        found[noun] = await collection.indexes()
    return judge_indexes(wanted, found)


def _wanted(deployment: Deployment, *, tokens: bool) -> Wanted:
    token = (schema.TOKEN_INDEX,) if tokens else ()
    wanted: dict[str, Sequence[IndexModel]] = {}
    if deployment.has_messages:
        wanted["messages"] = schema.MESSAGE_INDEXES
        wanted["locks"] = (*schema.LOCK_INDEXES, *token)
        wanted["dead"] = schema.DEAD_INDEXES
    if deployment.has_jobs:
        wanted["jobs"] = (*schema.JOB_INDEXES, *token)
    return wanted


def judge_indexes(wanted: Wanted, found: Mapping[str, Documents]) -> Finding:
    """Judge the indexes of the collections, by their nouns."""
    problems: dict[str, list[str]] = {"missing": [], "different": []}
    for noun, models in wanted.items():
        for model in models:
            problem = _problem(model.document, found[noun])
            if problem is not None:
                problems[problem].append(f"{noun} {dict(model.document['key'])}")
    if not any(problems.values()):
        number = sum(map(len, wanted.values()))
        said = f"all {number} are there" if number else "none are needed yet"
        return Finding(check="indexes", status="ok", detail=said, data=problems)
    worse = "different" if problems["different"] else "missing"
    said = "; ".join(f"{key}: {', '.join(names)}" for key, names in problems.items() if names)
    return Finding(
        check="indexes", status="error", detail=said, advice=ADVICE[worse], data=problems
    )


def _problem(model: Mapping[str, Any], found: Documents) -> str | None:
    wanted = schema.definition(dict(model))
    keys = list(model["key"].items())
    standing = [
        dict(each)
        for each in found
        if schema.same_keys(dict(each), keys) or each["name"] == model["name"]
    ]
    if not standing:
        return "missing"
    is_same = schema.definition(standing[0]) == wanted and schema.same_keys(standing[0], keys)
    return None if is_same else "different"
