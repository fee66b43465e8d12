#!/usr/bin/env python3
"""Shoal's server and llama.cpp's llama-server side by side: same file, threads, machine and requests, in one run.

For each number of concurrent streams, every stream sends one chat request of about --prompt tokens and reads exactly --output
tokens; rounds alternate between the two servers so that both see the same machine. Prints TTFT, ITL (p50, p99), output tokens
per second and their ratio; then the speed of one long prompt, the resident memory of all processes of each server, and
how the CPU time divides between Shoal's processes.

Usage: serve_bench.py --model FILE [--peer 'COMMAND OF llama-server'] [--streams 1,4,8] [--json OUT]
Needs only Python's standard library. Without --peer only Shoal is measured.
"""
import argparse
import json
import os
import random
import re
import selectors
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

WORDS = """river stone light winter garden copper engine market silver window harvest distant kitchen paper morning signal
bridge yellow forest candle anchor thunder village pocket meadow mirror hammer island ladder button shadow castle""".split()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One running server and how to reach it."""

    def __init__(self, name, command, port):
        self.name, self.port = name, port
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, start_new_session=True)
        self.extra = {}

    def wait_ready(self, path, timeout_s=120):
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if self.process.poll() is not None:
                self.log.seek(0)
                sys.exit(f"{self.name} ended while starting:\n" + self.log.read().decode(errors="replace")[-2000:])
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                    if b" 200 " in s.recv(64):
                        return
            except OSError:
                pass
            time.sleep(0.05)
        sys.exit(f"{self.name} was not ready in {timeout_s} s")

    def pids(self):
        """The server and its descendants."""
        children = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    fields = open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split()
                    children.setdefault(int(fields[1]), []).append(int(entry))
                except OSError:
                    pass
        todo, found = [self.process.pid], []
        while todo:
            pid = todo.pop()
            found.append(pid)
            todo += children.get(pid, [])
        return found

    def memory_mb(self, field):
        """Sum over processes of a field of smaps_rollup (Rss, Pss, Private_Dirty …) in MB."""
        total = 0
        for pid in self.pids():
            try:
                text = open(f"/proc/{pid}/smaps_rollup").read()
                total += int(re.search(rf"^{field}:\s+(\d+)", text, re.M).group(1))
            except (OSError, AttributeError):
                pass
        return total / 1024

    def cpu_seconds(self):
        """CPU time of the server's own process and of all its descendants, so far."""
        def of(pid):
            threads = os.listdir(f"/proc/{pid}/task")
            return sum(int(open(f"/proc/{pid}/task/{t}/schedstat").read().split()[0]) for t in threads) / 1e9
        own, *others = self.pids()
        return of(own), sum(map(of, others))

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


class Stream:
    """One streaming request over a raw socket: the times at which text arrived, and the usage."""

    def __init__(self, server, body):
        payload = json.dumps(body).encode()
        self.sock = socket.create_connection(("127.0.0.1", server.port), 30)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.times, self.usage, self.buffer, self.done, self.raw = [], None, b"", False, b""
        self.sent = time.perf_counter()
        self.sock.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
            + str(len(payload)).encode() + b"\r\nConnection: close\r\n\r\n" + payload)
        self.sock.setblocking(False)

    def read(self):
        try:
            data = self.sock.recv(1 << 16)
        except BlockingIOError:
            return
        now = time.perf_counter()
        if not data:
            self.done = True
            return
        self.raw += data[: max(0, 400 - len(self.raw))]
        self.buffer += data
        while b"\n\n" in self.buffer:
            event, self.buffer = self.buffer.split(b"\n\n", 1)
            if b"[DONE]" in event:
                self.done = True
            elif b'"usage":{' in event:
                self.usage = json.loads(event[event.index(b"{"):event.rindex(b"}") + 1])["usage"]
            elif re.search(rb'"content": ?"[^"]', event):
                self.times.append(now)


def run_streams(server, bodies):
    """Runs all requests at once; returns the finished streams and the wall time."""
    selector = selectors.DefaultSelector()
    start = time.perf_counter()
    streams = [Stream(server, body) for body in bodies]
    for stream in streams:
        selector.register(stream.sock, selectors.EVENT_READ, stream)
    open_count = len(streams)
    while open_count:
        ready = selector.select(120)
        if not ready:
            sys.exit(f"{server.name}: no data for 120 s")
        for key, _ in ready:
            key.data.read()
            if key.data.done:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                open_count -= 1
    wall = time.perf_counter() - start
    for stream in streams:
        if not stream.usage or not stream.times:
            sys.exit(f"{server.name}: a request failed: {stream.raw[:400]!r}")
    return streams, wall


def make_body(server, prompt_words, output_tokens, rng):
    words = " ".join(rng.choice(WORDS) for _ in range(prompt_words))
    body = {"model": server.extra.get("model", "x"), "messages": [{"role": "user", "content": words}], "stream": True,
            "stream_options": {"include_usage": True}, "max_tokens": output_tokens, "temperature": 0,
            "logit_bias": {str(i): -100 for i in server.extra["end_tokens"]}}
    body.update(server.extra.get("body", {}))
    return body


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p / 100 * len(values)))]


def measure(server, streams, words, output, rng, totals):
    bodies = [make_body(server, words, output, rng) for _ in range(streams)]
    before = server.cpu_seconds()
    done, wall = run_streams(server, bodies)
    used = [after - earlier for after, earlier in zip(server.cpu_seconds(), before)]
    t = totals.setdefault((server.name, streams),
                          {"ttft": [], "itl": [], "tokens": 0, "wall": 0.0, "prompt": [], "cpu": [0.0, 0.0]})
    t["cpu"] = [sum(pair) for pair in zip(t["cpu"], used)]
    for s in done:
        t["ttft"].append(s.times[0] - s.sent)
        t["itl"] += [b - a for a, b in zip(s.times, s.times[1:])]
        t["tokens"] += s.usage["completion_tokens"]
        t["prompt"].append(s.usage["prompt_tokens"])
    t["wall"] += wall


