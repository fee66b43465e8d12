"""--activation-bits 16: log-probabilities of a quantized file equal those computed in F32, for the chosen token and the twenty best, drawn
or of a prompt."""

import pathlib
import subprocess

import pytest

from shoal_server import BUILD, MODEL, PATIENCE_S

pytestmark = pytest.mark.long

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/transformers/smollm2-q4_1.txt"
SEQUENCES = 4


def recorded():
    """(prompt ids, ids of the answer, for each of these the twenty best log-probabilities) of the first sequences."""
    sequences = []
    for line in GOLDEN.read_text().splitlines():
        kind, *words = line.split()
        if kind == "prompt":
            sequences.append(([int(word) for word in words], [], []))
        elif kind == "token":
            sequences[-1][1].append(int(words[0]))
            sequences[-1][2].append([float(word) for word in words[3::2]])
    return sequences[:SEQUENCES]


def test_logprobs_are_those_of_floats(start_server):
    server = start_server("--activation-bits", "16", "--kv-cache-type", "f32")
    for prompt, answer, best in recorded():
        body = {"prompt": prompt, "max_tokens": len(best), "temperature": 0, "logprobs": 20}
        told = server.request("POST", "/v1/completions", body).json["choices"][0]["logprobs"]
        assert told["token_logprobs"] == pytest.approx([expected[0] for expected in best], abs=0.01)
        for ours, expected in zip(told["top_logprobs"], best, strict=True):
            ours = sorted(ours.values(), reverse=True)
            # names are texts: two tokens of one text are told as one
            assert ours[:10] == pytest.approx(expected[:10], abs=0.01)
        whole = {"prompt": prompt + answer, "max_tokens": 0, "echo": True, "logprobs": 20, "prompt_logprobs": 10}
        choice = server.request("POST", "/v1/completions", whole).json["choices"][0]
        echoed = choice["logprobs"]["token_logprobs"]
        assert len(echoed) == len(prompt + answer) and echoed[0] is None
        assert echoed[len(prompt):] == pytest.approx([expected[0] for expected in best], abs=0.01)
        for token, entry, expected in zip(answer, choice["prompt_logprobs"][len(prompt):], best, strict=True):
            assert entry[str(token)]["logprob"] == pytest.approx(expected[0], abs=0.01)
            assert [one["logprob"] for one in entry.values()] == pytest.approx(expected[:10], abs=0.01)
    server.wait_idle()


def test_a_device_without_it_is_refused():
    command = [str(BUILD / "shoal"), "serve", "--model", str(MODEL), "--activation-bits", "16", "--device", "vulkan"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert "--activation-bits 16 works on the CPU only" in done.stderr
