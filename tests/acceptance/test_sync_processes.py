"""The blocking transport in programs that end, fork and are interrupted."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from fairlane import MongoTransport

SECONDS = 20.0
EXIT_SECONDS = 3.0
PROMPT_SECONDS = 2.0

PRELUDE = """
import asyncio, atexit, multiprocessing, os, socket, sys, threading
from pymongo.monitoring import CommandListener
from fairlane import AsyncMongoTransport, FairlaneError, MongoTransport

url, db_name, driver = sys.argv[1:]
strategy = "find_one_and_update"  # whose command is waited for
claims = threading.Event()


class Listener(CommandListener):
    def started(self, event):
        if event.command_name == "findAndModify" and "locks" in event.command["findAndModify"]:
            claims.set()

    def succeeded(self, event): pass
    def failed(self, event): pass


def say(*words):
    print(*words, flush=True)


def exit_status(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def opened(**options):
    ours = {"driver": driver, "appName": db_name, "strategy": strategy}
    return MongoTransport.from_url(url, db_name, **ours, **options)


transport = opened(event_listeners=[Listener()])
transport.publish("g", 1)
say("ready")
sys.stdin.readline()
"""


class Program:
    """A program after the prelude, in a process group of its own, read line by line."""

    def __init__(self, text: str, *arguments: str) -> None:
        # Later Pythons warn of every fork in a program with threads.
        command = (sys.executable, "-W", "ignore::DeprecationWarning", "-c", PRELUDE + text)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            (*command, *arguments),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=True,
        )

    def read_until(self, line: str) -> list[str]:
        """Return the lines before `line`; fails with what went wrong if it does not come."""
        assert self.process.stdout is not None
        lines: list[str] = []
        for found in self.process.stdout:
            if found.strip() == line:
                return lines
            lines.append(found.strip())
        pytest.fail(f"no {line!r} after {lines}:\n{self.rest()}")

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def rest(self) -> str:
        """Return what else it prints, on both streams, until it ends."""
        out, err = self.process.communicate(timeout=SECONDS)
        return out + err

    def ends_quietly(self) -> float:
        """Check that it prints nothing after "end"; return how long it takes to be gone."""
        self.read_until("end")
        ended_at = time.monotonic()
        assert (self.rest(), self.process.returncode) == ("", 0)
        return time.monotonic() - ended_at

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


Run = Callable[..., Program]


@pytest.fixture
def run(fairlane_url: str, db_name: str, driver: str) -> Iterator[Run]:
    """Return a function that starts a program; `slow_claim` slows its first claim down."""
    programs: list[Program] = []
    with MongoClient[Any](fairlane_url) as client:

        def start(text: str, *, slow_claim: int = 0) -> Program:
            program = Program(text, fairlane_url, db_name, driver)
            programs.append(program)
            program.read_until("ready")
            if slow_claim:
                slow_down(client, db_name, slow_claim)
            program.go_on()
            return program

        yield start
        for program in programs:
            program.kill()
        client.drop_database(db_name)


def slow_down(client: MongoClient[Any], app_name: str, milliseconds: int) -> None:
    """Let the next claim of an application take so long on the server."""
    data = {"failCommands": ["findAndModify"], "appName": app_name}
    data |= {"blockConnection": True, "blockTimeMS": milliseconds}
    try:
        client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)
    except OperationFailure as error:
        pytest.skip(f"the server has no failpoints: {error.details}")


only_motor = pytest.mark.parametrize("driver", ["motor"])
only_pymongo = pytest.mark.parametrize("driver", ["pymongo"])


FORGOTTEN = """
transport.dead_letter(transport.claim("w1"), "broken")
letters = transport.dead_letters()
next(letters)
say("end")
"""


def test_program_ends_by_itself_when_close_is_forgotten(run: Run) -> None:
    assert run(FORGOTTEN).ends_quietly() < EXIT_SECONDS


@only_motor
def test_program_ends_by_itself_after_close(run: Run) -> None:
    program = run("transport.close(); transport.close(); say('end')")
    assert program.ends_quietly() < EXIT_SECONDS


IN_CALLS = """
def work():
    while True:
        transport.claim("w1")

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
claims.wait()
say("end")
"""


def test_daemon_threads_in_calls_do_not_hold_up_the_end(run: Run) -> None:
    assert run(IN_CALLS, slow_claim=5_000).ends_quietly() < EXIT_SECONDS


LOCKED = """
lock, is_held = threading.Lock(), threading.Event()

@atexit.register
def last_words():
    with lock:
        say("end")

second = opened()

def work():
    while True:
        with lock:
            is_held.set()
            second.claim("w1")

threading.Thread(target=work, daemon=True).start()
is_held.wait()
"""


@only_pymongo
def test_daemon_thread_that_is_refused_at_exit_lets_go_of_its_locks(run: Run) -> None:
    assert run(LOCKED).ends_quietly() < EXIT_SECONDS


OPENING = """
listener = socket.create_server(("127.0.0.1", 0))
silent = "mongodb://127.0.0.1:%d" % listener.getsockname()[1]
threading.Thread(
    target=MongoTransport.from_url, args=(silent,), kwargs={"driver": driver}, daemon=True
).start()
listener.accept()
say("end")
"""


@only_motor
def test_opening_in_a_daemon_thread_does_not_hold_up_the_end(run: Run) -> None:
    assert run(OPENING).ends_quietly() < EXIT_SECONDS


AFTER_THE_MAIN_THREAD = """
def work():
    threading.main_thread().join()
    transport.publish_many([("later", number) for number in range(5)])
    done = 0
    while lease := transport.claim("w1"):
        done += transport.ack(lease)
    say("done", done)
    say("end")

threading.Thread(target=work).start()
"""


def test_thread_may_go_on_after_the_main_thread_has_ended(run: Run) -> None:
    program = run(AFTER_THE_MAIN_THREAD)
    assert program.read_until("end") == ["done 6"]
    assert program.rest() == ""


LAST_WORDS = """
@atexit.register
def last_words():
    try:
        second.publish("last", 1)
    except FairlaneError as error:
        say(error)
    say("published", transport.publish("last", 2))
    say("end")

second = opened()
"""


@only_pymongo
def test_transport_can_be_used_at_exit_until_its_own_turn_comes(run: Run) -> None:
    closed = "this MongoTransport is closed; make a new one"
    program = run(LAST_WORDS)
    assert program.read_until("end") == [closed, "published 2"]
    assert program.rest() == ""


FORKED = """
lease = transport.claim("parent")
stop = threading.Event()

def work():
    while not stop.is_set():
        transport.stats()

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
statuses = []
for child in ("works", "forgets"):
    pid = os.fork()
    if pid == 0:
        if child == "works":
            transport.publish("child", 1)
            assert transport.ack(lease)
        del transport
        sys.exit(0)
    statuses.append(exit_status(pid))
stop.set()
for thread in threads:
    thread.join()
say(statuses, transport.stats().messages, transport.ack(lease))
say("end")
"""


def test_forked_children_and_their_parent_work_side_by_side(run: Run) -> None:
    program = run(FORKED)
    assert program.read_until("end") == ["[0, 0] 1 False"]
    assert program.rest() == ""


FORKED_WHILE_OPENING = """
parent, begun, may_open = os.getpid(), threading.Event(), threading.Event()

async def factory():
    if os.getpid() == parent:
        begun.set()
        await asyncio.to_thread(may_open.wait)
    return AsyncMongoTransport.from_url(url, db_name, driver=driver, strategy=strategy)

shared = MongoTransport(factory)
opener = threading.Thread(target=shared.stats)
opener.start()
begun.wait()
pid = os.fork()
if pid == 0:
    shared.publish("child", 1)
    shared.close()
    sys.exit(0)
say(exit_status(pid))
may_open.set()
opener.join()
say(shared.stats().messages)
say("end")
"""


@only_motor
def test_forked_child_does_not_wait_for_the_opening_of_its_parent(run: Run) -> None:
    assert run(FORKED_WHILE_OPENING).read_until("end") == ["0", "2"]


FORKED_ITERATION = """
transport.publish("h", 2)
for lease in transport.claim_many("w1", 2):
    transport.dead_letter(lease, "broken")
letters = transport.dead_letters()
next(letters)
pid = os.fork()
if pid == 0:
    try:
        next(letters)
    except FairlaneError as error:
        say(error)
    say(len(list(transport.dead_letters())))
    sys.exit(0)
say(exit_status(pid), len(list(letters)))
say("end")
"""


@only_pymongo
def test_iteration_does_not_go_on_in_a_forked_child(run: Run) -> None:
    error, in_child, after = run(FORKED_ITERATION).read_until("end")
    assert "begun before a fork" in error
    assert (in_child, after) == ("2", "0 1")


MULTIPROCESSING = """
def work():
    transport.ack(transport.claim("child"))

process = multiprocessing.get_context("fork").Process(target=work)
process.start()
process.join()
say(process.exitcode, transport.stats().messages)
say("end")
"""


@only_motor
def test_process_of_multiprocessing_may_use_the_transport_of_its_parent(run: Run) -> None:
    program = run(MULTIPROCESSING)
    assert program.read_until("end") == ["0 0"]
    assert program.rest() == ""


INTERRUPTED = """
threading.Thread(target=lambda: claims.wait() and say("sent"), daemon=True).start()
try:
    transport.claim("w1")
except KeyboardInterrupt:
    say("interrupted")
while not (lease := transport.claim("w2")):
    pass
say(lease.attempt, lease.token.partition(":")[0], transport.ack(lease))
say("end")
"""


def interrupted(program: Program) -> float:
    """Interrupt the claim that is on its way; return how long that takes."""
    program.read_until("sent")
    sent_at = time.monotonic()
    os.kill(program.process.pid, signal.SIGINT)
    program.read_until("interrupted")
    return time.monotonic() - sent_at


def test_interrupted_claim_gives_its_group_back(run: Run) -> None:
    program = run(INTERRUPTED, slow_claim=500)
    interrupted(program)
    assert program.read_until("end") == ["1 w2 True"]
    assert program.rest() == ""


@only_pymongo
def test_interrupt_does_not_wait_for_the_server(run: Run) -> None:
    assert interrupted(run(INTERRUPTED, slow_claim=5_000)) < PROMPT_SECONDS


UNHANDLED = """
threading.Thread(target=lambda: claims.wait() and say("sent"), daemon=True).start()
transport.claim("w1")
"""


@only_motor
def test_program_that_an_interrupt_ends_leaves_no_lease(
    run: Run, fairlane_url: str, db_name: str
) -> None:
    program = run(UNHANDLED, slow_claim=500)
    program.read_until("sent")
    os.kill(program.process.pid, signal.SIGINT)
    assert program.rest().endswith("KeyboardInterrupt\n")
    assert program.process.returncode == -signal.SIGINT
    with MongoTransport[Any].from_url(fairlane_url, db_name) as observer:
        assert (observer.stats().leased, observer.stats().ready) == (0, 1)
