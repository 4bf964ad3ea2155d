"""The process: its CPU time, memory, files and threads, the garbage collector, and how late the event loop is.

Names are those that Prometheus' own client libraries use, so that everybody's dashboards fit.
"""

import asyncio
from collections.abc import Callable

from headrace.broker.metrics.collecting import Collecting, Page
from headrace.host.process import GarbagePauses, ProcessState, garbage_statistics, interpreter, read_process
from headrace.metrics.families import counter, gauge, histogram
from headrace.metrics.histogram import FineSeconds
from headrace.metrics.log_lines import FIGURES
from headrace.metrics.scrape import Scrape

CPU = counter("process_cpu_seconds_total", "CPU time used by the process, user and system.")
RESIDENT = gauge("process_resident_memory_bytes", "Memory of the process that is in RAM.")
VIRTUAL = gauge("process_virtual_memory_bytes", "Address space of the process.")
OPEN_FILES = gauge("process_open_fds", "Open file descriptors: files and connections.")
OPEN_FILES_MAX = gauge("process_max_fds", "File descriptors that the process may open.")
STARTED = gauge("process_start_time_seconds", "When the process started, in seconds since 1970.")
THREADS = gauge("headrace_process_threads", "Threads of the process.")
PYTHON = gauge("python_info", "The interpreter; always 1.", "implementation", "version")
COLLECTIONS = counter("python_gc_collections_total", "Runs of the garbage collector.", "generation")
COLLECTED = counter("python_gc_objects_collected_total", "Objects that the garbage collector freed.", "generation")
UNCOLLECTABLE = counter(
    "python_gc_objects_uncollectable_total", "Objects that the garbage collector could not free.", "generation"
)
PAUSES = counter("headrace_gc_pause_seconds_total", "Time for which the garbage collector stopped everything else.")
LOOP_DELAY = histogram(
    "headrace_loop_delay_seconds",
    "How late the event loop called back: what every request waits for while something else keeps the loop.",
)
LOG_LINES = counter("headrace_log_lines_total", "Lines that this process logged, or would have, by level.", "level")
LOG_LINES_LEFT_OUT = counter(
    "headrace_log_lines_left_out_total", "Of these, warnings and errors left out because they said the same again and again."
)
LOOK_S = 0.1


class ProcessCollector:
    """Reads them when asked; only the loop is watched all the time."""

    def __init__(self, loop_delay: FineSeconds, monotonic: Callable[[], float]) -> None:
        self._loop_delay = loop_delay
        self._monotonic = monotonic
        self.pauses = GarbagePauses()

    async def watch_loop(self) -> None:
        """Measure for ever how late the loop is."""
        while True:
            due = self._monotonic() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self._loop_delay.observe(max(0.0, self._monotonic() - due))

    def collect(self, scrape: Scrape, page: Page) -> Collecting:
        if page is not Page.SUMMARY:
            return
        state: ProcessState = yield read_process
        scrape.add(CPU, state.cpu_seconds)
        scrape.add(RESIDENT, state.resident_bytes)
        scrape.add(VIRTUAL, state.virtual_bytes)
        scrape.add(OPEN_FILES, state.open_files)
        scrape.add(OPEN_FILES_MAX, state.open_files_max)
        scrape.add(STARTED, state.started_at)
        scrape.add(THREADS, state.threads)
        scrape.add(PYTHON, 1, *interpreter())
        rows = scrape.rows(COLLECTIONS, COLLECTED, UNCOLLECTABLE)
        for generation, found in enumerate(garbage_statistics()):
            rows.append(((generation,), (found["collections"], found["collected"], found["uncollectable"])))
        scrape.add(PAUSES, self.pauses.seconds)
        scrape.add(LOOP_DELAY, self._loop_delay.taken())
        scrape.rows(LOG_LINES).extend(((level,), (count,)) for level, count in list(FIGURES.lines.items()))
        scrape.add(LOG_LINES_LEFT_OUT, FIGURES.left_out)
