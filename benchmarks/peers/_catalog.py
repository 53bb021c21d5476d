"""Who takes part: libraries with their pinned requirements, and what to know of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ("SUBJECTS", "Reads", "Subject")

Reads = Literal["first", "up to all", "all", "all here"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One line of the table.

    Attributes:
        program: module of `benchmarks.peers.subjects` that drives it.
        title: what the table calls it.
        requirements: what is installed for it; empty: it runs in the project's own environment.
        batch: messages asked for at once; 0 stands for the number of workers.
        keeps_order: it promises order within a group.
        workers: how its workers run.
        settled: what is taken as the end of a message's life.
        reads: which waiting messages a life reads: the first ones by an index; up to all, until
            one fits; all; or all on a local server only, whose planner is repaired for other
            queries than its own. By its queries and indexes, and by the time that they take.
    """

    program: str
    title: str
    requirements: tuple[str, ...] = ()
    batch: int = 1
    keeps_order: bool = False
    workers: str = "tasks of one event loop, a claim each"
    settled: str = "its acknowledgement returned"
    reads: Reads = "first"


SUBJECTS: Mapping[str, Subject] = {
    "fairlane": Subject(
        program="fairlane_pool",
        title="fairlane, worker pool",
        keeps_order=True,
        workers="slots of one WorkerPool",
    ),
    "fairlane-verbs": Subject(
        program="fairlane_verbs", title="fairlane, claim and ack", keeps_order=True
    ),
    "fairlane-batch16": Subject(
        program="fairlane_pool",
        title="fairlane, worker pool, batch=16",
        batch=16,
        keeps_order=True,
        workers="slots of one WorkerPool",
    ),
    "seed": Subject(
        program="seed",
        title="the seed's protocol, literally",
        keeps_order=True,
        reads="up to all",  # until it meets one of the group: no index on its name
    ),
    "floor": Subject(
        program="floor",
        title="floor: the driver alone, batched",
        batch=0,
        workers="one loop that takes a batch for all",
        settled="its deletion returned",
    ),
    "floor-single": Subject(
        program="floor",
        title="the driver alone, one by one",
        settled="its deletion returned",
    ),
    "harel": Subject(
        program="harel_transport",
        title="harel",
        requirements=("harel[mongo]==0.9.0", "motor==3.7.1", "pymongo==4.20.1"),
        keeps_order=True,
        reads="up to all",  # until it meets one of the group: no index on its name
    ),
    "taskiq-mongodb": Subject(
        program="taskiq_broker",
        title="taskiq-mongodb",
        # It accepts taskiq 0.13.0, whose `taskiq.compat` lacks what it imports from there.
        requirements=("taskiq-mongodb==0.1.0", "taskiq==0.12.6", "pymongo==4.20.1"),
        workers="asynchronous tasks of one receiver, which claims for them in one loop",
        reads="all here",  # two updateMany before each claim
    ),
    "mongo-taskqueue": Subject(
        program="mongo_taskqueue",
        title="mongo-taskqueue",
        requirements=("mongo-taskqueue[async]==1.0.4", "motor==3.7.1", "pymongo==4.20.1"),
        reads="all",  # a range comes before the sort in its index
    ),
    "dramatiq-mongodb": Subject(
        program="dramatiq_broker",
        title="dramatiq-mongodb",
        requirements=("dramatiq-mongodb==0.8.3", "dramatiq==1.18.0", "pymongo==4.20.1"),
        reads="all",  # no index, and what is done stays
        workers="threads of one process, fed by one thread that claims",
    ),
    "huey-mongodb": Subject(
        program="huey_storage",
        title="huey-mongodb",
        requirements=("huey-mongodb==1.1.1", "huey==2.5.5", "pymongo==4.11.3"),
        reads="all",  # its index is in another order than its sort
        workers="threads of one consumer",
        settled="its function returned; it left the queue before",
    ),
    "celery": Subject(
        program="celery_kombu",
        title="celery over kombu's mongodb",
        requirements=("celery[mongodb]==5.7.0", "kombu==5.7.0", "pymongo==4.18.3"),
        workers="threads of one process, fed by one thread that claims",
        settled="its function returned; it left the queue before",
    ),
    "beanie-batteries-queue": Subject(
        program="beanie_queue",
        title="beanie-batteries-queue",
        requirements=("beanie-batteries-queue==0.4.0", "beanie==2.2.0", "pymongo==4.20.1"),
        workers="its Workers, as tasks of one event loop",
        reads="all here",  # a sorted find whose filter is inside an $and
    ),
}
