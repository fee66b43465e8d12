/*
 * Every stage works on all tokens in descending order of logit: a token stays or is dropped, and the
 * remaining ones are summed again to renormalize. It shares only the random number with the sampler.
 */
#include "tests/support/sampling_reference.h"

#include <math.h>
#include <stdlib.h>

#include "proto/must.h"

struct ranked {
    uint32_t token;
    uint32_t rank;
    double logit;
    double p;
    double distance; /* of -log p from the entropy, below 0 for likely tokens */
    bool is_out;
};

struct stage {
    const struct sampling_params *params;
    struct ranked *ranked; /* [count] in descending order */
    uint32_t count;
    double margin;
};

static int compare_logits(const void *left, const void *right)
{
    const struct ranked *a = left;
    const struct ranked *b = right;
    if (a->logit != b->logit)
        return a->logit > b->logit ? -1 : 1;
    return a->token < b->token ? -1 : 1;
}

#define ROUNDING 1e-12 /* of the distance of a token that is as likely as the mean */

/* Nearest to the entropy first; of equals what is likelier than that, then neighbours first. */
static int compare_distances(const void *left, const void *right)
{
    const struct ranked *a = *(struct ranked *const *)left;
    const struct ranked *b = *(struct ranked *const *)right;
    bool above = a->distance <= ROUNDING;
    if (fabs(a->distance) != fabs(b->distance))
        return fabs(a->distance) < fabs(b->distance) ? -1 : 1;
    if (above != (b->distance <= ROUNDING))
        return above ? -1 : 1;
    return (a->rank < b->rank) != above ? -1 : 1;
}

static void note_margin(struct stage *stage, double value, double border)
{
    double margin = fabs(value - border) / (fabs(border) + 1e-300);
    if (margin < stage->margin)
        stage->margin = margin;
}

/* How often `token` is among the last `context` tokens (0: all), or those of them that were
 * generated. */
static uint32_t count_in(const struct reference_row *row, uint32_t token, uint32_t context,
                         bool generated)
{
    uint32_t first = context > 0 && context < row->token_count ? row->token_count - context : 0;
    if (generated && first < row->prompt_count)
        first = row->prompt_count;
    uint32_t count = 0;
    for (uint32_t i = first; i < row->token_count; i++)
        count += row->tokens[i] == token;
    return count;
}

static double adjusted_logit(const struct reference_row *row, uint32_t token)
{
    const struct row_sampling *sampling = row->sampling;
    const struct sampling_params *params = sampling->params;
    double logit = isnan(row->logits[token]) ? (double)-INFINITY : (double)row->logits[token];
    for (uint32_t i = 0; i < sampling->logit_bias_count; i++)
        if (sampling->logit_bias[i].token == token)
            logit += (double)sampling->logit_bias[i].bias;
    for (uint32_t i = 0; i < sampling->barred_count; i++)
        if (sampling->barred[i] == token)
            logit = (double)-INFINITY;
    if (sampling->mask && (sampling->mask[token / 32] >> token % 32 & 1) == 0)
        logit = (double)-INFINITY;
    double repetition = (double)params->repetition_penalty;
    if (count_in(row, token, params->repetition_context, false) > 0)
        logit = logit > 0 ? logit / repetition : logit * repetition;
    if (count_in(row, token, params->presence_context, true) > 0)
        logit -= (double)params->presence_penalty;
    return logit - (double)params->frequency_penalty *
                       count_in(row, token, params->frequency_context, true);
}

static double left_weight(const struct stage *stage)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < stage->count; i++)
        sum += stage->ranked[i].is_out ? 0.0 : stage->ranked[i].p;
    return sum;
}

static void apply_top_n_sigma(struct stage *stage)
{
    double mean = 0.0;
    double variance = 0.0;
    uint32_t finite = 0;
    for (uint32_t i = 0; i < stage->count && isfinite(stage->ranked[i].logit); i++, finite++)
        mean += stage->ranked[i].logit;
    mean /= finite;
    for (uint32_t i = 0; i < finite; i++)
        variance += pow(stage->ranked[i].logit - mean, 2.0) / finite;
    double lowest = stage->ranked[0].logit - (double)stage->params->top_n_sigma * sqrt(variance);
    for (uint32_t i = 0; i < stage->count; i++) {
        if (i > 0)
            note_margin(stage, stage->ranked[i].logit, lowest);
        stage->ranked[i].is_out = i > 0 && stage->ranked[i].logit < lowest;
    }
}

static void apply_top_k(struct stage *stage)
{
    for (uint32_t i = stage->params->top_k; i < stage->count; i++)
        stage->ranked[i].is_out = true;
}

