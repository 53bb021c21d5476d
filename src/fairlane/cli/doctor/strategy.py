"""By which command claims are made, and why not by the better one."""

from collections.abc import Mapping
from enum import StrEnum

from fairlane.cli.doctor.finding import Finding
from fairlane.cli.target import Deployment
from fairlane.lease.strategy import Leaser, Strategy

__all__ = ("StrategyName", "judge_strategy", "strategy")


LEASED = {"messages": "locks", "jobs": "jobs"}
"""The collection of each product that claims are made in."""


class StrategyName(StrEnum):
    AUTO = "auto"
    FIND_ONE_AND_UPDATE = "find_one_and_update"
    UPDATE_ONE = "update_one"


async def strategy(deployment: Deployment, wanted: Strategy) -> Finding:
    target, driver = deployment.target, deployment.driver
    is_there = {"messages": deployment.has_messages, "jobs": deployment.has_jobs}
    chosen = {}
    for product in (name for name, is_it in is_there.items() if is_it):
        leaser = Leaser(driver, wanted)
        leased = driver.collection(target.db_name, f"{target.prefix}_{LEASED[product]}")
        await leaser.detect(leased)
        chosen[product] = leaser.strategy
    may_update = await Leaser(driver, wanted).needs_token_index()
    return judge_strategy(chosen, may_update=may_update)


def judge_strategy(chosen: Mapping[str, Strategy], *, may_update: bool) -> Finding:
    """Judge by which command the products claim.

    `may_update`: whether a sorted `update_one` would be used if its index is there.
    """
    best: Strategy = "update_one" if may_update else "find_one_and_update"
    said = "; ".join(f"{product} by {each}" for product, each in chosen.items())
    unindexed = [LEASED[product] for product, each in chosen.items() if each != best]
    if not unindexed:
        said = said or f"programs will use {best}"
        return Finding(check="strategy", status="ok", detail=said, data=dict(chosen))
    return Finding(
        check="strategy",
        status="warning",
        detail=f"{said}; {best} would be better",
        advice=f"it needs the index {{'token': 1}} on {' and '.join(unindexed)}: `fairlane repair` "
        "creates it; programs use it when they start again",
        data=dict(chosen),
    )
