#!/usr/bin/env python3
"""Records llama.cpp's answers on a GGUF file, token by token, for the agreement tests of tests/model.

usage: llama_cpp_reference.py --mode chat|plain MODEL.gguf OUT.txt -- SERVER_COMMAND [SERVER_ARGUMENTS...]

SERVER_COMMAND starts llama.cpp's llama-server; this script adds model, address, one slot and a context of 4096. Two kinds
of sequences are recorded:

  greedy   twenty prompts of tests/golden/llama_cpp/prompts.txt of the mode, each continued by 64 tokens at temperature 0,
           past an end-of-sequence token too; a prompt whose answer has tokens that end inside a character is left out (the
           server gives no probabilities for those), so the file has a few more than twenty
  text     tests/golden/llama_cpp/text.txt, each token in turn: the server is asked for one token with that token's logit
           raised so that it is drawn; the log-probabilities that it reports are those before any bias

Either way every recorded token is one decode step at batch one, with the reference's own context before it. Output, in
the format of the test's reader:

  model FILE SHA256
  command WORDS                          the command, without the folders of program and model
  sequence NAME PROMPT_TOKENS TOKENS
  prompt ID...
  token ID LOGPROB BEST_ID BEST_LOGPROB SECOND_ID SECOND_LOGPROB

Only the standard library is needed.
"""
import argparse
import hashlib
import json
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/llama_cpp"
GREEDY_PROMPTS = 20
GREEDY_TOKENS = 64
FORCING_BIAS = 1000.0


class Server:
    def __init__(self, command, model):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.words = command + ["-np", "1", "-c", "4096"]
        self.process = subprocess.Popen(
            self.words + ["-m", model, "--host", "127.0.0.1", "--port", str(port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait_until_ready(self):
        for _ in range(600):
            if self.process.poll() is not None:
                sys.exit("llama_cpp_reference: the server ended")
            try:
                if json.load(urllib.request.urlopen(self.url + "/health"))["status"] == "ok":
                    return
            except OSError:
                time.sleep(0.2)
        sys.exit("llama_cpp_reference: the server does not get ready")

    def ask(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request))

    def tokenize(self, text):
        body = {"content": text, "add_special": True, "parse_special": True}
        return self.ask("/tokenize", body)["tokens"]

    def template(self, user_text):
        return self.ask("/apply-template", {"messages": [{"role": "user", "content": user_text}]})["prompt"]

    def steps(self, prompt, count, forced=None):
        body = {"prompt": prompt, "n_predict": count, "temperature": 0, "n_probs": 10, "return_tokens": True,
                "cache_prompt": forced is not None}
        if forced is not None:
            body["logit_bias"] = [[forced, FORCING_BIAS]]
        answer = self.ask("/completion", body)
        steps = answer["completion_probabilities"]
        return steps if [step["id"] for step in steps] == answer["tokens"] else None

    def greedy(self, prompt):
        steps = []
        while len(steps) < GREEDY_TOKENS:
            more = self.steps(prompt + [step["id"] for step in steps], GREEDY_TOKENS - len(steps))
            if not more:
                return None
            steps += more
        return steps

    def stop(self):
        self.process.terminate()
        self.process.wait()


def token_line(step):
    best, second = step["top_logprobs"][:2]
    return (f"token {step['id']} {step['logprob']:.6f} {best['id']} {best['logprob']:.6f}"
            f" {second['id']} {second['logprob']:.6f}\n")


def write_sequence(out, name, prompt, steps):
    out.write(f"sequence {name} {len(prompt)} {len(steps)}\nprompt {' '.join(map(str, prompt))}\n")
    out.writelines(token_line(step) for step in steps)
    out.flush()


def record(server, mode, out):
    prompts = [line.split(" ", 1)[1].rstrip("\n") for line in open(FOLDER / "prompts.txt") if line.startswith(mode + " ")]
    recorded = 0
    for text in prompts:
        ids = server.tokenize(server.template(text) if mode == "chat" else text)
        steps = server.greedy(ids) if recorded < GREEDY_PROMPTS else None
        if steps:
            write_sequence(out, f"greedy{recorded:02d}", ids, steps)
            recorded += 1
    if recorded < GREEDY_PROMPTS:
        sys.exit(f"llama_cpp_reference: only {recorded} prompts gave whole answers")
    ids = server.tokenize((FOLDER / "text.txt").read_text())
    steps = [server.steps(ids[:n], 1, forced=ids[n])[0] for n in range(1, len(ids))]
    if [step["id"] for step in steps] != ids[1:]:
        sys.exit("llama_cpp_reference: the server drew another token than the forced one")
    write_sequence(out, "text", ids[:1], steps)


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=["chat", "plain"], required=True)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    server = Server(arguments.command, arguments.model)
    try:
        server.wait_until_ready()
        with open(arguments.out, "w") as out:
            out.write(f"model {pathlib.Path(arguments.model).name} {sha256(arguments.model)}\n")
            shown = [word for word in server.words if word.startswith("-") or "/" not in word]
            out.write(f"command {' '.join(shown)}\n")
            record(server, arguments.mode, out)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
