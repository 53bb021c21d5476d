"""Call what an application has registered for a type of jobs."""

import logging
from functools import partial
from typing import Any

from fairlane.checks import is_async
from fairlane.containing import contained
from fairlane.conversion import undecodable
from fairlane.errors import FairlaneError, PayloadError
from fairlane.jobs import Definition, JobContext
from fairlane.retry import ANSWERS, Fail, as_answer
from fairlane.worker._hooks import Hook, Stay, called
from fairlane.worker._job_outcome import Answer
from fairlane.worker._work import Hold

__all__ = ("asked", "run")

logger = logging.getLogger(__name__)

WRONG_ANSWER = "on_error of %s must return Retry, Snooze, Discard, Fail or None, not %.300r"


async def run(definition: Definition, hold: Hold, stay: Stay | None, context: Any) -> Any:
    if not isinstance(context, JobContext):
        raise FairlaneError(f"call_next takes the JobContext, not {context!r:.100}")
    call = partial(definition.handler, *_arguments(definition, context))
    if is_async(definition.handler):
        hold.begin()
        return await call()
    return await hold.in_thread(call if stay is None else stay.around(call))


def _arguments(definition: Definition, context: JobContext) -> tuple[Any, ...]:
    """Return what the handler is called with. A payload that is not valid will never be."""
    if definition.is_recurring:
        return (context,)
    try:
        return (context, definition.params(context.job.payload))
    except PayloadError as error:
        raise Fail(undecodable(error)) from error


async def asked(
    on_error: Hook, error: BaseException, context: JobContext, name: str
) -> Answer | None:
    """Return what the application answers to an error; None if it has nothing good to say."""
    try:
        answer = as_answer(await contained(called(on_error, error, context)))
    except Exception:
        logger.exception("on_error of %s raised; it goes the way of one without on_error", name)
        return None
    if answer is None or isinstance(answer, ANSWERS):
        return answer
    logger.error(WRONG_ANSWER, name, answer)
    return None
