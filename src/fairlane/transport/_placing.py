"""Keep locks in partitions that claimers look into."""

from fairlane.driver import Document
from fairlane.lease import commands
from fairlane.lease.reconciler import Reconciled, Reconciler, Rules
from fairlane.transport import _group_commands
from fairlane.transport._store import Store

__all__ = ("Placer",)


class Placer:
    def __init__(self, store: Store) -> None:
        self._store = store
        rules = Rules(
            # An id need not be a text where somebody else has written it.
            partition_of=lambda key: store.partition_of(str(key)),
            adopted=_group_commands.adopted,
            fields=("done",),
        )
        self._reconciler = Reconciler(rules)

    async def adopt(self) -> int:
        """Give locks of the original design the fields that a claim looks for."""
        await self._store.now()
        return (await self._run(commands.unplaced())).adopted

    async def reconcile(self) -> int:
        """Put every lock where claimers look; when all are there they need not look elsewhere."""
        await self._store.now()  # tells by which number groups are placed
        done = await self._run(commands.misplaced(self._store.placing()))
        if not done:
            await self._store.narrow()
        return done.adopted + done.moved

    async def _run(self, match: Document) -> Reconciled:
        return await self._reconciler.run(self._store.locks, match, now=self._store.clock)
