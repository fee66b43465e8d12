#!/usr/bin/env python3
"""Writes random cases of dynamic temperature, XTC, DRY and mirostat 2 and what follows from them, for tests/golden/samplers.

usage: samplers.py FILE

llama.cpp's published algorithms (src/llama-sampling.cpp), reimplemented plainly in double precision: candidates are sorted,
repetitions are found by comparing at each place. Temperature comes before XTC and mirostat, as in Shoal's order. Standard
library only; the same file every time.

A case is: a line `case KIND`; temperature, dynatemp range and exponent, XTC probability and threshold, mirostat tau, eta and mu,
DRY multiplier, base, allowed length and context (0: all); then five lists, each with its length first: logits, history,
breakers (proto/dry_breakers.h), the probability of each token, and for DRY the penalty of each token, for mirostat the next mu
of each token that is kept; last the temperature that is used.
"""
import math
import random
import struct
import sys

SEED = 20261124
CASES = 14  # of each kind


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def softmax(logits):
    largest = max(logits)
    weights = [math.exp(logit - largest) for logit in logits]
    return [weight / sum(weights) for weight in weights]


def dynamic_temperature(logits, temperature, spread, exponent):
    low, high = max(0.0, temperature - spread), temperature + spread
    if spread <= 0 or len(logits) <= 1:
        return temperature
    entropy = -sum(p * math.log(p) for p in softmax(logits) if p > 0)
    return low + (high - low) * (entropy / math.log(len(logits))) ** exponent


def exclude_top(pairs, threshold):
    """pairs: (token, probability), most likely first."""
    last = 0
    for at, (_, p) in enumerate(pairs):
        if p < threshold:
            break
        last = at
    return pairs[last:]


def xtc(p, probability, threshold):
    pairs = sorted(enumerate(p), key=lambda pair: -pair[1])
    kept = exclude_top(pairs, threshold) if threshold <= 0.5 else pairs
    total = sum(weight for _, weight in kept)
    mixed = [(1 - probability) * weight for weight in p]
    for token, weight in kept:
        mixed[token] += probability * weight / total
    return mixed


def mirostat(p, tau, eta, mu):
    pairs = sorted(enumerate(p), key=lambda pair: -pair[1])
    count = next((at for at, (_, weight) in enumerate(pairs) if -math.log2(weight) > mu), len(pairs))
    kept = pairs[:max(count, 1)]
    total = sum(weight for _, weight in kept)
    drawn, after = [0.0] * len(p), [0.0] * len(p)
    for token, weight in kept:
        drawn[token] = weight / total
        after[token] = mu - eta * (-math.log2(weight / total) - tau)
    return drawn, after


def repetition_limit(last, sequences):
    """Tokens since the last breaker; `last` begins with the newest token."""
    for back in range(len(last)):
        matches = [len(sequence) for sequence in sequences
                   if len(sequence) <= back + 1 and all(last[back - k] == token for k, token in enumerate(sequence))]
        if matches:
            return back + 1 - max(matches)
    return len(last)


def dry(vocab, history, sequences, multiplier, base, allowed, context):
    last = history[::-1][:context or None]
    penalties = [0.0] * vocab
    if len(last) <= allowed or multiplier == 0 or base < 1:
        return penalties
    limit = repetition_limit(last, sequences)
    if limit < allowed:
        return penalties
    longest = {}
    for shift in range(1, len(last)):
        length = 0
        while shift + length < len(last) and last[length] == last[shift + length]:
            length += 1
        length = min(length, limit)
        if length >= allowed:
            longest[last[shift - 1]] = max(longest.get(last[shift - 1], 0), length)
    for token, length in longest.items():
        penalties[token] = multiplier * base ** (length - allowed)
    return penalties


def breakers(rng, vocab):
    sequences = {tuple(rng.randrange(vocab) for _ in range(rng.choice([1, 1, 2, 3]))) for _ in range(rng.choice([0, 1, 3]))}
    return sorted(sequences)


def case(rng, kind):
    vocab = rng.randrange(3, 60)
    logits = [f32(rng.gauss(0, rng.choice([0.5, 2, 4]))) for _ in range(vocab)]
    one = {"temperature": f32(rng.choice([0.4, 0.8, 1.0, 1.7])), "range": 0.0, "exponent": 1.0, "xtc_p": 0.0, "xtc_t": 0.1, "tau": 5.0,
           "eta": f32(0.1), "mu": 0.0, "multiplier": 0.0, "base": 1.75, "allowed": 2, "context": 0}
    history, sequences, after = [], [], []
    if kind == "dynatemp":
        one |= {"range": f32(rng.choice([0.1, 0.5, one["temperature"], 3])), "exponent": f32(rng.choice([0, 0.5, 1, 2.5]))}
    if kind == "xtc":
        one |= {"xtc_p": f32(rng.choice([0.25, 0.5, 1])), "xtc_t": f32(rng.choice([0, 0.02, 0.1, 0.2, 0.45, 0.6]))}
    if kind == "mirostat":
        one |= {"tau": f32(rng.uniform(0, 6)), "eta": f32(rng.choice([0.05, 0.1, 1])), "mu": f32(rng.uniform(-2, 9))}
    if kind == "dry":
        few = rng.choice([2, 4, vocab])
        history = [rng.randrange(min(few, vocab)) for _ in range(rng.choice([0, 1, 5, 40, 200]))]
        history += history[len(history) // 3:][:rng.randrange(12)]
        sequences = breakers(rng, vocab)
        one |= {"multiplier": f32(rng.choice([0.1, 0.8])), "base": f32(rng.choice([1, 1.2, 1.75])), "allowed": rng.choice([0, 1, 2, 4]),
                "context": rng.choice([0, 0, 3, 20, 1000])}
        after = dry(vocab, history, sequences, one["multiplier"], one["base"], one["allowed"], one["context"])
    adjusted = [logit - penalty for logit, penalty in zip(logits, after)] if after else logits
    temperature = dynamic_temperature(adjusted, one["temperature"], one["range"], one["exponent"])
    if temperature > 0:
        p = softmax([logit / temperature for logit in adjusted])
    else:
        p = [float(token == adjusted.index(max(adjusted))) for token in range(vocab)]
    if kind == "xtc":
        p = xtc(p, one["xtc_p"], one["xtc_t"])
    if kind == "mirostat":
        p, after = mirostat(p, one["tau"], one["eta"], one["mu"])
    words = [word for sequence in sequences for word in (len(sequence), *sequence)]
    lists = [logits, history, words, p, after]
    yield f"case {kind}"
    yield " ".join(repr(value) for value in one.values())
    for values in lists:
        yield " ".join(map(repr, [len(values), *values]))
    yield repr(temperature)


def main():
    rng = random.Random(SEED)
    with open(sys.argv[1], "w", encoding="ascii") as file:
        for kind in ("dynatemp", "xtc", "dry", "mirostat"):
            for _ in range(CASES * (3 if kind == "dry" else 1)):
                file.writelines(line + "\n" for line in case(rng, kind))


main()
