"""A run over jobs: conducted, and judged when all is over."""

from fairlane.cli.demo.database import PREFIX
from fairlane.cli.demo.display import Display
from fairlane.cli.demo.jobs.act import JobsAct
from fairlane.cli.demo.jobs.case import Evidence
from fairlane.cli.demo.jobs.check import check
from fairlane.cli.demo.jobs.enqueuing import Enqueuing
from fairlane.cli.demo.jobs.ledger import Ledger
from fairlane.cli.demo.jobs.plan import EVERY, JobsPlan
from fairlane.cli.demo.jobs.report import JobsResult, report
from fairlane.cli.demo.scene import crew_in_words, perform, scene
from fairlane.cli.demo.wording import counted
from fairlane.jobs import AsyncJobQueue

__all__ = ("run_jobs",)


async def run_jobs(plan: JobsPlan, display: Display) -> JobsResult:
    """Run the demo of jobs and judge it. No process, file or database of it stays."""
    async with scene(plan, display, _opening(plan)) as setting:
        database, fleet = setting.database, setting.fleet
        ledger = Ledger(database)
        async with AsyncJobQueue(database.driver.client, database.name, PREFIX) as queue:
            enqueuing = Enqueuing(queue)
            act = JobsAct(plan, enqueuing=enqueuing, ledger=ledger, fleet=fleet)
            await perform(plan, act, setting, display)
        evidence = Evidence(
            placed=enqueuing.placed,
            executions=fleet.executions(),
            settlements=fleet.settlements(),
            stored=await ledger.all(),
            held=act.held,
            killed=fleet.killed,
        )
    verdict = check(evidence)
    return JobsResult(
        report=report(plan, setting.server, evidence, verdict),
        verdict=verdict,
        waited=plan.visibility if fleet.killed else None,
    )


def _opening(plan: JobsPlan) -> str:
    jobs = counted(len(plan.jobs), "job")
    return f"{jobs}, and a recurring one every {EVERY:g} s, for {crew_in_words(plan, 'worker')}"
