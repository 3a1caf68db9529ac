"""Says what a job has in its working directory, which one host has and no other (``model.host_directories``). Pure."""

from __future__ import annotations

from supervisor.model.phrases import counted
from supervisor.model.usage import AttemptUsage, DirectoryUse

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def directory_of(usage: AttemptUsage | None) -> DirectoryUse | None:
    """Returns what the job has written there; None if that is nothing, or not known."""
    found = None if usage is None else usage.directory
    return found if found is not None and found.files else None


def said(use: DirectoryUse) -> str:
    """Returns how much there is, with the names of the largest."""
    names = f": {', '.join(use.names)}" if use.names else ""
    return f"{counted(use.files, 'file')}, {_size(use.bytes)}{names}"


def only_here(usage: AttemptUsage | None, host: str) -> str:
    """Returns the warning for a job that runs on ``host``; empty if it has written nothing there."""
    use = directory_of(usage)
    return "" if use is None else f"only {host} has what it wrote to its working directory ({said(use)})"


def stays_behind(usage: AttemptUsage | None, host: str) -> str:
    """Returns the warning for a job that is to leave ``host``; empty if it has written nothing there."""
    use = directory_of(usage)
    if use is None:
        return ""
    return (
        f"what it wrote to its working directory stays on {host}, in {use.path} ({said(use)}): "
        "a driver elsewhere begins without it"
    )


def _size(size_bytes: int) -> str:
    value, unit = float(size_bytes), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {UNITS[unit]}" if unit else f"{size_bytes} bytes"