def start_servers(args):
    here = os.path.dirname(os.path.abspath(__file__))
    shoal = os.path.join(here, "..", "..", "build", "shoal")
    name = os.path.splitext(os.path.basename(args.model))[0]
    port = free_port()
    command = [shoal, "serve", "--device", "cpu", "--model", args.model, "--port", str(port), "--threads", str(args.threads),
               "--served-model-name", name]
    if args.chat_template:
        command += ["--chat-template", args.chat_template]
    servers = [Server("shoal", command, port)]
    servers[0].extra = {"model": name}
    servers[0].wait_ready("/ready")
    if args.peer:
        port = free_port()
        servers.append(Server("llama-server", shlex.split(args.peer) + [
            "-m", args.model, "--port", str(port), "-t", str(args.threads), "-tb", str(args.threads), "-np",
            str(max(args.streams)), "-c", str(args.peer_context), "--no-webui"] + shlex.split(args.peer_options)
            + (["--jinja", "--chat-template-file", args.chat_template] if args.chat_template else []), port))
        servers[1].extra = {"body": {"cache_prompt": False}}
        servers[1].wait_ready("/health")
    for server in servers:
        server.extra["end_tokens"] = args.end_tokens
    return servers


def print_table(servers, totals, args):
    print(f"\n{'streams':>7} {'server':>13} {'prompt':>6} {'TTFT p50':>9} {'TTFT p99':>9} {'ITL p50':>8} {'ITL p99':>8} "
          f"{'out tok/s':>10} {'ratio':>6}")
    for streams in args.streams:
        rates = {}
        for server in servers:
            t = totals[(server.name, streams)]
            rates[server.name] = t["tokens"] / t["wall"]
            ratio = f"{rates['shoal'] / rates[server.name]:6.2f}" if server.name != "shoal" else ""
            print(f"{streams:7} {server.name:>13} {statistics.mean(t['prompt']):6.0f} "
                  f"{1e3 * percentile(t['ttft'], 50):6.1f} ms {1e3 * percentile(t['ttft'], 99):6.1f} ms "
                  f"{1e3 * percentile(t['itl'], 50):5.2f} ms {1e3 * percentile(t['itl'], 99):5.2f} ms "
                  f"{rates[server.name]:10.1f} {ratio:>6}")


def measure_prompt(servers, words, rounds, rng):
    print(f"\n{'long prompt':>13} {'tokens':>6} {'TTFT':>9} {'prompt tok/s':>12} {'ratio':>6}")
    best = {}
    for _ in range(rounds):
        for server in servers:
            done, _ = run_streams(server, [make_body(server, words, 2, rng)])
            ttft = done[0].times[0] - done[0].sent
            if server.name not in best or ttft < best[server.name][0]:
                best[server.name] = (ttft, done[0].usage["prompt_tokens"])
    rate = {name: tokens / ttft for name, (ttft, tokens) in best.items()}
    for server in servers:
        ttft, tokens = best[server.name]
        ratio = f"{rate['shoal'] / rate[server.name]:6.2f}" if server.name != "shoal" else ""
        print(f"{server.name:>13} {tokens:6} {1e3 * ttft:6.1f} ms {rate[server.name]:12.1f} {ratio:>6}")


def print_shares(totals, args):
    """What HTTP, rings and a second process cost: the frontend's CPU time beside the worker's. They run side by side, and the
    worker never waits for the frontend, so this is the most that a step can lose to it on a machine with no core to spare."""
    print(f"\n{'streams':>7} {'frontend CPU':>15} {'worker CPU':>15} {'share':>7}")
    for streams in args.streams:
        t = totals[("shoal", streams)]
        frontend, workers = (1e3 * seconds / t["tokens"] for seconds in t["cpu"])
        print(f"{streams:7} {frontend:9.3f} ms/tok {workers:9.3f} ms/tok {100 * frontend / workers:5.2f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--peer", default="", help="command that starts llama-server")
    parser.add_argument("--peer-options", default="")
    parser.add_argument("--chat-template", default="", help="a Jinja file for both servers (models without their own)")
    parser.add_argument("--peer-context", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--streams", type=lambda s: [int(x) for x in s.split(",")], default=[1, 4, 8])
    parser.add_argument("--prompt-words", type=int, default=93, help="words of each prompt: 93 give about 128 tokens")
    parser.add_argument("--output", type=int, default=128)
    parser.add_argument("--long-words", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--end-tokens", type=lambda s: [int(x) for x in s.split(",")], default=[0, 2],
                        help="token ids kept from ending an answer early (SmolLM2: 0,2)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    servers, totals = [], {}
    try:
        servers = start_servers(args)
        for server in servers:
            run_streams(server, [make_body(server, 20, 8, rng)])  # warm-up
        for _ in range(args.rounds):
            for streams in args.streams:
                for server in servers:
                    measure(server, streams, args.prompt_words, args.output, rng, totals)
        print(f"{os.path.basename(args.model)}, {args.threads} threads, {args.output} output tokens, {args.rounds} rounds")
        print_table(servers, totals, args)
        measure_prompt(servers, args.long_words, args.rounds, rng)
        print(f"\n{'memory':>13} {'Rss':>9} {'Pss':>9} {'dirty':>9}")
        for server in servers:
            print(f"{server.name:>13} {server.memory_mb('Rss'):6.0f} MB {server.memory_mb('Pss'):6.0f} MB "
                  f"{server.memory_mb('Private_Dirty'):6.0f} MB")
        print_shares(totals, args)
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
