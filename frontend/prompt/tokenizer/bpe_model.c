/*
 * First symbols, unknown characters, and cutting long pieces at seams.
 *
 * Vocabularies without a pre-tokenizer (Gemma, Llama 2) merge over a whole text, which as one row
 * would need a heap of text size. But merges join only symbols that some token contains side by
 * side: if a first symbol `b` never follows a first symbol `a` inside any merge, no token can span
 * the seam between them, and the two sides merge independently. A bitmap of the pairs that do occur
 * (hashed: a false "occurs" costs speed, never correctness) finds the seams; nearly every word
 * boundary is one. Rows are then a few symbols long and the result is the same, token for token.
 *
 * Special tokens never result: their merges were left out when the vocabulary was read, and
 * whole-piece and one-character lookups skip them.
 */
#include "frontend/prompt/tokenizer/bpe_model.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/prompt/tokenizer/token_list.h"
#include "proto/utf8.h"

enum { SEAM_BITS = 21 };

void bpe_model_init(struct bpe_model *model)
{
    *model = (struct bpe_model){.unknown_id = -1};
}

void bpe_model_fini(struct bpe_model *model)
{
    bpe_merge_table_fini(&model->merges);
    free(model->seams);
    *model = (struct bpe_model){.unknown_id = -1};
}

void bpe_scratch_fini(struct bpe_scratch *scratch)
{
    free(scratch->ids);
    bpe_merger_fini(&scratch->merger);
    *scratch = (struct bpe_scratch){0};
}

static void find_first_symbols(struct bpe_model *model, const struct vocabulary *vocabulary)
{
    bool has_all_bytes = model->by_bytes || model->byte_fallback;
    for (int byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        if (model->by_bytes) {
            model->byte_ids[byte] = vocabulary_find_ordinary(vocabulary, &text, 1);
        } else {
            if (byte < 128)
                model->ascii_ids[byte] = vocabulary_find_ordinary(vocabulary, &text, 1);
            model->byte_ids[byte] = vocabulary_find_byte(vocabulary, (uint8_t)byte);
        }
        has_all_bytes = has_all_bytes && model->byte_ids[byte] >= 0;
    }
    model->covers_all = has_all_bytes || (model->unknown_id >= 0 && !model->fuse_unknown);
}

static size_t seam_bit(uint32_t left, uint32_t right)
{
    uint64_t hash = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15ull;
    return (size_t)(hash >> (64 - SEAM_BITS));
}

static bool seam_holds(const struct bpe_model *model, uint32_t left, uint32_t right)
{
    size_t bit = seam_bit(left, right);
    return (model->seams[bit / 64] >> (bit % 64) & 1) == 0;
}

/* The first symbol at one edge of a token, or -1 if that character is no token (text then never
 * builds the token). */
static int32_t edge_symbol(const struct vocabulary *vocabulary, uint32_t id, bool at_end)
{
    size_t bytes;
    const char *text = vocabulary_text(vocabulary, id, &bytes);
    if (bytes == 0)
        return -1;
    size_t start = at_end ? utf8_previous(text, bytes) : 0;
    size_t end = at_end ? bytes : utf8_char_bytes(text[0]);
    return vocabulary_find_ordinary(vocabulary, text + start, end - start);
}

/* True for a first symbol whose text differs from its character; merges with one would make
 * edge_symbol() wrong. */
static bool is_stand_in(const struct bpe_model *model, const struct vocabulary *vocabulary,
                        uint32_t id)
{
    return (int32_t)id == model->unknown_id || vocabulary_has(vocabulary, id, VOCABULARY_BYTE);
}

/* False if a merge with a stand-in symbol makes seams undecidable. */
static bool mark_seams(struct bpe_model *model, const struct vocabulary *vocabulary)
{
    for (uint32_t i = 0; i <= model->merges.slot_mask; i++) {
        uint32_t left;
        uint32_t right;
        if (!bpe_merge_table_entry(&model->merges, i, &left, &right))
            continue;
        if (is_stand_in(model, vocabulary, left) || is_stand_in(model, vocabulary, right))
            return false;
        int32_t end = edge_symbol(vocabulary, left, true);
        int32_t start = edge_symbol(vocabulary, right, false);
        if (end >= 0 && start >= 0) {
            size_t bit = seam_bit((uint32_t)end, (uint32_t)start);
            model->seams[bit / 64] |= 1ull << (bit % 64);
        }
    }
    return true;
}

