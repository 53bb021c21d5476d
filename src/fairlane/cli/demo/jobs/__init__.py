"""`fairlane demo --jobs`: the same for typed jobs.

`kinds` and `plan` say what there is to do, `enqueuing` and `handling` do it, `ledger` is what the
database says of it, `check` judges, `report` and `table` tell, and `run` conducts.
"""

__all__ = ()
