"""A judge of histories: what several writers recorded of one Delta table, compared with the table's log.

It needs Python and pyarrow, and shares no code with any engine, so that it can judge every one. `python -m
anabranch_judge TABLE HISTORY…` is the program; the format of a history is in `recorded_history`.
"""

__version__ = "0.1.0"