static void apply_typical_p(struct stage *stage)
{
    struct ranked **order = must_alloc(stage->count, sizeof(struct ranked *));
    double total = left_weight(stage);
    double entropy = 0.0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < stage->count; i++) {
        struct ranked *ranked = &stage->ranked[i];
        if (ranked->is_out || ranked->p < 1e-300) /* its share of the total must not vanish */
            continue;
        order[count++] = ranked;
        entropy -= ranked->p / total * log(ranked->p / total);
    }
    for (uint32_t i = 0; i < count; i++)
        order[i]->distance = -log(order[i]->p / total) - entropy;
    qsort(order, count, sizeof(struct ranked *), compare_distances);
    double wanted = (double)stage->params->typical_p * total;
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        order[i]->is_out = sum >= wanted;
        bool last_in = !order[i]->is_out;
        sum += order[i]->p;
        note_margin(stage, sum, wanted);
        if (last_in && sum >= wanted && i + 1 < count)
            note_margin(stage, fabs(order[i]->distance), fabs(order[i + 1]->distance));
    }
    free(order);
}

static void apply_top_p(struct stage *stage)
{
    double wanted = (double)stage->params->top_p * left_weight(stage);
    double sum = 0.0;
    for (uint32_t i = 0; i < stage->count; i++) {
        struct ranked *ranked = &stage->ranked[i];
        if (ranked->is_out)
            continue;
        ranked->is_out = sum >= wanted;
        sum += ranked->p;
        note_margin(stage, sum, wanted);
    }
}

static void apply_min_p(struct stage *stage)
{
    double least = -1.0;
    for (uint32_t i = 0; i < stage->count; i++) {
        struct ranked *ranked = &stage->ranked[i];
        if (ranked->is_out)
            continue;
        bool is_first = least < 0.0;
        if (is_first)
            least = (double)stage->params->min_p * ranked->p;
        note_margin(stage, ranked->p, least);
        ranked->is_out = !is_first && ranked->p < least;
    }
}

/* Leaves p at 0 for what is dropped; the largest logit is finite. */
static void distribute(struct stage *stage)
{
    const struct sampling_params *params = stage->params;
    double largest = stage->ranked[0].logit;
    double temperature = (double)params->temperature;
    if (params->top_n_sigma > 0.0f)
        apply_top_n_sigma(stage);
    for (uint32_t i = 0; i < stage->count; i++)
        stage->ranked[i].p = exp((stage->ranked[i].logit - largest) / temperature);
    if (params->top_k > 0)
        apply_top_k(stage);
    if (params->typical_p < 1.0f)
        apply_typical_p(stage);
    if (params->top_p < 1.0f)
        apply_top_p(stage);
    if (params->min_p > 0.0f)
        apply_min_p(stage);
}

static uint32_t pick(struct stage *stage, uint64_t seed, uint32_t position)
{
    double target = (double)uniform_draw(seed, position) * left_weight(stage);
    double sum = 0.0;
    uint32_t token = stage->ranked[0].token;
    for (uint32_t i = 0; i < stage->count; i++) {
        if (stage->ranked[i].is_out || stage->ranked[i].p == 0.0)
            continue;
        token = stage->ranked[i].token;
        sum += stage->ranked[i].p;
        note_margin(stage, sum, target);
        if (sum > target)
            break;
    }
    return token;
}

static double raw_logprob(const struct reference_row *row, uint32_t token)
{
    double largest = (double)-INFINITY;
    for (uint32_t i = 0; i < row->vocab_tokens; i++)
        if ((double)row->logits[i] > largest)
            largest = (double)row->logits[i];
    double sum = 0.0;
    for (uint32_t i = 0; i < row->vocab_tokens; i++)
        if (!isnan(row->logits[i]))
            sum += exp((double)row->logits[i] - largest);
    double logprob = (double)row->logits[token] - largest - log(sum);
    return isnan(logprob) ? (double)-INFINITY : logprob;
}

struct reference_draw sampling_reference_draw(const struct reference_row *row)
{
    const struct sampling_params *params = row->sampling->params;
    struct stage stage = {.params = params, .count = row->vocab_tokens, .margin = 1.0};
    stage.ranked = must_alloc(stage.count, sizeof *stage.ranked);
    for (uint32_t i = 0; i < stage.count; i++)
        stage.ranked[i] = (struct ranked){.token = i, .logit = adjusted_logit(row, i)};
    qsort(stage.ranked, stage.count, sizeof *stage.ranked, compare_logits);
    for (uint32_t i = 0; i < stage.count; i++)
        stage.ranked[i].rank = i;
    struct reference_draw draw = {.token = stage.ranked[0].token};
    draw.p = must_alloc(stage.count, sizeof *draw.p);
    if (params->temperature > 0.0f && isfinite(stage.ranked[0].logit)) {
        distribute(&stage);
        draw.token = pick(&stage, params->seed, row->sampling->position);
    } else {
        stage.ranked[0].p = 1.0;
        if (stage.count > 1 && stage.ranked[0].logit != stage.ranked[1].logit)
            note_margin(&stage, stage.ranked[1].logit, stage.ranked[0].logit);
    }
    double total = left_weight(&stage);
    for (uint32_t i = 0; i < stage.count; i++)
        if (!stage.ranked[i].is_out)
            draw.p[stage.ranked[i].token] = stage.ranked[i].p / total;
    draw.logprob = raw_logprob(row, draw.token);
    draw.margin = stage.margin;
    free(stage.ranked);
    return draw;
}
