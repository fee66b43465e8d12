"""`shoal generate`: an answer on standard output through the same engine."""

import re
import subprocess

from shoal_server import BUILD, MODEL, PATIENCE_S, ROOT


def generate(*options):
    command = [BUILD / "shoal", "generate", "--device", "cpu", "--model", MODEL, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=False)


def test_it_answers_as_the_server_does(server):
    question = "What is the capital of France? Answer in one word."
    ended = generate("--prompt", question, "--max-tokens", "24", "--temperature", "0")
    assert ended.returncode == 0, ended.stderr
    served = server.chat(question, max_tokens=24, temperature=0).json["choices"][0]["message"]["content"]
    assert ended.stdout.decode() == served + "\n"
    assert ended.stderr == b""


def test_raw_continues_the_text():
    ended = generate("--prompt", "One, two, three, four,", "--raw", "--max-tokens", "4", "--temperature", "0",
                     "--stats")
    assert ended.returncode == 0
    assert "five" in ended.stdout.decode()
    assert re.search(r"prompt: \d+ tokens in .*answer: 4 tokens in [\d.]+ s \([\d.]+ tok/s\)",
                     ended.stderr.decode(), re.DOTALL)


def test_a_seed_repeats():
    first, second = (generate("--prompt", "Invent a word.", "--seed", "3", "--max-tokens", "8") for _ in range(2))
    assert first.stdout == second.stdout


def test_mistakes_have_words_and_a_status():
    assert generate("--prompt", "x", "--bogus").returncode == 2
    ended = generate("--prompt", "x", "--temperature", "7")
    assert ended.returncode == 1
    assert b"temperature must be between 0 and 2" in ended.stderr
    ended = subprocess.run([BUILD / "shoal", "generate", "--device", "cpu", "--model", "/nowhere", "--prompt", "x"],
                           capture_output=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 1
    assert b"/nowhere" in ended.stderr
