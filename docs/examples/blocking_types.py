from datetime import date
from decimal import Decimal
from enum import StrEnum

from pydantic import BaseModel, field_serializer

from fairlane import JobContext, JobQueue, Jobs

jobs = Jobs()


# [model]
class Currency(StrEnum):
    EUR = "EUR"


class Invoice(BaseModel):
    number: int
    currency: Currency
    due: date
    total: Decimal

    @field_serializer("due", "total")
    def as_text(self, value: date | Decimal) -> str:
        return str(value)


# [model-end]


# [type]
@jobs.event("invoice", payload=Invoice, priority=5, max_attempts=4)
def print_invoice(ctx: JobContext, invoice: Invoice) -> None:
    print("invoice", invoice.number, invoice.total)


def main() -> None:
    invoice = Invoice(number=7, currency=Currency.EUR, due=date(2030, 1, 31), total=Decimal("9.90"))
    with JobQueue.connect("mongodb://localhost:27017", "app") as queue:
        added = print_invoice.enqueue(queue, invoice, unique_key="invoice:7")
        job = queue.get(added.id)
        if job:
            print(job.state, "priority", job.priority, "attempts", job.max_attempts)
            print(job.payload)
        # [type-end]
        print("cancelled", queue.cancel(added.id))


if __name__ == "__main__":
    main()
