"""`fairlane demo`: work off a stream of events under fire, then check every promise from a record.

`input` reads the stream, `publishing` and `handling` do the work, `records` is what really
happened, `check` judges it, `report` and `table` tell it, and `run` conducts. `jobs` has the same
for typed jobs; `scene`, `stage`, `fleet` and `_worker` are for both.
"""

__all__ = ()
