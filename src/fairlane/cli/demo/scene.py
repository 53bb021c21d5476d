"""What every run needs around it: a server, a new database, a folder, and workers on watch."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from fairlane.cli.demo.crew import Crew
from fairlane.cli.demo.database import Database, fresh_database
from fairlane.cli.demo.display import Display
from fairlane.cli.demo.fleet import Fleet
from fairlane.cli.demo.heartbeat import Heartbeat
from fairlane.cli.demo.stage import Act, Stage
from fairlane.cli.demo.wording import counted, server_in_words
from fairlane.testing import local_server

__all__ = ("Scene", "crew_in_words", "perform", "scene")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What there is for a run; `server` is its name, as results tell it."""

    server: str
    database: Database
    fleet: Fleet


@asynccontextmanager
async def scene(plan: Crew, display: Display, opening: str) -> AsyncIterator[Scene]:
    """Set the scene; say `opening` when there is a server. Nothing of it stays."""
    async with AsyncExitStack() as stack:
        url, server = await stack.enter_async_context(_server(plan))
        database = await stack.enter_async_context(fresh_database(url, plan.driver, display))
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="fairlane-demo-")))
        server = server or await database.server_name()
        display.note(opening)
        display.note(f"server: {server_in_words(server)}")
        fleet = Fleet(plan, url=url, database=database.name, folder=folder)
        yield Scene(server=server, database=database, fleet=fleet)


async def perform(plan: Crew, act: Act, scene: Scene, display: Display) -> None:
    """Let the workers work off the act; when this returns all of them are gone."""
    async with scene.fleet:
        stage = Stage(plan, act, fleet=scene.fleet, display=display)
        try:
            async with Heartbeat(scene.database.ping, display.note).watching():
                await stage.play()
        except BaseException:
            display.stopping()
            raise


def crew_in_words(plan: Crew, noun: str) -> str:
    return f"{counted(plan.workers, noun)} in {counted(plan.processes, 'process', 'processes')}"


@asynccontextmanager
async def _server(plan: Crew) -> AsyncIterator[tuple[str, str | None]]:
    """Yield the URL of a server, and its name where we started it."""
    if plan.url is not None:
        yield plan.url, None
        return
    async with local_server() as server:
        yield server.url, server.name
