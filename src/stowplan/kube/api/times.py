"""Times as the API writes them."""

import datetime as dt

__all__ = ["micro_time", "time"]


def micro_time(wall_s: float) -> str:
    """A `MicroTime`, such as `2026-11-30T17:00:00.000001Z`.

    Args:
        wall_s: Seconds since the epoch.
    """
    return dt.datetime.fromtimestamp(wall_s, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def time(wall_s: float) -> str:
    """A `Time`, such as `2026-11-30T17:00:00Z`.

    Args:
        wall_s: Seconds since the epoch.
    """
    return dt.datetime.fromtimestamp(wall_s, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
