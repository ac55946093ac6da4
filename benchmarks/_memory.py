"""Resident memory while something runs, by looking often."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path


def resident():
    """Megabytes of this process in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak_above(function):
    """Megabytes by which memory rises at most while `function` runs, looked at every few milliseconds."""
    done = threading.Event()
    before = resident()
    seen = [before]

    def look():
        while not done.is_set():
            seen.append(resident())
            time.sleep(0.003)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        function()
    finally:
        done.set()
        watcher.join()
    return max(seen) - before
