"""A thinking budget of N gives at most N tokens of reasoning and then an answer, in 100 seeded runs of a real model.

The template opens a section and the model, which knows no tags, would never close it.
"""

import pytest

from shoal_server import ROOT, ShoalServer

TEMPLATE = ROOT / "tests/golden/templates/source/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja"
ANSWERS = 20
MAX_TOKENS = 13


@pytest.fixture(scope="module")
def server():
    with ShoalServer("--chat-template", str(TEMPLATE)) as server:
        server.wait_ready()
        yield server


@pytest.mark.parametrize("seed, budget", [(1, 0), (1000, 1), (2000, 5), (3000, 6), (4000, 7)])
def test_reasoning_ends_with_its_budget(server, seed, budget):
    body = server.chat("What is 2+2?", n=ANSWERS, seed=seed, thinking_budget=budget, max_tokens=MAX_TOKENS,
                       temperature=1.0, ignore_eos=True).json
    usage = body["usage"]
    assert usage["completion_tokens_details"]["reasoning_tokens"] <= ANSWERS * budget
    # All but the end of the section: some tokens of each answer.
    tags = ANSWERS * MAX_TOKENS - usage["completion_tokens"]
    assert tags >= ANSWERS and tags % ANSWERS == 0
    for choice in body["choices"]:
        assert bool(choice["message"].get("reasoning_content")) <= (budget > 0)
    # This model may answer with nothing but line breaks, which are trimmed behind a section; seldom.
    assert sum(bool(choice["message"]["content"]) for choice in body["choices"]) >= ANSWERS - 2


def test_without_a_budget_the_section_never_ends(server):
    message = server.chat("What is 2+2?", max_tokens=MAX_TOKENS).json["choices"][0]["message"]
    assert message["reasoning_content"] and not message["content"]
