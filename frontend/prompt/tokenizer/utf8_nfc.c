/*
 * Form C in three steps: decompose every character fully, put each run of combining marks in
 * canonical order, compose pairs again from left to right.
 *
 * Most text needs none of it: utf8_nfc_is_inert() detects this with one table lookup for each
 * character from U+0300 on (all below are inert). The work stays O(n log n) on hostile input:
 * decomposition gives at most four characters for one, a run of a million combining marks is
 * ordered by counting, and composition never goes back beyond the last starter. There is no
 * compatibility mapping (NFKC) and no case folding.
 */
#include "frontend/prompt/tokenizer/utf8_nfc.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/prompt/tokenizer/utf8_nfc_table.h"
#include "proto/utf8.h"

enum {
    HANGUL_S = 0xAC00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11A7,
    HANGUL_L_COUNT = 19,
    HANGUL_V_COUNT = 21,
    HANGUL_T_COUNT = 28,
    HANGUL_S_COUNT = HANGUL_L_COUNT * HANGUL_V_COUNT * HANGUL_T_COUNT,
    FIRST_ACTIVE = 0x300, /* all below are starters in form C */
    SHORT_RUN = 16,       /* marks in a run that are ordered by insertion */
    MAX_PARTS = 4,        /* characters of one full canonical decomposition */
};

