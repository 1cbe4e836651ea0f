"""A clock for tests of how soon something ends."""
import functools
import threading
import time

TICK_S, STANDSTILL_S = 0.05, 0.5


class RunningClock:
    """Seconds in which this machine did not stand still, when nothing ends: of a longer pause between two ticks only a tick counts."""

    def __init__(self):
        self._lock, self._seconds, self._last = threading.Lock(), 0.0, time.monotonic()
        threading.Thread(target=self._tick, daemon=True).start()

    def _tick(self):
        while True:
            time.sleep(TICK_S)
            self.seconds()

    def seconds(self):
        with self._lock:
            now = time.monotonic()
            since = now - self._last
            self._seconds, self._last = self._seconds + (since if since < STANDSTILL_S else TICK_S), now
            return self._seconds


@functools.cache
def _clock():
    return RunningClock()


def running_seconds():
    """Of the one clock of a test program, since the first call. Threads  any."""
    return _clock().seconds()
