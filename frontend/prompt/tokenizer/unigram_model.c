/*
 * Viterbi's algorithm over the bytes of a piece. The tokens that begin at a place are found by
 * narrowing the sorted vocabulary byte by byte, which ends at the first byte that no token has
 * there. A place costs at most the bytes of the longest token times the logarithm of the
 * vocabulary.
 */
#include "frontend/prompt/tokenizer/unigram_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/cancel_flag.h"
#include "proto/limits.h"
#include "proto/utf8.h"

#define UNKNOWN_PENALTY   10.0
#define CANCEL_LOOK_CHARS 64u /* a character costs up to LIMIT_TOKEN_BYTES searches */

/* An entry of `back`: the token's bytes above its id; with UNKNOWN set, a character that is no token. */
#define ID_BITS 20
#define UNKNOWN (UINT32_C(1) << 31)
_Static_assert(LIMIT_VOCAB_TOKENS <= 1u << ID_BITS, "an id has ID_BITS bits");
_Static_assert(LIMIT_TOKEN_BYTES < 1u << (31 - ID_BITS), "a token's bytes fit above its id");

void unigram_model_fini(struct unigram_model *model)
{
    free(model->scores);
    free(model->sorted);
    *model = (struct unigram_model){0};
}

void unigram_scratch_fini(struct unigram_scratch *scratch)
{
    free(scratch->back);
    free(scratch->best);
    *scratch = (struct unigram_scratch){0};
}

enum result unigram_model_add(struct unigram_model *model, double score)
{
    uint32_t count = model->token_count;
    if (!isfinite(score))
        return RESULT_INVALID;
    if (count == LIMIT_VOCAB_TOKENS)
        return RESULT_TOO_LARGE;
    if ((count & (count - 1)) == 0) { /* full at powers of two */
        double *grown = realloc(model->scores, (count ? 2 * (size_t)count : 1) * sizeof *grown);
        if (!grown)
            return RESULT_OUT_OF_MEMORY;
        model->scores = grown;
    }
    model->scores[model->token_count++] = score;
    return RESULT_OK;
}

static int by_text(const void *a, const void *b, void *context)
{
    const struct vocabulary *vocabulary = context;
    const uint32_t *left = a, *right = b;
    size_t left_bytes, right_bytes;
    const char *left_text = vocabulary_text(vocabulary, *left, &left_bytes);
    const char *right_text = vocabulary_text(vocabulary, *right, &right_bytes);
    size_t common = left_bytes < right_bytes ? left_bytes : right_bytes;
    int order = memcmp(left_text, right_text, common);
    if (order == 0)
        order = (left_bytes > right_bytes) - (left_bytes < right_bytes);
    return order ? order : (*left > *right) - (*left < *right);
}

enum result unigram_model_prepare(struct unigram_model *model, const struct vocabulary *vocabulary)
{
    model->sorted = malloc((model->token_count + 1) * sizeof *model->sorted);
    if (!model->sorted)
        return RESULT_OUT_OF_MEMORY;
    for (uint32_t id = 0; id < model->token_count; id++) {
        size_t bytes;
        (void)vocabulary_text(vocabulary, id, &bytes);
        if (bytes > 0 && vocabulary_has(vocabulary, id, VOCABULARY_FINDABLE) &&
            !vocabulary_has(vocabulary, id, VOCABULARY_SPECIAL))
            model->sorted[model->sorted_count++] = id;
    }
    qsort_r(model->sorted, model->sorted_count, sizeof *model->sorted, by_text,
            (void *)(uintptr_t)vocabulary);
    uint32_t at = 0;
    for (unsigned byte = 0; byte <= 256; byte++) {
        size_t bytes;
        while (at < model->sorted_count &&
               (uint8_t)vocabulary_text(vocabulary, model->sorted[at], &bytes)[0] < byte)
            at++;
        model->first[byte] = at;
    }
    double lowest = model->token_count > 0 ? model->scores[0] : 0;
    for (uint32_t id = 1; id < model->token_count; id++)
        lowest = fmin(lowest, model->scores[id]);
    model->unknown_score = lowest - UNKNOWN_PENALTY;
    for (unsigned byte = 0; byte < 256; byte++)
        model->byte_ids[byte] = vocabulary_find_byte(vocabulary, (uint8_t)byte);
    return RESULT_OK;
}

/* The first of sorted[low] to [high - 1], which share `depth` bytes, whose next byte is `byte` or
 * more. */
