"""Tasks run one after the other, by local processes or threads, or by a cluster."""

from __future__ import annotations

from ._broadcast import Broadcast, broadcast
from ._executor import Executor, Task

__all__ = ["Broadcast", "Executor", "Task", "broadcast"]
