"""Time as it is written down."""

from datetime import UTC, datetime, timedelta


def now_text(in_seconds: float = 0.0) -> str:
    """Return the time ``in_seconds`` from now: UTC, ISO 8601 with milliseconds."""
    return (datetime.now(UTC) + timedelta(seconds=in_seconds)).isoformat(timespec="milliseconds")


def time_text(timestamp: float) -> str:
    """Return a POSIX timestamp in the same form."""
    return datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="milliseconds")
