/*
 * The sums of `likely` are in double and in the order of the ids, so they do not depend on the device.
 */
#include "worker/sample/speech_filter.h"

#include <math.h>
#include <stdbool.h>

static void bar(float *row, uint64_t from, uint64_t to, uint32_t vocab_tokens)
{
    for (uint64_t token = from; token < to && token < vocab_tokens; token++)
        row[token] = -INFINITY;
}

static void apply_first(const struct speech_rules *rules, float *row, uint32_t vocab_tokens)
{
    if (rules->first_to > rules->first_from) {
        bar(row, 0, rules->first_from, vocab_tokens);
        bar(row, rules->first_to, vocab_tokens, vocab_tokens);
    }
    if (rules->blank > 0)
        bar(row, rules->blank - 1, rules->blank, vocab_tokens);
}

/* The first timestamp that may be drawn. */
static uint32_t least_timestamp(const struct speech_rules *rules, const uint32_t *generated,
                                uint32_t count, bool closes)
{
    while (count > 0 && generated[count - 1] < rules->timestamps)
        count--;
    if (count == 0)
        return rules->timestamps;
    return generated[count - 1] + (closes ? 0 : 1);
}

static void apply_timestamps(const struct speech_rules *rules, const uint32_t *generated,
                             uint32_t count, float *row, uint32_t vocab_tokens)
{
    uint32_t first = rules->timestamps;
    bool last = count >= 1 && generated[count - 1] >= first;
    bool before = count < 2 || generated[count - 2] >= first;
    bar(row, first - 1, first, vocab_tokens);
    if (last && before)
        bar(row, first, vocab_tokens, vocab_tokens);
    else if (last)
        bar(row, 0, rules->end, vocab_tokens);
    bar(row, first, least_timestamp(rules, generated, count, last && !before), vocab_tokens);
}

/* Bars all but timestamps if their probabilities are more than the largest of the others. */
static void apply_likely(uint32_t first, float *row, uint32_t vocab_tokens)
{
    float other = -INFINITY, most = -INFINITY;
    double sum = 0.0;
    for (uint32_t token = 0; token < vocab_tokens; token++) {
        if (token < first && row[token] > other)
            other = row[token];
        if (token >= first && row[token] > most)
            most = row[token];
    }
    if (most == -INFINITY)
        return;
    for (uint32_t token = first; token < vocab_tokens; token++)
        if (row[token] > -INFINITY)
            sum += exp((double)row[token] - (double)most);
    if ((double)most + log(sum) > (double)other)
        bar(row, 0, first, vocab_tokens);
}

void speech_filter_apply(const struct speech_rules *rules, const uint32_t *generated,
                         uint32_t count, float *row, uint32_t vocab_tokens)
{
    bool stamps = rules->timestamps > 0 && rules->timestamps < vocab_tokens;
    if (stamps)
        apply_timestamps(rules, generated, count, row, vocab_tokens);
    if (count == 0)
        apply_first(rules, row, vocab_tokens);
    if (stamps)
        apply_likely(rules->timestamps, row, vocab_tokens);
}
