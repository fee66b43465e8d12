"""Rounds of chat requests against one server on the CPU, each with its rate and the CPU time of all processes; kinds of rounds in turn."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import subprocess
import time

import serve_bench


def request(port, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    reply = json.loads(connection.getresponse().read())
    connection.close()
    if "usage" not in reply:
        raise SystemExit(f"the server refuses: {reply}")
    return reply["usage"]["completion_tokens"]


def cpu_seconds(root):
    """Of the process and its children."""
    total, ticks = 0, os.sysconf("SC_CLK_TCK")
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(folder.name) == root or int(fields[1]) == root:
            total += int(fields[11]) + int(fields[12])
    return total / ticks


def run_round(server, bodies):
    """(tokens, seconds, seconds of CPU)"""
    cpu, begin = cpu_seconds(server.process.pid), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        tokens = sum(pool.map(lambda body: request(server.port, body), bodies))
    return tokens, time.monotonic() - begin, cpu_seconds(server.process.pid) - cpu


def compare(model, options, kinds, bodies_of, rounds):
    """kinds: two names; bodies_of(number, kind): the requests of a round. Prints each round, and the second kind beside the first."""
    port = serve_bench.free_port()
    server = serve_bench.Server("shoal", ["build/shoal", "serve", "--model", model, "--device", "cpu", "--port", str(port), *options], port)
    sums = {kind: [0, 0, 0] for kind in kinds}
    try:
        server.wait_ready("/ready")
        for kind in kinds:  # prompts enter the prefix cache
            run_round(server, bodies_of(0, kind))
        for number in range(1, rounds + 1):
            for kind in kinds if number % 2 else reversed(kinds):
                figures = run_round(server, bodies_of(number, kind))
                sums[kind] = [total + one for total, one in zip(sums[kind], figures)]
                print(f"round {number} {kind:9}{figures[0]:7} tokens{figures[0] / figures[1]:9.1f} a second"
                      f"{1000 * figures[2] / figures[0]:9.2f} ms CPU each", flush=True)
    finally:
        server.process.terminate()
        try:
            server.process.wait(30)
        except subprocess.TimeoutExpired:
            server.process.kill()
    first, second = (sums[kind] for kind in kinds)
    print(f"rate: {kinds[1]} to {kinds[0]} {second[0] / second[1] / (first[0] / first[1]):.3f}; "
          f"CPU time per token: {kinds[0]} to {kinds[1]} {first[2] / first[0] / (second[2] / second[0]):.3f}")
