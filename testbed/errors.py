"""What can keep the test cluster from coming up; each message says what is missing and the mend, on one line."""


class BedError(Exception):
    """Root of all errors of the test cluster."""


class MissingPrerequisite(BedError):
    """The machine lacks something that the test cluster needs; tests that need it are skipped with this line."""


class ComponentFailed(BedError):
    """A part of the test cluster did not start, stopped by itself, or did not do what it was waited for."""
