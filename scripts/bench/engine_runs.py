"""Shared by the benchmarks of build/step_bench: running it on a device, parsing its output, the device's name and bandwidth, a table.

`options` are the options of a benchmark: device, input (positions before decoding), decode (steps), batches, prompt (tokens), repeat,
pipeline_cache.
"""

import collections
import pathlib
import re
import shlex
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 540  # a checkpoint of 17 GB is read, packed and measured in it
PROFILE_STEPS = 130  # enough for the backend to print a profile
READ_BYTES_PER_S = {"NVIDIA H200": 4.65e12}  # measured with kernels that only read
MATRIX_OPERATIONS_PER_S = {"NVIDIA H200": 278e12}  # f16 matrix units at best, measured with products that do nothing else
Decode = collections.namedtuple("Decode", "rate step_ms distinct_tokens")
Steps = collections.namedtuple("Steps", "loaded decodes prompt_rate")


class PartFailed(Exception):
    pass


def run_program(command, timeout_s):
    """What it prints; its commands are echoed, so that a run says how to repeat it."""
    command = [str(word) for word in command]
    print("$ " + shlex.join(command), flush=True)
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=timeout_s,
                              check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PartFailed(str(error)) from error
    if done.returncode != 0:
        raise PartFailed(f"status {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    return done.stdout + "\n" + done.stderr


def words_apart(line):
    return re.split(r" {2,}", line.strip())


def device_words(device):
    """(name, everything that `shoal devices` says of it); of A+B, which share the layers, of both."""
    if "+" in device:
        names, abouts = zip(*(device_words(part) for part in device.split("+")))
        return names[0], "\n".join(abouts)
    index = device.split(":")[1] if ":" in device else "0"
    wanted = device if device == "cpu" else f"vulkan:{index}"
    for line in run_program([ROOT / "build/shoal", "devices"], PATIENCE_S).splitlines():
        if line.split()[:1] == [wanted]:
            return words_apart(line)[1], " | ".join(words_apart(line))
    raise PartFailed(f"there is no device {device}")


def engine_command(path, options, *more):
    return [ROOT / "build/step_bench", "--model", path, "--device", options.device, "--context", options.input,
            "--pipeline-cache", options.pipeline_cache, *more]


def read_steps(said):
    """Steps from step_bench's output."""
    found = re.findall(r"decode batch +(\d+) +([\d.]+) tok/s +([\d.]+) ms a step \(context \d+, (\d+) different tokens\)", said)
    prompt = re.search(r"^prompt +\d+ +([\d.]+) tok/s", said, re.MULTILINE)
    loaded = re.search(r"^.*loaded in [\d.]+ s$", said, re.MULTILINE)
    if not found or not prompt or not loaded:
        raise PartFailed(said[-1500:])
    decodes = {int(batch): Decode(float(rate), float(step_ms), int(distinct)) for batch, rate, step_ms, distinct in found}
    return Steps(loaded[0], decodes, float(prompt[1]))


def measure_steps(path, options):
    return read_steps(run_program(engine_command(path, options, "--prompts", options.prompt, "--batches",
                                                 ",".join(map(str, options.batches)), "--decode", options.decode, "--repeat",
                                                 options.repeat), PATIENCE_S))


def measure_bandwidth(path, options):
    """Bytes a second of the backend's own reads, from the largest dispatch in its profile; None without a profile."""
    said = run_program(engine_command(path, options, "--prompts", "", "--batches", 1, "--decode", PROFILE_STEPS,
                                      "--repeat", 1, "--profile"), PATIENCE_S)
    kernels = re.findall(r"([\d.]+) us each .*?([\d.]+) MB each +([\d.]+) % of the bandwidth", said)
    rates = [(float(mb), float(mb) / float(us) * 1e12 / (float(share) / 100))
             for us, mb, share in kernels if float(share) > 0 and float(us) > 0]
    return max(rates)[1] if rates else None


def print_table(columns, rows):
    widths = [max(len(row[column]) for row in [columns, *rows]) for column in range(len(columns))]
    for row in [columns, ["-" * width for width in widths], *rows]:
        print("| " + " | ".join(word.ljust(width) if column == 0 else word.rjust(width)
                                for column, (word, width) in enumerate(zip(row, widths))) + " |")
