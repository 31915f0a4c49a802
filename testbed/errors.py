"""What can keep the test cluster from coming up; each message is one line with the mend in it."""


class BedError(Exception):
    """Root of all errors of the test cluster."""


class MissingPrerequisite(BedError):
    """The machine lacks something that the test cluster needs; tests are skipped with this line."""


class ComponentFailed(BedError):
    """A part of the test cluster did not start, stopped by itself, or did not do what it was waited for."""
