/*
 * Encodes a prompt through the stages of tokenizer_state.h, with one set of working memory for the
 * whole call.
 *
 * The bound on tokens also bounds the work: no token covers more than the longest token's bytes, so
 * a text longer than all allowed tokens could cover is refused before it is split. (Normalization
 * may shrink text, at most threefold; a vocabulary whose tokens can absorb unbounded text, by white
 * space or by fused unknowns, has no such bound and is limited only by counting.)
 */
#include "frontend/prompt/tokenizer/tokenizer.h"

#include "frontend/base/cancel_flag.h"
#include "frontend/prompt/tokenizer/token_list.h"
#include "frontend/prompt/tokenizer/tokenizer_state.h"

enum { SHRINK = 3 };

struct encoding {
    const struct tokenizer *tokenizer;
    struct marked_text prompt;
    struct marked_text normal;
    struct marked_text spare;
    struct pretokenizer_scratch pieces;
    struct bpe_scratch symbols;
    struct unigram_scratch lattice;
    const atomic_bool *cancelled;
    size_t max_tokens;
    struct token_list *out;
};

static void encoding_fini(struct encoding *encoding)
{
    marked_text_fini(&encoding->prompt);
    marked_text_fini(&encoding->normal);
    marked_text_fini(&encoding->spare);
    pretokenizer_scratch_fini(&encoding->pieces);
    bpe_scratch_fini(&encoding->symbols);
    unigram_scratch_fini(&encoding->lattice);
}

static enum result encode_token(struct encoding *encoding, const struct added_token *token)
{
    return token_list_append(encoding->out, &token->id, 1, encoding->max_tokens);
}

/* Text without added tokens: split and merge. */
static enum result encode_text(struct encoding *encoding, const char *text, size_t text_bytes,
                               bool at_start)
{
    const struct tokenizer *tokenizer = encoding->tokenizer;
    const char *cut;
    enum result result = pretokenizer_run(&tokenizer->pretokenizer, &encoding->pieces, text,
                                          text_bytes, at_start, &cut);
    const struct piece_list *list = &encoding->pieces.pieces;
    for (size_t i = 0; i < list->count && !result; i++) {
        struct piece piece = list->pieces[i];
        if (i % CANCEL_LOOK_UNITS == 0 && cancel_flag_is_set(encoding->cancelled))
            return RESULT_CANCELLED;
        if (tokenizer->words.used)
            result = wordpiece_model_encode(&tokenizer->words, &tokenizer->vocabulary,
                                            cut + piece.start, piece.end - piece.start,
                                            encoding->max_tokens, encoding->out);
        else if (tokenizer->unigram.used)
            result = unigram_model_encode(
                &tokenizer->unigram, &tokenizer->vocabulary, &encoding->lattice, cut + piece.start,
                piece.end - piece.start, encoding->max_tokens, encoding->out);
        else
            result = bpe_model_encode(&tokenizer->model, &tokenizer->vocabulary, &encoding->symbols,
                                      cut + piece.start, piece.end - piece.start,
                                      encoding->max_tokens, encoding->out);
    }
    return result;
}

/* Text between raw added tokens: normalize, then cut out the normalized ones. */
static enum result encode_gap(struct encoding *encoding, size_t start, size_t end)
{
    if (start == end)
        return RESULT_OK;
    const struct tokenizer *tokenizer = encoding->tokenizer;
    const char *bytes = encoding->prompt.bytes + start;
    const uint8_t *trusted = encoding->prompt.trusted + start;
    size_t count = end - start;
    enum result result = RESULT_OK;
    if (tokenizer->normalizer.step_count > 0) {
        encoding->normal.count = 0;
        result = marked_text_append_marked(&encoding->normal, bytes, trusted, count);
        if (!result)
            result = normalizer_run(&tokenizer->normalizer, &encoding->normal, &encoding->spare,
                                    encoding->cancelled);
        bytes = encoding->normal.bytes;
        trusted = encoding->normal.trusted;
        count = encoding->normal.count;
    }
    const struct added_text text = {bytes, trusted, count, encoding->cancelled};
    size_t at = 0;
    while (!result && at < count) {
        struct added_match match;
        result =
            added_tokens_next(&tokenizer->added, &tokenizer->added.normalized, &text, at, &match);
        if (result)
            break;
        if (at < match.start)
            result = encode_text(encoding, bytes + at, match.start - at, start == 0 && at == 0);
        if (!result)
            result = encode_token(encoding, match.token);
        at = match.end;
    }
    if (result == RESULT_NOT_FOUND)
        result = encode_text(encoding, bytes + at, count - at, start == 0 && at == 0);
    return result;
}

static enum result encode_prompt(struct encoding *encoding)
{
    const struct added_tokens *added = &encoding->tokenizer->added;
    const struct marked_text *prompt = &encoding->prompt;
    const struct added_text text = {prompt->bytes, prompt->trusted, prompt->count,
                                    encoding->cancelled};
    enum result result = RESULT_OK;
    size_t at = 0;
    while (!result && at < prompt->count) {
        struct added_match match;
        result = added_tokens_next(added, &added->raw, &text, at, &match);
        if (result)
            break;
        result = encode_gap(encoding, at, match.start);
        if (!result)
            result = encode_token(encoding, match.token);
        at = match.end;
    }
    if (result == RESULT_NOT_FOUND)
        result = encode_gap(encoding, at, prompt->count);
    return result;
}

/* False if the spans certainly give more tokens than allowed, or exceed the bound on a prompt's
 * bytes. */
static bool may_fit(const struct tokenizer *tokenizer, const struct prompt_span spans[],
                    size_t span_count, size_t room)
{
    size_t total = 0;
    for (size_t i = 0; i < span_count; i++) {
        if (spans[i].text_bytes > LIMIT_TEMPLATE_OUTPUT - total)
            return false;
        total += spans[i].text_bytes;
    }
    bool unbounded = tokenizer->added.has_strips || tokenizer->words.used ||
                     tokenizer->unigram.used || !tokenizer->model.covers_all;
    for (size_t i = 0; i < tokenizer->pretokenizer.step_count; i++)
        unbounded |= tokenizer->pretokenizer.steps[i].behavior == SPLIT_REMOVED &&
                     tokenizer->pretokenizer.steps[i].kind != PRETOKENIZER_SPACES;
    size_t token_bytes = (size_t)tokenizer->vocabulary.longest_bytes * SHRINK;
    return unbounded || total / SHRINK <= room || (total - 1) / token_bytes < room;
}

enum result tokenizer_encode(const struct tokenizer *tokenizer, const struct prompt_span spans[],
                             size_t span_count, size_t max_tokens, const atomic_bool *cancelled,
                             struct token_list *out)
{
    size_t count_before = out->count;
    if (count_before > max_tokens ||
        !may_fit(tokenizer, spans, span_count, max_tokens - count_before))
        return RESULT_TOO_LARGE;
    struct encoding encoding = {.tokenizer = tokenizer,
                                .pieces.cancelled = cancelled,
                                .symbols.merger.cancelled = cancelled,
                                .lattice.cancelled = cancelled,
                                .cancelled = cancelled,
                                .max_tokens = max_tokens,
                                .out = out};
    enum result result = marked_text_join(&encoding.prompt, spans, span_count);
    if (!result)
        result = encode_prompt(&encoding);
    encoding_fini(&encoding);
    if (result)
        out->count = count_before;
    return result;
}
