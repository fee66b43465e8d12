"""A thinking budget of N gives at most N tokens of reasoning and then an answer, in 100 seeded runs.

The template opens a section and neither model, which knows no tags, would ever close it. The worker that counts and forces
is the same for both, so the hundred runs are a tiny model's, whose tokens are bytes and whose draws are as good as
random; a few of the default model follow.
"""

import pytest

from shoal_server import MODEL, ROOT, ShoalServer

TEMPLATE = ROOT / "tests/golden/templates/source/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja"
TINY = ROOT / "build/checkpoints/llama-f32.gguf"


def serve(model):
    with ShoalServer("--chat-template", str(TEMPLATE), model=model) as server:
        server.wait_ready()
        yield server


@pytest.fixture(scope="module")
def tiny():
    yield from serve(TINY)


@pytest.fixture(scope="module")
def server():
    yield from serve(MODEL)


def reasoning_tokens(server, answers, max_tokens, seed, budget):
    """Of so many answers, each of which goes on behind its section."""
    body = server.chat("What is 2+2?", n=answers, seed=seed, thinking_budget=budget, max_tokens=max_tokens,
                       temperature=1.0, ignore_eos=True).json
    usage = body["usage"]
    # All but the end of the section: some tokens of each answer.
    tags = answers * max_tokens - usage["completion_tokens"]
    assert tags >= answers and tags % answers == 0
    for choice in body["choices"]:
        assert bool(choice["message"].get("reasoning_content")) <= (budget > 0)
    # A model may answer with nothing but line breaks, which are trimmed behind a section; seldom.
    assert sum(bool(choice["message"]["content"]) for choice in body["choices"]) >= answers - max(1, answers // 10)
    return usage["completion_tokens_details"]["reasoning_tokens"]


@pytest.mark.parametrize("seed, budget", [(1, 0), (1000, 1), (2000, 5), (3000, 6), (4000, 7)])
def test_reasoning_ends_with_its_budget(tiny, seed, budget):
    assert reasoning_tokens(tiny, 20, 32, seed, budget) == 20 * budget


def test_so_does_the_default_models(server):
    assert reasoning_tokens(server, 3, 13, 2000, 5) <= 3 * 5


def test_without_a_budget_the_section_never_ends(server):
    message = server.chat("What is 2+2?", max_tokens=13).json["choices"][0]["message"]
    assert message["reasoning_content"] and not message["content"]
