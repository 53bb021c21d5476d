"""Set the stage for a demo run, let it play, judge what happened."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fairlane.cli.demo.check import check
from fairlane.cli.demo.database import PREFIX, fresh_database
from fairlane.cli.demo.display import Display
from fairlane.cli.demo.fleet import Fleet
from fairlane.cli.demo.heartbeat import Heartbeat
from fairlane.cli.demo.input import Json
from fairlane.cli.demo.plan import Plan
from fairlane.cli.demo.publishing import Publishing
from fairlane.cli.demo.report import Result, report
from fairlane.cli.demo.stage import Stage
from fairlane.cli.demo.wording import counted, server_in_words
from fairlane.testing import local_server
from fairlane.transport import AsyncMongoTransport

__all__ = ("run",)


async def run(plan: Plan, display: Display) -> Result:
    """Run the demo and judge it. Whatever happens, no process, file or database of it stays."""
    async with AsyncExitStack() as stack:
        url, server = await stack.enter_async_context(_server(plan))
        database = await stack.enter_async_context(fresh_database(url, plan.driver, display))
        transport = await stack.enter_async_context(
            AsyncMongoTransport[dict[str, Json]](database.driver.client, database.name, PREFIX)
        )
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="fairlane-demo-")))
        server = server or await database.server_name()
        display.note(_opening(plan))
        display.note(f"server: {server_in_words(server)}")
        publishing = Publishing(transport)
        fleet = Fleet(plan, url=url, database=database.name, folder=folder)
        async with fleet:
            stage = Stage(
                plan, database=database, publishing=publishing, fleet=fleet, display=display
            )
            try:
                async with Heartbeat(database.ping, display.note).watching():
                    await stage.play()
            except BaseException:
                display.stopping()
                raise
        verdict = check(publishing.published, fleet.executions(), fleet.killed)
        left = await database.leftovers()
        summary = report(plan, server, publishing.published, verdict, left)
    waited = plan.visibility if fleet.killed else None
    return Result(report=summary, verdict=verdict, left=left, waited=waited)


def _opening(plan: Plan) -> str:
    return (
        f"{counted(len(plan.events), 'event')} in {counted(plan.groups, 'group')} for "
        f"{counted(plan.workers, 'claimer')} in "
        f"{counted(plan.processes, 'process', 'processes')}"
    )


@asynccontextmanager
async def _server(plan: Plan) -> AsyncIterator[tuple[str, str | None]]:
    """Yield the URL of a server, and its name where we started it."""
    if plan.url is not None:
        yield plan.url, None
        return
    async with local_server() as server:
        yield server.url, server.name
