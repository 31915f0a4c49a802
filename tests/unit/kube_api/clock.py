"""A clock in the test's hand."""


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.wall_s = 1e9

    def monotonic(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return self.wall_s

    def pass_by(self, seconds: float) -> None:
        self.now_s += seconds
        self.wall_s += seconds
