"""What the blocking facades of the transport and of the job queue have in common."""

from collections.abc import Iterable
from typing import Any, Self, TypeVar

from fairlane.checks import Seconds
from fairlane.lease.strategy import Strategy
from fairlane.product import Product
from fairlane.sync._facade import Facade

__all__ = ("BlockingProduct", "read_here")

P = TypeVar("P", bound=Product)
T = TypeVar("T")


class BlockingProduct(Facade[P]):
    @classmethod
    def _by_url(
        cls,
        url: str,
        db_name: str,
        *,
        driver: str,
        connect_timeout: Seconds,
        options: dict[str, Any],
    ) -> Self:
        opens = getattr(cls._kind, cls._opener)
        product = cls(
            lambda: opens(url, db_name, driver=driver, connect_timeout=connect_timeout, **options)
        )
        return product.__enter__()

    @property
    def strategy(self) -> Strategy:
        """How leases are claimed on this server; "auto" while that is to be found out."""
        return self._open().opened().strategy

    @property
    def partitions(self) -> int:
        """How many partitions the stored settings say."""
        return self._open().opened().partitions

    def repartition(self, partitions: int) -> None:
        """Change the number of partitions for all programs, while they run."""
        self._call(lambda product: product.repartition(partitions))

    def ensure_indexes(self) -> None:
        """Create missing indexes; safe from many processes at once."""
        self._call(lambda product: product.ensure_indexes())


def read_here(items: Iterable[T]) -> Iterable[T]:
    """Read an iterable in the thread of the caller; what is none is refused behind the facade."""
    is_one = isinstance(items, str | bytes | dict) or not isinstance(items, Iterable)
    return items if is_one else list(items)
