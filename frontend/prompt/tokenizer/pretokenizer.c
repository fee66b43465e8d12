/*
 * Splitting as stages over a list of pieces.
 *
 * Each step reads the pieces of the previous step and writes new ones; a step sees one piece at a
 * time and no text around it (a look-ahead ends at the piece's end), as in Hugging Face's
 * implementation, because that decides where words end. Pieces are index pairs; text is copied only
 * by the steps that rewrite it. Memory is proportional to the text, whose length the caller bounds.
 */
#include "frontend/prompt/tokenizer/pretokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/base/cancel_flag.h"
#include "frontend/prompt/tokenizer/bert_text.h"
#include "proto/must.h"
#include "proto/utf8.h"

void pretokenizer_fini(struct pretokenizer *pretokenizer)
{
    for (size_t i = 0; i < pretokenizer->step_count; i++)
        pretokenizer_pattern_close(pretokenizer->steps[i].pattern);
    pretokenizer->step_count = 0;
}

enum result pretokenizer_add(struct pretokenizer *pretokenizer, struct pretokenizer_step step)
{
    if (pretokenizer->step_count == LIMIT_PRETOKENIZER_STEPS) {
        pretokenizer_pattern_close(step.pattern);
        return RESULT_TOO_LARGE;
    }
    pretokenizer->steps[pretokenizer->step_count++] = step;
    return RESULT_OK;
}

enum result pretokenizer_add_pattern(struct pretokenizer *pretokenizer, const char *regex,
                                     size_t regex_bytes, enum split_behavior behavior, bool invert,
                                     struct error_text *error)
{
    struct pretokenizer_step step = {
        .kind = PRETOKENIZER_PATTERN, .behavior = behavior, .invert = invert};
    enum result result = pretokenizer_pattern_open(regex, regex_bytes, &step.pattern, error);
    if (result)
        return result;
    result = pretokenizer_add(pretokenizer, step);
    return result ? error_set(error, result, "more than %u pre-tokenizer steps",
                              LIMIT_PRETOKENIZER_STEPS)
                  : RESULT_OK;
}

void pretokenizer_scratch_fini(struct pretokenizer_scratch *scratch)
{
    free(scratch->pieces.pieces);
    free(scratch->before.pieces);
    free(scratch->text);
    free(scratch->text_before);
    pattern_search_destroy(scratch->search);
    *scratch = (struct pretokenizer_scratch){0};
}

static enum result push(struct piece_list *list, size_t start, size_t end)
{
    if (start == end)
        return RESULT_OK;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 256;
        struct piece *grown = realloc(list->pieces, capacity * sizeof *grown);
        if (!grown)
            return RESULT_OUT_OF_MEMORY;
        list->pieces = grown;
        list->capacity = capacity;
    }
    list->pieces[list->count++] = (struct piece){(uint32_t)start, (uint32_t)end};
    return RESULT_OK;
}

/* The intervals of one piece in text order, matches and gaps alternating, from which pieces are
 * made. */
struct splitting {
    const struct pretokenizer_step *step;
    struct piece_list *out;
    size_t first; /* count of `out` before this piece: earlier pieces are never merged with */
    bool previous_match;
    bool has_pending; /* SPLIT_MERGED_WITH_NEXT: a match that waits for the gap after it */
    struct piece pending;
};

static enum result extend_or_push(struct splitting *splitting, bool extend, size_t start,
                                  size_t end)
{
    struct piece_list *out = splitting->out;
    if (extend && out->count > splitting->first) {
        out->pieces[out->count - 1].end = (uint32_t)end;
        return RESULT_OK;
    }
    return push(out, start, end);
}

static enum result put_before_next(struct splitting *splitting, size_t start, size_t end,
                                   bool is_match)
{
    struct piece pending = splitting->pending;
    bool had = splitting->has_pending;
    splitting->has_pending = is_match;
    splitting->pending = (struct piece){(uint32_t)start, (uint32_t)end};
    if (!is_match)
        return push(splitting->out, had ? pending.start : start, end);
    return had ? push(splitting->out, pending.start, pending.end) : RESULT_OK;
}

static enum result put_interval(struct splitting *splitting, size_t start, size_t end, bool match)
{
    bool is_match = match != splitting->step->invert;
    bool before = splitting->previous_match;
    splitting->previous_match = is_match;
    switch (splitting->step->behavior) {
    case SPLIT_REMOVED: return is_match ? RESULT_OK : push(splitting->out, start, end);
    case SPLIT_ISOLATED: return push(splitting->out, start, end);
    case SPLIT_MERGED_WITH_PREVIOUS:
        return extend_or_push(splitting, is_match && !before, start, end);
    case SPLIT_CONTIGUOUS: return extend_or_push(splitting, is_match == before, start, end);
    case SPLIT_MERGED_WITH_NEXT: break;
    }
    return put_before_next(splitting, start, end, is_match);
}

static enum result find(const struct pretokenizer_step *step, struct pretokenizer_scratch *scratch,
                        const char *text, size_t bytes, size_t from, size_t *start, size_t *end)
{
    if (step->kind == PRETOKENIZER_PATTERN)
        return pretokenizer_pattern_find(step->pattern, scratch->search, text, bytes, from, start,
                                         end);
    const char *found = memmem(text + from, bytes - from, step->literal, step->literal_bytes);
    if (!found)
        return RESULT_NOT_FOUND;
    *start = (size_t)(found - text);
    *end = *start + step->literal_bytes;
    return RESULT_OK;
}

