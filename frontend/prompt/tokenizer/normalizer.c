/*
 * Steps from one text buffer to another, with the trust marks.
 *
 * A replacement is trusted if all bytes it replaces are; a prepended string if the byte after it
 * is. Output is bounded (LIMIT_NORMALIZED_BYTES), since a hostile file may request replacements
 * that grow the text at every step.
 */
#include "frontend/prompt/tokenizer/normalizer.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/base/cancel_flag.h"
#include "frontend/prompt/tokenizer/utf8_nfc.h"
#include "proto/utf8.h"

enum { PART_BYTES = 128 };

void normalizer_fini(struct normalizer *normalizer)
{
    for (size_t i = 0; i < normalizer->step_count; i++)
        character_map_close(normalizer->steps[i].map);
    normalizer->step_count = 0;
}

enum result normalizer_add(struct normalizer *normalizer, const struct normalizer_step *step)
{
    if (normalizer->step_count == LIMIT_NORMALIZER_STEPS) {
        character_map_close(step->map);
        return RESULT_TOO_LARGE;
    }
    normalizer->steps[normalizer->step_count++] = *step;
    return RESULT_OK;
}

static enum result replace(const struct normalizer_step *step, const struct marked_text *text,
                           struct marked_text *out)
{
    enum result result = RESULT_OK;
    size_t done = 0;
    while (!result && done < text->count) {
        const char *found =
            memmem(text->bytes + done, text->count - done, step->from, step->from_bytes);
        size_t until = found ? (size_t)(found - text->bytes) : text->count;
        result =
            marked_text_append_marked(out, text->bytes + done, text->trusted + done, until - done);
        done = until;
        if (!found || result)
            break;
        uint8_t trusted = memchr(text->trusted + done, 0, step->from_bytes) == NULL;
        result = marked_text_append(out, step->to, step->to_bytes, trusted);
        done += step->from_bytes;
    }
    return result;
}

static enum result replace_runs(const struct normalizer_step *step, const struct marked_text *text,
                                struct marked_text *out)
{
    enum result result = RESULT_OK;
    for (size_t at = 0; at < text->count && !result;) {
        size_t end = at;
        while (end < text->count && text->bytes[end] == ' ')
            end++;
        if (end - at >= 2) {
            uint8_t trusted = memchr(text->trusted + at, 0, end - at) == NULL;
            result = marked_text_append(out, step->to, step->to_bytes, trusted);
            at = end;
            continue;
        }
        end = end > at ? end : at + 1;
        while (end < text->count && text->bytes[end] != ' ')
            end++;
        result = marked_text_append_marked(out, text->bytes + at, text->trusted + at, end - at);
        at = end;
    }
    return result;
}

static enum result strip(const struct normalizer_step *step, const struct marked_text *text,
                         struct marked_text *out)
{
    size_t start = 0, end = text->count;
    uint32_t code;
    while (step->strips_left && start < end) {
        size_t bytes = utf8_decode(text->bytes + start, end - start, &code);
        if (!utf8_is_space(code))
            break;
        start += bytes;
    }
    while (step->strips_right && end > start) {
        size_t before = utf8_previous(text->bytes, end);
        utf8_decode(text->bytes + before, end - before, &code);
        if (!utf8_is_space(code))
            break;
        end = before;
    }
    return marked_text_append_marked(out, text->bytes + start, text->trusted + start, end - start);
}

static enum result prepend(const struct normalizer_step *step, const struct marked_text *text,
                           struct marked_text *out)
{
    if (text->count == 0)
        return RESULT_OK;
    enum result result = marked_text_append(out, step->to, step->to_bytes, text->trusted[0]);
    return result ? result
                  : marked_text_append_marked(out, text->bytes, text->trusted, text->count);
}

static enum result form_c_part(const char *bytes, const uint8_t trusted[], size_t count,
                               struct marked_text *out)
{
    if (utf8_nfc_is_inert(bytes, count))
        return marked_text_append_marked(out, bytes, trusted, count);
    uint32_t *chars = malloc(count * sizeof *chars);
    if (!chars)
        return RESULT_OUT_OF_MEMORY;
    size_t char_count = 0;
    for (size_t at = 0; at < count;) {
        uint32_t code;
        uint32_t mark = trusted[at] ? UTF8_NFC_MARK : 0;
        at += utf8_decode(bytes + at, count - at, &code);
        chars[char_count++] = code | mark;
    }
    uint32_t *normal = NULL;
    size_t normal_count = 0;
    enum result result = utf8_nfc_normalize(chars, char_count, &normal, &normal_count);
    free(chars);
    for (size_t i = 0; i < normal_count && !result; i++) {
        char encoded[UTF8_MAX_CHAR_BYTES];
        size_t encoded_bytes = utf8_encode(normal[i] & ~UTF8_NFC_MARK, encoded);
        result = marked_text_append(out, encoded, encoded_bytes, (normal[i] & UTF8_NFC_MARK) != 0);
    }
    free(normal);
    return result;
}

/* An ASCII character never changes the text before it, so the text may be cut before one. */
static enum result form_c(const struct marked_text *text, struct marked_text *out,
                          const atomic_bool *cancelled)
{
    enum result result = RESULT_OK;
    for (size_t start = 0; start < text->count && !result;) {
        size_t end = start + 1;
        if (cancel_flag_is_set(cancelled))
            return RESULT_CANCELLED;
        while (end < text->count && (end - start < PART_BYTES || (uint8_t)text->bytes[end] >= 0x80))
            end++;
        result = form_c_part(text->bytes + start, text->trusted + start, end - start, out);
        start = end;
    }
    return result;
}

static enum result run_step(const struct normalizer_step *step, const struct marked_text *text,
                            struct marked_text *out, const atomic_bool *cancelled)
{
    switch (step->kind) {
    case NORMALIZER_FORM_C: return form_c(text, out, cancelled);
    case NORMALIZER_REPLACE: return replace(step, text, out);
    case NORMALIZER_SPACE_RUNS: return replace_runs(step, text, out);
    case NORMALIZER_STRIP: return strip(step, text, out);
    case NORMALIZER_CHARACTERS: return character_map_apply(step->map, text, out, cancelled);
    case NORMALIZER_BERT: return bert_text_normalize(&step->bert, text, out, cancelled);
    case NORMALIZER_PREPEND: break;
    }
    return prepend(step, text, out);
}

enum result normalizer_run(const struct normalizer *normalizer, struct marked_text *text,
                           struct marked_text *spare, const atomic_bool *cancelled)
{
    for (size_t i = 0; i < normalizer->step_count; i++) {
        const struct normalizer_step *step = &normalizer->steps[i];
        if (step->kind == NORMALIZER_FORM_C && utf8_nfc_is_inert(text->bytes, text->count))
            continue;
        spare->count = 0;
        if (cancel_flag_is_set(cancelled))
            return RESULT_CANCELLED;
        enum result result = run_step(step, text, spare, cancelled);
        if (result)
            return result;
        struct marked_text rewritten = *spare;
        *spare = *text;
        *text = rewritten;
    }
    return RESULT_OK;
}
