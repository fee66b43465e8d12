"""Runs test programs, some at a time, with a time limit each, and reports one line per program.

Each program leads a process group of its own, so that one that hangs can be ended together with its children, and
nothing it left behind outlives it. Output is shown only for a program that failed. Used by run_tests and run_fuzz.
"""

import concurrent.futures
import dataclasses
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

SHOWN_OUTPUT_BYTES = 40_000
POLL_S = 0.01


@dataclasses.dataclass
class Program:
    name: str  # what is reported
    command: list
    limit_s: float
    environment: dict = dataclasses.field(default_factory=dict)
    path: str = ""  # of its file, where that is not the name
    unwanted: bytes = b""  # words whose appearance in the output is a failure


@dataclasses.dataclass
class Outcome:
    name: str
    reason: str  # empty when it passed
    seconds: float
    cpu_seconds: float  # of the program and of the children it waited for
    output: str


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def describe_exit(code):
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


def says(output, words):
    output.seek(0)
    return any(words in line for line in output)


def wait_for(process, limit_s):
    """Its exit code, None after the limit, and the seconds of CPU it took."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_utime + usage.ru_stime
        time.sleep(POLL_S)
    return None, 0.0


def run_program(program):
    if not os.path.exists(program.path or program.name):
        return Outcome(program.name, "was not built", 0.0, 0.0, "")
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(program.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                       start_new_session=True, env={**os.environ, **program.environment})
        except OSError as error:
            return Outcome(program.name, f"cannot be run: {error.strerror}", 0.0, 0.0, "")
        try:
            code, cpu_seconds = wait_for(process, program.limit_s)
            if code is None:
                reason = f"ended after its limit of {program.limit_s:g} s"
            else:
                reason = describe_exit(code) if code else ""
        finally:
            kill_group(process)
            process.wait()
        if not reason and program.unwanted and says(output, program.unwanted):
            reason = f"said \"{program.unwanted.decode()}\""
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - SHOWN_OUTPUT_BYTES))
        text = output.read().decode("utf-8", "replace")
    return Outcome(program.name, reason, time.monotonic() - start, cpu_seconds, text)


def note_of(outcome):
    """What a passing program's output says that a reader should know."""
    skipped = len(re.findall(r"^\[  SKIPPED \] [a-z]", outcome.output, re.MULTILINE))
    if skipped:
        return f"  ({skipped} skipped inside)"
    runs = re.search(r"^Done (\d+) runs in (\d+) second", outcome.output, re.MULTILINE)
    if runs:
        return f"  ({int(runs[1]) // max(1, int(runs[2]))} runs/s)"
    return ""


def times_of(outcome):
    return f"{outcome.seconds:7.2f} s, {outcome.cpu_seconds:7.2f} s of CPU"


def report(outcome):
    if not outcome.reason:
        print(f"ok   {times_of(outcome)}  {outcome.name}{note_of(outcome)}", flush=True)
        return
    print(f"FAIL {times_of(outcome)}  {outcome.name}: {outcome.reason}")
    for line in outcome.output.splitlines():
        print(f"    {line}")
    sys.stdout.flush()


def add_to_tally(path, outcome):
    if path:
        with open(path, "a", encoding="utf-8") as tally:
            tally.write(f"{'fail' if outcome.reason else 'pass'}\t{outcome.name}\n")


def run_all(programs, jobs, tally, build_failed=False):
    """Runs and reports every program; returns the exit code: 0 when all passed."""
    outcomes = []
    if build_failed:
        outcomes.append(Outcome("build", "some programs could not be built (see above)", 0.0, 0.0, ""))
        report(outcomes[0])
        add_to_tally(tally, outcomes[0])
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run_program, p) for p in programs]):
            outcomes.append(future.result())
            report(outcomes[-1])
            add_to_tally(tally, outcomes[-1])
    failed = sum(1 for outcome in outcomes if outcome.reason)
    print(f"{len(outcomes) - failed} passed, {failed} failed", flush=True)
    return 1 if failed else 0
