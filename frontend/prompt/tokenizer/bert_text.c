/*
 * The four rules act on one character after the other, except that accents are found by canonical
 * decomposition, which orders marks that follow each other. An ASCII character never changes that
 * order, so the text is worked on in parts that begin with one.
 */
#include "frontend/prompt/tokenizer/bert_text.h"

#include <stdlib.h>

#include "frontend/base/cancel_flag.h"
#include "frontend/prompt/tokenizer/bert_text_table.h"
#include "frontend/prompt/tokenizer/utf8_nfc.h"
#include "proto/utf8.h"

enum { PART_BYTES = 128, CAPITAL_I_WITH_DOT = 0x130, DOT_ABOVE = 0x307 };

static unsigned class_bits(uint32_t code)
{
    size_t low = 0;
    size_t high = bert_class_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (bert_classes[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < bert_class_count && bert_classes[low].first <= code ? bert_classes[low].bits : 0;
}

static uint32_t lower_of(uint32_t code)
{
    size_t low = 0;
    size_t high = bert_lower_run_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (bert_lower_runs[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == bert_lower_run_count)
        return code;
    const struct bert_lower_run *run = &bert_lower_runs[low];
    if (code < run->first || (code - run->first) % run->step != 0)
        return code;
    return (uint32_t)((int32_t)code + run->difference);
}

static enum result append(uint32_t code, uint8_t trusted, struct marked_text *out)
{
    char bytes[UTF8_MAX_CHAR_BYTES];
    size_t count = utf8_encode(code, bytes);
    return marked_text_append(out, bytes, count, trusted);
}

/* A character after decomposition. */
static enum result append_letter(const struct bert_rules *rules, uint32_t code, uint8_t trusted,
                                 struct marked_text *out)
{
    if (rules->strips_accents && (class_bits(code) & BERT_NONSPACING))
        return RESULT_OK;
    if (!rules->lowers)
        return append(code, trusted, out);
    if (code != CAPITAL_I_WITH_DOT)
        return append(lower_of(code), trusted, out);
    enum result result = append('i', trusted, out);
    return result ? result : append(DOT_ABOVE, trusted, out);
}

/* Cleans and spaces; returns the number of characters, at most 3 * count. */
static size_t clean_part(const struct bert_rules *rules, const char *bytes, const uint8_t trusted[],
                         size_t count, uint32_t chars[])
{
    size_t written = 0;
    for (size_t at = 0; at < count;) {
        uint32_t code;
        uint32_t mark = trusted[at] ? UTF8_NFC_MARK : 0;
        at += utf8_decode(bytes + at, count - at, &code);
        unsigned bits = class_bits(code);
        if (rules->cleans && (bits & BERT_REMOVED))
            continue;
        if (rules->cleans && utf8_is_space(code))
            code = ' ';
        bool apart = rules->spaces_ideographs && (bits & BERT_IDEOGRAPH);
        if (apart)
            chars[written++] = ' ' | mark;
        chars[written++] = code | mark;
        if (apart)
            chars[written++] = ' ' | mark;
    }
    return written;
}

static enum result normalize_part(const struct bert_rules *rules, const char *bytes,
                                  const uint8_t trusted[], size_t count, struct marked_text *out)
{
    uint32_t *chars = malloc(3 * count * sizeof *chars);
    if (!chars)
        return RESULT_OUT_OF_MEMORY;
    size_t char_count = clean_part(rules, bytes, trusted, count, chars);
    enum result result = RESULT_OK;
    if (rules->strips_accents) {
        uint32_t *parts = NULL;
        result = utf8_nfc_decompose(chars, char_count, &parts, &char_count);
        free(chars);
        chars = parts;
    }
    for (size_t i = 0; i < char_count && !result; i++)
        result =
            append_letter(rules, chars[i] & ~UTF8_NFC_MARK, (chars[i] & UTF8_NFC_MARK) != 0, out);
    free(chars);
    return result;
}

enum result bert_text_normalize(const struct bert_rules *rules, const struct marked_text *text,
                                struct marked_text *out, const atomic_bool *cancelled)
{
    enum result result = RESULT_OK;
    for (size_t start = 0; start < text->count && !result;) {
        size_t end = start + 1;
        if (cancel_flag_is_set(cancelled))
            return RESULT_CANCELLED;
        while (end < text->count && (end - start < PART_BYTES || (uint8_t)text->bytes[end] >= 0x80))
            end++;
        result =
            normalize_part(rules, text->bytes + start, text->trusted + start, end - start, out);
        start = end;
    }
    return result;
}

bool bert_text_next_word(const char *text, size_t text_bytes, size_t *start, size_t *end)
{
    bool open = false;
    for (size_t at = *start; at < text_bytes;) {
        uint32_t code;
        size_t bytes = utf8_decode(text + at, text_bytes - at, &code);
        bool punctuation = (class_bits(code) & BERT_PUNCTUATION) != 0;
        bool space = utf8_is_space(code);
        if (open && (punctuation || space)) {
            *end = at;
            return true;
        }
        if (!open && !space) {
            *start = at;
            *end = at + bytes;
            if (punctuation)
                return true;
            open = true;
        }
        at += bytes;
    }
    *end = text_bytes;
    return open;
}
