"""What a transport and a job queue are alike in: they are opened, looked at, and closed."""

from abc import ABC
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, ClassVar, Self

from fairlane.announcing import Announcer, Sleeper
from fairlane.checks import Seconds
from fairlane.driver import close
from fairlane.lease.settings import partition_count
from fairlane.lease.site import Site
from fairlane.lease.strategy import Strategy
from fairlane.opening import Opening, by_url

__all__ = ("Product",)


class Product(ABC):
    """Something on a database that leases; `async with` opens it, its first call does the same."""

    _OPTIONS: ClassVar[frozenset[str]]
    """Keyword arguments of the constructor; all others go to the client."""

    def __init__(self, store: Site) -> None:
        self._site = store
        self._owns_client = False
        self._announcer = Announcer()

    @classmethod
    def _by_url(
        cls,
        call: str,
        url: str,
        db_name: str,
        *,
        driver: str,
        connect_timeout: Seconds,
        options: dict[str, Any],
    ) -> Opening[Self]:
        """Return what opens a client of its own; `call` is what the user has written."""
        own = {key: options.pop(key) for key in tuple(options) if key in cls._OPTIONS}

        async def ready(client: Any) -> Self:
            product = cls._owning(client, db_name=db_name, **own)
            await product._site.ready()
            return product

        return by_url(
            f"{cls.__name__}.{call}",
            url,
            ready,
            driver=driver,
            connect_timeout=connect_timeout,
            options=options,
        )

    @classmethod
    def _owning(cls, client: Any, **options: Any) -> Self:
        product = cls(client, **options)
        product._owns_client = True
        return product

    @property
    def separate(self) -> "Callable[[], Self] | None":
        """What opens another one like this, with a client of its own, in another event loop.

        A `WorkerPool` renews leases through it. None where the client cannot be copied (in-process
        fakes).
        """
        # Not what an application has made of it, which may be opened otherwise.
        product: Any = next(each for each in type(self).__mro__ if Product in each.__bases__)
        return self._site.separate(product._owning)

    @property
    def watch(self) -> Callable[[Sleeper], Coroutine[Any, Any, None]] | None:
        """What tells a sleeper of all that becomes claimable, until it is cancelled.

        For pools. It returns where the server has no change streams; None with `wakeups=False`.
        """
        return self._site.watch

    async def __aenter__(self) -> Self:
        await self._site.ready()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def strategy(self) -> Strategy:
        """How leases are claimed: "find_one_and_update" or "update_one".

        Known once this is open, or has served its first call. "auto" before, and between a lost
        connection and the next claim: it may find another server.
        """
        return self._site.leaser.strategy

    @property
    def partitions(self) -> int:
        """How many partitions the stored settings say; known as `strategy` is, 1 before.

        Other programs change it by `repartition`; this one learns of that within 30 seconds.
        """
        return self._site.partitioning.partitions

    async def repartition(self, partitions: int) -> None:
        """Change the number of partitions (1 to 1,024) for all programs, while they run.

        They notice within 30 seconds and go over to the new number together, 60 seconds after this
        call. Claimers look into the partitions of both numbers, so nothing waits meanwhile.
        What is there moves when it is settled; if there are fewer partitions now, `reconcile()`,
        which worker pools run, moves the rest.

        Raises:
            ConfigurationError: a bad number, or others were changing it at the same time.
        """
        # Not opened first: a program that asked for another number is refused when it is.
        await self._site.change_partitions(partition_count("partitions", partitions))

    async def ensure_indexes(self) -> None:
        """Create missing indexes; safe from many processes at once.

        Raises:
            ConfigurationError: another index stands in the way (both definitions are shown), or
                the user may not create indexes.
        """
        await self._site.ensure_indexes()

    async def close(self) -> None:
        """Close the client if it was opened here, by a URL; may be called again.

        Calls on its messages or jobs then raise `FairlaneError`.
        """
        if self._owns_client:
            self._owns_client = False
            self._site.close(type(self).__name__)
            await close(self._site.driver.client)

    def subscribe(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` after each message or job stored through this; return what ends that.

        For pools in the same process, which need not wait for their next poll.
        """
        return self._announcer.subscribe(callback)
