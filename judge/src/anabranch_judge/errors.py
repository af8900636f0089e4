"""What keeps the judge from a judgement."""


class JudgeError(Exception):
    """The judge cannot read the table or the history. This is no fault of a writer."""
