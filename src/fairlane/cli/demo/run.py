"""A run over events: conducted, and judged when all is over."""

from fairlane.cli.demo.check import check
from fairlane.cli.demo.database import PREFIX
from fairlane.cli.demo.display import Display
from fairlane.cli.demo.events import Events
from fairlane.cli.demo.input import Json
from fairlane.cli.demo.plan import Plan
from fairlane.cli.demo.publishing import Publishing
from fairlane.cli.demo.report import Result, report
from fairlane.cli.demo.scene import crew_in_words, perform, scene
from fairlane.cli.demo.wording import counted
from fairlane.transport import AsyncMongoTransport

__all__ = ("run",)


async def run(plan: Plan, display: Display) -> Result:
    """Run the demo and judge it. Whatever happens, no process, file or database of it stays."""
    async with scene(plan, display, _opening(plan)) as setting:
        database, fleet = setting.database, setting.fleet
        transport = AsyncMongoTransport[dict[str, Json]](
            database.driver.client, database.name, PREFIX
        )
        async with transport:
            publishing = Publishing(transport)
            act = Events(plan, publishing=publishing, database=database)
            await perform(plan, act, setting, display)
        verdict = check(publishing.published, fleet.executions(), fleet.killed)
        left = await database.leftovers()
        summary = report(plan, setting.server, publishing.published, verdict, left)
    waited = plan.visibility if fleet.killed else None
    return Result(report=summary, verdict=verdict, left=left, waited=waited)


def _opening(plan: Plan) -> str:
    events, groups = counted(len(plan.events), "event"), counted(plan.groups, "group")
    return f"{events} in {groups} for {crew_in_words(plan, 'claimer')}"