static enum result split_piece(const struct pretokenizer_step *step,
                               struct pretokenizer_scratch *scratch, const char *text,
                               struct piece piece)
{
    struct splitting splitting = {
        .step = step, .out = &scratch->pieces, .first = scratch->pieces.count};
    const char *bytes = text + piece.start;
    size_t count = piece.end - piece.start;
    size_t done = 0;
    enum result result = RESULT_OK;
    for (size_t from = 0; from <= count && !result;) {
        size_t start;
        size_t end;
        if (cancel_flag_is_set(scratch->cancelled))
            return RESULT_CANCELLED;
        result = find(step, scratch, bytes, count, from, &start, &end);
        if (result)
            break;
        if (done < start)
            result = put_interval(&splitting, piece.start + done, piece.start + start, false);
        if (!result)
            result = put_interval(&splitting, piece.start + start, piece.start + end, true);
        done = end;
        from = end;
        if (start == end) /* an empty match: continue after the next character */
            from += end < count ? utf8_char_bytes(bytes[end]) : 1;
    }
    if (result == RESULT_NOT_FOUND)
        result = RESULT_OK;
    if (!result && done < count)
        result = put_interval(&splitting, piece.start + done, piece.end, false);
    if (!result && splitting.has_pending)
        result = push(splitting.out, splitting.pending.start, splitting.pending.end);
    return result;
}

static enum result split_words(struct pretokenizer_scratch *scratch, const char *text,
                               struct piece piece)
{
    const char *bytes = text + piece.start;
    size_t count = piece.end - piece.start;
    size_t start = 0;
    size_t end;
    enum result result = RESULT_OK;
    while (!result && bert_text_next_word(bytes, count, &start, &end)) {
        if (cancel_flag_is_set(scratch->cancelled))
            return RESULT_CANCELLED;
        result = push(&scratch->pieces, piece.start + start, piece.start + end);
        start = end;
    }
    return result;
}

static void swap_texts(struct pretokenizer_scratch *scratch)
{
    char *text = scratch->text;
    size_t capacity = scratch->text_capacity;
    scratch->text = scratch->text_before;
    scratch->text_capacity = scratch->text_before_capacity;
    scratch->text_before = text;
    scratch->text_before_capacity = capacity;
}

static enum result reserve_text(struct pretokenizer_scratch *scratch, size_t bytes)
{
    if (bytes <= scratch->text_capacity)
        return RESULT_OK;
    if (bytes > UINT32_MAX)
        return RESULT_TOO_LARGE;
    char *grown = realloc(scratch->text, bytes);
    if (!grown)
        return RESULT_OUT_OF_MEMORY;
    scratch->text = grown;
    scratch->text_capacity = bytes;
    return RESULT_OK;
}

/* Rewrites all pieces into scratch->text. */
static enum result rewrite_spaces(const struct pretokenizer_step *step,
                                  struct pretokenizer_scratch *scratch, const char *text,
                                  bool at_start)
{
    size_t worst = 0;
    for (size_t i = 0; i < scratch->before.count; i++) {
        struct piece piece = scratch->before.pieces[i];
        worst += ((size_t)(piece.end - piece.start) + 1) * step->literal_bytes;
    }
    enum result result = reserve_text(scratch, worst);
    size_t written = 0;
    for (size_t i = 0; i < scratch->before.count && !result; i++) {
        struct piece piece = scratch->before.pieces[i];
        size_t start = written;
        bool wants_prefix =
            step->prefix == PREFIX_ALWAYS || (step->prefix == PREFIX_FIRST && at_start && i == 0);
        bool has_prefix = text[piece.start] == ' ' ||
                          (piece.end - piece.start >= step->literal_bytes &&
                           memcmp(text + piece.start, step->literal, step->literal_bytes) == 0);
        if (wants_prefix && !has_prefix) {
            memcpy(scratch->text + written, step->literal, step->literal_bytes);
            written += step->literal_bytes;
        }
        for (size_t at = piece.start; at < piece.end; at++) {
            size_t bytes = text[at] == ' ' ? step->literal_bytes : 1;
            memcpy(scratch->text + written, text[at] == ' ' ? step->literal : &text[at], bytes);
            written += bytes;
        }
        result = push(&scratch->pieces, start, written);
    }
    return result;
}

enum result pretokenizer_run(const struct pretokenizer *pretokenizer,
                             struct pretokenizer_scratch *scratch, const char *text,
                             size_t text_bytes, bool at_start, const char **cut_text)
{
    must(text_bytes <= UINT32_MAX / 4);
    if (!scratch->search && !(scratch->search = pattern_search_create()))
        return RESULT_OUT_OF_MEMORY;
    scratch->pieces.count = 0;
    enum result result = push(&scratch->pieces, 0, text_bytes);
    for (size_t i = 0; i < pretokenizer->step_count && !result; i++) {
        const struct pretokenizer_step *step = &pretokenizer->steps[i];
        struct piece_list before = scratch->before;
        scratch->before = scratch->pieces;
        scratch->pieces = before;
        scratch->pieces.count = 0;
        if (step->kind == PRETOKENIZER_SPACES) {
            result = rewrite_spaces(step, scratch, text, at_start);
            text = scratch->text;
            swap_texts(scratch);
            continue;
        }
        for (size_t p = 0; p < scratch->before.count && !result; p++)
            result = step->kind == PRETOKENIZER_WORDS
                         ? split_words(scratch, text, scratch->before.pieces[p])
                         : split_piece(step, scratch, text, scratch->before.pieces[p]);
    }
    *cut_text = text;
    return result;
}