static const struct nfc_class *nfc_class_find(uint32_t code)
{
    size_t low = 0;
    size_t high = nfc_class_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (nfc_classes[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < nfc_class_count && nfc_classes[low].first <= code;
    return found ? &nfc_classes[low] : NULL;
}

static uint8_t nfc_class_of(uint32_t marked_char)
{
    uint32_t code = marked_char & ~UTF8_NFC_MARK;
    if (code < FIRST_ACTIVE)
        return 0;
    const struct nfc_class *found = nfc_class_find(code);
    return found ? found->combining_class : 0;
}

bool utf8_nfc_is_inert(const char *bytes, size_t byte_count)
{
    for (size_t at = 0; at < byte_count;) {
        if ((uint8_t)bytes[at] < 0xCC) { /* U+0300 is CC 80 */
            at++;
            continue;
        }
        uint32_t code;
        at += utf8_decode(bytes + at, byte_count - at, &code);
        if (nfc_class_find(code))
            return false;
    }
    return true;
}

static const struct nfc_decomposition *nfc_decomposition_find(uint32_t code)
{
    size_t low = 0;
    size_t high = nfc_decomposition_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (nfc_decompositions[middle].composed < code)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < nfc_decomposition_count && nfc_decompositions[low].composed == code;
    return found ? &nfc_decompositions[low] : NULL;
}

static size_t hangul_decompose(uint32_t code, uint32_t out[MAX_PARTS])
{
    uint32_t index = code - HANGUL_S;
    out[0] = HANGUL_L + index / (HANGUL_V_COUNT * HANGUL_T_COUNT);
    out[1] = HANGUL_V + index % (HANGUL_V_COUNT * HANGUL_T_COUNT) / HANGUL_T_COUNT;
    out[2] = HANGUL_T + index % HANGUL_T_COUNT;
    return out[2] == HANGUL_T ? 2 : 3;
}

/* Full decomposition. Only the first part of a step decomposes further, so the second parts are
 * stacked from the right. */
static size_t nfc_decompose(uint32_t code, uint32_t out[MAX_PARTS])
{
    if (code - HANGUL_S < HANGUL_S_COUNT)
        return hangul_decompose(code, out);
    uint32_t tail[MAX_PARTS];
    size_t tail_count = 0;
    const struct nfc_decomposition *step = code < 0xC0 ? NULL : nfc_decomposition_find(code);
    while (step && tail_count < MAX_PARTS - 1) {
        code = step->first;
        if (step->second)
            tail[tail_count++] = step->second;
        step = code < 0xC0 ? NULL : nfc_decomposition_find(code);
    }
    out[0] = code;
    for (size_t i = 0; i < tail_count; i++)
        out[1 + i] = tail[tail_count - 1 - i];
    return 1 + tail_count;
}

/* 0 if the pair does not compose. */
static uint32_t nfc_compose_pair(uint32_t first, uint32_t second)
{
    if (first - HANGUL_L < HANGUL_L_COUNT && second - HANGUL_V < HANGUL_V_COUNT)
        return HANGUL_S +
               ((first - HANGUL_L) * HANGUL_V_COUNT + (second - HANGUL_V)) * HANGUL_T_COUNT;
    if (first - HANGUL_S < HANGUL_S_COUNT && (first - HANGUL_S) % HANGUL_T_COUNT == 0 &&
        second - (HANGUL_T + 1) < HANGUL_T_COUNT - 1)
        return first + (second - HANGUL_T);
    size_t low = 0;
    size_t high = nfc_composition_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct nfc_decomposition *entry = &nfc_decompositions[nfc_compositions[middle]];
        if (entry->first == first && entry->second == second)
            return entry->composed;
        if (entry->first < first || (entry->first == first && entry->second < second))
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

static void nfc_order_short(uint32_t run[], size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint32_t moving = run[i];
        uint8_t class = nfc_class_of(moving);
        size_t at = i;
        for (; at > 0 && nfc_class_of(run[at - 1]) > class; at--)
            run[at] = run[at - 1];
        run[at] = moving;
    }
}

static enum result nfc_order_long(uint32_t run[], size_t count)
{
    uint32_t *ordered = malloc(count * sizeof *ordered);
    if (!ordered)
        return RESULT_OUT_OF_MEMORY;
    size_t next[257] = {0};
    for (size_t i = 0; i < count; i++)
        next[nfc_class_of(run[i]) + 1]++;
    for (size_t i = 1; i < 257; i++)
        next[i] += next[i - 1];
    for (size_t i = 0; i < count; i++)
        ordered[next[nfc_class_of(run[i])]++] = run[i];
    memcpy(run, ordered, count * sizeof *run);
    free(ordered);
    return RESULT_OK;
}

static enum result nfc_order(uint32_t chars[], size_t count)
{
    for (size_t at = 0; at < count;) {
        if (nfc_class_of(chars[at]) == 0) {
            at++;
            continue;
        }
        size_t end = at + 1;
        while (end < count && nfc_class_of(chars[end]) != 0)
            end++;
        if (end - at <= SHORT_RUN) {
            nfc_order_short(chars + at, end - at);
        } else {
            enum result result = nfc_order_long(chars + at, end - at);
            if (result)
                return result;
        }
        at = end;
    }
    return RESULT_OK;
}

/* In place; returns the new count. */
static size_t nfc_compose(uint32_t chars[], size_t count)
{
    size_t kept = 0;
    size_t starter = 0;
    bool has_starter = false;
    uint8_t last_class = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t current = chars[i];
        uint8_t class = nfc_class_of(current);
        if (has_starter && (last_class == 0 || last_class < class)) {
            uint32_t composed =
                nfc_compose_pair(chars[starter] & ~UTF8_NFC_MARK, current & ~UTF8_NFC_MARK);
            if (composed) {
                chars[starter] = composed | (chars[starter] & current & UTF8_NFC_MARK);
                continue;
            }
        }
        if (class == 0) {
            starter = kept;
            has_starter = true;
        }
        last_class = class;
        chars[kept++] = current;
    }
    return kept;
}

enum result utf8_nfc_decompose(const uint32_t chars[], size_t char_count, uint32_t **decomposed,
                               size_t *decomposed_count)
{
    uint32_t parts[MAX_PARTS];
    size_t total = 0;
    for (size_t i = 0; i < char_count; i++)
        total += nfc_decompose(chars[i] & ~UTF8_NFC_MARK, parts);
    uint32_t *out = malloc((total ? total : 1) * sizeof *out);
    if (!out)
        return RESULT_OUT_OF_MEMORY;
    size_t at = 0;
    for (size_t i = 0; i < char_count; i++) {
        size_t part_count = nfc_decompose(chars[i] & ~UTF8_NFC_MARK, parts);
        for (size_t part = 0; part < part_count; part++)
            out[at++] = parts[part] | (chars[i] & UTF8_NFC_MARK);
    }
    enum result result = nfc_order(out, total);
    if (result) {
        free(out);
        return result;
    }
    *decomposed = out;
    *decomposed_count = total;
    return RESULT_OK;
}

enum result utf8_nfc_normalize(const uint32_t chars[], size_t char_count, uint32_t **normal,
                               size_t *normal_count)
{
    enum result result = utf8_nfc_decompose(chars, char_count, normal, normal_count);
    if (!result)
        *normal_count = nfc_compose(*normal, *normal_count);
    return result;
}
