"""A jump of the wall clock changes no wait: only times that are shown come from it, and waits are by the monotonic clock."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Times of log lines, of the process's start, of Ollama's `created_at`, and of the metric of adapters, whose value is the time.
SHOWN = {"proto/log.c", "frontend/serve/metrics/process_figures.c", "frontend/api/ollama/ollama_format.c",
         "frontend/serve/routes/metrics_page.c"}


def sources():
    for folder in ("proto", "shm", "frontend", "worker"):
        for path in (ROOT / folder).rglob("*.c"):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def test_the_wall_clock_is_only_shown():
    assert {name for name, text in sources() if "CLOCK_REALTIME" in text} <= SHOWN


def test_timed_waits_are_by_the_monotonic_clock():
    waits = [(name, text) for name, text in sources() if "pthread_cond_timedwait" in text]
    assert waits
    for name, text in waits:
        assert "pthread_condattr_setclock" in text and "CLOCK_MONOTONIC" in text, name
    assert not [name for name, text in sources() if re.search(r"pthread_(timedjoin_np|mutex_timedlock)|sem_timedwait", text)]
