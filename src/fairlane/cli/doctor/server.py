"""What the server is, and this machine's clock beside its clock. Pure functions judge."""

import time
from collections.abc import Mapping
from typing import Any

from fairlane.cli.doctor.finding import Finding, Status
from fairlane.cli.target import Deployment
from fairlane.clock import Clock, ServerClock

__all__ = ("clock", "judge_server", "judge_skew", "server")

OLDEST_WIRE_VERSION = 8  # MongoDB 4.2
TOLERATED = 1.0
"""Seconds; clocks that NTP keeps differ by less."""

Reply = Mapping[str, Any]


async def server(deployment: Deployment) -> Finding:
    admin = deployment.driver.client.get_database("admin")
    # `hello` is not known before MongoDB 4.4.2
    return judge_server(await admin.command("isMaster"), await admin.command("buildInfo"))


def judge_server(hello: Reply, build: Reply) -> Finding:
    wire_version = int(hello.get("maxWireVersion", 0))
    kind = _kind(hello)
    status, advice = _judgement(hello, build, wire_version)
    return Finding(
        check="server",
        status=status,
        detail=f"{_name(build)}, {kind}",
        advice=advice,
        data={"version": build["version"], "wire_version": wire_version, "kind": kind},
    )


def _kind(hello: Reply) -> str:
    if hello.get("msg") == "isdbgrid":
        return "sharded cluster"
    name = hello.get("setName")
    return "standalone" if name is None else f"replica set {name!r}"


def _name(build: Reply) -> str:
    if "secantusVersion" in build:
        return f"SecantusDB {build['secantusVersion']} (says version {build['version']})"
    return f"version {build['version']}"


def _judgement(hello: Reply, build: Reply, wire_version: int) -> tuple[Status, str | None]:
    if wire_version < OLDEST_WIRE_VERSION:
        return "error", "Fairlane needs MongoDB 4.2 or later"
    if not hello.get("ismaster"):
        return "error", "this is no primary: name the replica set in the URL, no directConnection"
    if "secantusVersion" in build:
        return "warning", "it is there for tests and demos; production needs MongoDB"
    if _kind(hello) == "standalone":
        return "warning", (
            "a standalone server loses what it acknowledged before it wrote its journal: add "
            "journal=true to the URL, or make it a replica set"
        )
    return "ok", None


async def clock(deployment: Deployment, wall: Clock = time.time) -> Finding:
    """Compare the clocks; a lease rests on the server's alone, whatever comes out."""
    learnt = ServerClock()
    await learnt.refresh(deployment.driver.server_time)
    return judge_skew(wall() - learnt(), learnt.error)


def judge_skew(skew: float, error: float) -> Finding:
    """Judge by how many seconds this machine is ahead, as measured with such an error."""
    is_tolerable = abs(skew) - error <= TOLERATED
    side = "ahead of" if skew > 0 else "behind"
    return Finding(
        check="clock",
        status="ok" if is_tolerable else "warning",
        detail=f"this machine is {abs(skew):.3f} s {side} the server, give or take {error:.3f} s",
        advice=None
        if is_tolerable
        else "leases go by the server's clock and are safe; set one of the two clocks right (NTP), "
        "for a run_at that is computed here, and for whoever compares logs",
        data={"skew": round(skew, 6), "error": round(error, 6)},
    )