static uint32_t lower_bound(const struct unigram_model *model, const struct vocabulary *vocabulary,
                            uint32_t low, uint32_t high, size_t depth, unsigned byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        size_t bytes;
        const char *text = vocabulary_text(vocabulary, model->sorted[middle], &bytes);
        if (bytes == depth || (uint8_t)text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct lattice {
    const struct unigram_model *model;
    const struct vocabulary *vocabulary;
    uint32_t *back; /* [bytes + 1]; 0: no token ends there */
    double *best;   /* [ring] */
    size_t ring;
};

static void offer(struct lattice *lattice, size_t end, double sum, uint32_t entry)
{
    double *best = &lattice->best[end % lattice->ring];
    if (lattice->back[end] != 0 && !(sum > *best))
        return;
    lattice->back[end] = entry;
    *best = sum;
}

/* Offers the tokens that begin at `start`. False: a character is unknown and may not be. */
static bool extend(struct lattice *lattice, const char *text, size_t text_bytes, size_t start)
{
    const struct unigram_model *model = lattice->model;
    double sum = start == 0 ? 0 : lattice->best[start % lattice->ring];
    size_t char_bytes = utf8_char_bytes(text[start]);
    bool known = false;
    unsigned byte = (uint8_t)text[start];
    uint32_t low = model->first[byte], high = model->first[byte + 1];
    for (size_t depth = 1; low < high; depth++) {
        size_t bytes;
        uint32_t last = low; /* of equal texts, the last one counts */
        (void)vocabulary_text(lattice->vocabulary, model->sorted[low], &bytes);
        while (bytes == depth && last + 1 < high) {
            size_t next_bytes;
            (void)vocabulary_text(lattice->vocabulary, model->sorted[last + 1], &next_bytes);
            if (next_bytes != depth)
                break;
            last++;
        }
        if (bytes == depth) {
            uint32_t id = model->sorted[last];
            offer(lattice, start + depth, sum + model->scores[id], (uint32_t)depth << ID_BITS | id);
            known |= depth == char_bytes;
            low = last + 1;
        }
        if (start + depth >= text_bytes)
            break;
        byte = (uint8_t)text[start + depth];
        low = lower_bound(model, lattice->vocabulary, low, high, depth, byte);
        high = lower_bound(model, lattice->vocabulary, low, high, depth, byte + 1);
    }
    if (known)
        return true;
    if (model->unknown_id < 0)
        return false;
    offer(lattice, start + char_bytes, sum + model->unknown_score,
          UNKNOWN | (uint32_t)char_bytes << ID_BITS);
    return true;
}

/* An unknown text is the token that has it (the unknown token may have a text), the tokens of its
 * bytes, or the unknown token. */
static enum result append_unknown(const struct unigram_model *model,
                                  const struct vocabulary *vocabulary, const char *text,
                                  size_t bytes, size_t max_tokens, struct token_list *out)
{
    uint32_t id = (uint32_t)model->unknown_id;
    enum result result = RESULT_OK;
    int32_t found = vocabulary_find_ordinary(vocabulary, text, bytes);
    if (found >= 0) {
        id = (uint32_t)found;
        return token_list_append(out, &id, 1, max_tokens);
    }
    bool spelled = model->byte_fallback;
    for (size_t i = 0; i < bytes && spelled; i++)
        spelled = model->byte_ids[(uint8_t)text[i]] >= 0;
    if (!spelled)
        return token_list_append(out, &id, 1, max_tokens);
    for (size_t i = 0; i < bytes && !result; i++) {
        id = (uint32_t)model->byte_ids[(uint8_t)text[i]];
        result = token_list_append(out, &id, 1, max_tokens);
    }
    return result;
}

static size_t entry_bytes(uint32_t entry)
{
    return (entry & ~UNKNOWN) >> ID_BITS;
}

/* Turns the links from each token's end to its start into links from its start to its end. */
static void turn_round(uint32_t *back, size_t text_bytes)
{
    uint32_t moved = back[text_bytes];
    for (size_t at = text_bytes; at > 0;) {
        size_t start = at - entry_bytes(moved);
        uint32_t before = back[start];
        back[start] = moved;
        moved = before;
        at = start;
    }
}

static bool is_unknown(const struct unigram_model *model, uint32_t entry)
{
    return (entry & UNKNOWN) || (int32_t)(entry & ((1u << ID_BITS) - 1)) == model->unknown_id;
}

static enum result append_path(const struct lattice *lattice, const char *text, size_t text_bytes,
                               size_t max_tokens, struct token_list *out)
{
    const struct unigram_model *model = lattice->model;
    const uint32_t *path = lattice->back;
    enum result result = RESULT_OK;
    for (size_t at = 0; at < text_bytes && !result;) {
        size_t end = at + entry_bytes(path[at]);
        if (is_unknown(model, path[at])) {
            while (end < text_bytes && is_unknown(model, path[end]))
                end += entry_bytes(path[end]);
            result =
                append_unknown(model, lattice->vocabulary, text + at, end - at, max_tokens, out);
        } else {
            uint32_t id = path[at] & ((1u << ID_BITS) - 1);
            result = token_list_append(out, &id, 1, max_tokens);
        }
        at = end;
    }
    return result;
}

static enum result reserve(struct unigram_scratch *scratch, size_t bytes, size_t ring)
{
    if (bytes > scratch->back_capacity) {
        uint32_t *grown = realloc(scratch->back, bytes * sizeof *grown);
        if (!grown)
            return RESULT_OUT_OF_MEMORY;
        scratch->back = grown;
        scratch->back_capacity = bytes;
    }
    if (ring > scratch->best_capacity) {
        double *grown = realloc(scratch->best, ring * sizeof *grown);
        if (!grown)
            return RESULT_OUT_OF_MEMORY;
        scratch->best = grown;
        scratch->best_capacity = ring;
    }
    memset(scratch->back, 0, bytes * sizeof *scratch->back);
    return RESULT_OK;
}

enum result unigram_model_encode(const struct unigram_model *model,
                                 const struct vocabulary *vocabulary,
                                 struct unigram_scratch *scratch, const char *text,
                                 size_t text_bytes, size_t max_tokens, struct token_list *out)
{
    size_t ring = vocabulary->longest_bytes + UTF8_MAX_CHAR_BYTES + 1;
    enum result result = reserve(scratch, text_bytes + 1, ring);
    if (result)
        return result;
    struct lattice lattice = {.model = model,
                              .vocabulary = vocabulary,
                              .back = scratch->back,
                              .best = scratch->best,
                              .ring = ring};
    size_t chars = 0;
    for (size_t start = 0; start < text_bytes; start += utf8_char_bytes(text[start])) {
        if (chars++ % CANCEL_LOOK_CHARS == 0 && cancel_flag_is_set(scratch->cancelled))
            return RESULT_CANCELLED;
        if (!extend(&lattice, text, text_bytes, start))
            return RESULT_UNSUPPORTED;
    }
    turn_round(lattice.back, text_bytes);
    return append_path(&lattice, text, text_bytes, max_tokens, out);
}