enum result bpe_model_prepare(struct bpe_model *model, const struct vocabulary *vocabulary)
{
    find_first_symbols(model, vocabulary);
    if (model->by_bytes)
        return RESULT_OK; /* a pre-tokenizer cuts the text */
    model->seams = calloc((1u << SEAM_BITS) / 64, sizeof *model->seams);
    if (!model->seams)
        return RESULT_OUT_OF_MEMORY;
    if (!mark_seams(model, vocabulary)) {
        free(model->seams);
        model->seams = NULL;
    }
    return RESULT_OK;
}

static enum result bpe_scratch_reserve(struct bpe_scratch *scratch, size_t count)
{
    if (count <= scratch->capacity)
        return RESULT_OK;
    size_t capacity = scratch->capacity ? scratch->capacity : 256;
    while (capacity < count)
        capacity *= 2;
    uint32_t *grown = realloc(scratch->ids, capacity * sizeof *grown);
    if (!grown)
        return RESULT_OUT_OF_MEMORY;
    scratch->ids = grown;
    scratch->capacity = capacity;
    return RESULT_OK;
}

/* The byte tokens of a character that is no token; 0 if one of them is missing. */
static size_t byte_symbols(const struct bpe_model *model, const char *text, size_t bytes,
                           uint32_t ids[])
{
    for (size_t i = 0; i < bytes; i++) {
        int32_t id = model->byte_fallback ? model->byte_ids[(uint8_t)text[i]] : -1;
        if (id < 0)
            return 0;
        ids[i] = (uint32_t)id;
    }
    return bytes;
}

/* Writes the first symbols of a piece to `ids`, which has room for one per byte and one more. */
static size_t first_symbols(const struct bpe_model *model, const struct vocabulary *vocabulary,
                            const char *text, size_t text_bytes, uint32_t ids[])
{
    size_t count = 0;
    bool pending = false; /* an unknown token that has not been written yet */
    for (size_t at = 0; at < text_bytes;) {
        size_t bytes = model->by_bytes ? 1 : utf8_char_bytes(text[at]);
        int32_t id;
        if (model->by_bytes)
            id = model->byte_ids[(uint8_t)text[at]];
        else if (bytes == 1)
            id = model->ascii_ids[(uint8_t)text[at]];
        else
            id = vocabulary_find_ordinary(vocabulary, text + at, bytes);
        if (id >= 0) {
            if (pending)
                ids[count++] = (uint32_t)model->unknown_id;
            pending = false;
            ids[count++] = (uint32_t)id;
        } else {
            size_t fallen =
                model->by_bytes ? 0 : byte_symbols(model, text + at, bytes, ids + count);
            count += fallen;
            if (fallen == 0 && model->unknown_id >= 0) {
                if (pending && !model->fuse_unknown)
                    ids[count++] = (uint32_t)model->unknown_id;
                pending = true;
            }
        }
        at += bytes;
    }
    if (pending)
        ids[count++] = (uint32_t)model->unknown_id;
    return count;
}

static enum result encode_row(const struct bpe_model *model, struct bpe_scratch *scratch,
                              uint32_t ids[], size_t count, size_t max_tokens,
                              struct token_list *out)
{
    size_t merged;
    enum result result = bpe_merger_run(&scratch->merger, &model->merges, ids, count, &merged);
    return result ? result : token_list_append(out, ids, merged, max_tokens);
}

enum result bpe_model_encode(const struct bpe_model *model, const struct vocabulary *vocabulary,
                             struct bpe_scratch *scratch, const char *text, size_t text_bytes,
                             size_t max_tokens, struct token_list *out)
{
    if (model->ignore_merges && text_bytes <= vocabulary->longest_bytes) {
        int32_t whole = vocabulary_find_ordinary(vocabulary, text, text_bytes);
        if (whole >= 0)
            return token_list_append(out, &(uint32_t){(uint32_t)whole}, 1, max_tokens);
    }
    enum result result = bpe_scratch_reserve(scratch, text_bytes + 1);
    if (result)
        return result;
    uint32_t *ids = scratch->ids;
    size_t count = first_symbols(model, vocabulary, text, text_bytes, ids);
    size_t start = 0;
    for (size_t end = 1; model->seams && end < count && !result; end++) {
        if (seam_holds(model, ids[end - 1], ids[end])) {
            result = encode_row(model, scratch, ids + start, end - start, max_tokens, out);
            start = end;
        }
    }
    return result ? result
                  : encode_row(model, scratch, ids + start, count - start, max_tokens, out);
}
