"""What this process may do, by the kernel's own word."""

from pathlib import Path

CAP_SYS_RESOURCE = 24  # linux/capability.h


def may_lower_oom_score(status: Path = Path("/proc/self/status")) -> bool:
    """Whether processes may be made less likely to be killed for memory; some containers forbid root that."""
    for line in status.read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> CAP_SYS_RESOURCE & 1)
    return False
