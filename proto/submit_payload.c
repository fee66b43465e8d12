/*
 * Sizes, writes, reads and checks the payload of a submit record by looping over the table of
 * sections. Nothing here knows a section by name.
 *
 * The functions trust the counts: the frontend has made them, the worker has checked them
 * (submit_payload_check_counts()). The bounds keep the sums small: the largest payload is about
 * 4.2 MB, LIMIT_GRAMMAR_BLOB_BYTES and LIMIT_REQUEST_IMAGE_BYTES.
 */
#include "proto/submit_payload.h"

#include <math.h>
#include <string.h>

#include "proto/must.h"

struct section_row {
    const char *name;
    const char *count_name;
    const char *rule;
    enum submit_element element;
    uint64_t count_max;
    uint32_t count_offset; /* of the count in struct run_params */
    uint32_t count_bytes;  /* its size: 4 or 8 */
    uint32_t align_bytes;
};

static const struct section_row SECTIONS[SUBMIT_SECTION_COUNT] = {
#define SECTION_ROW(section, element_name, count, rule_name, max, align)                           \
    [SUBMIT_##section] = {.name = #section,                                                        \
                          .count_name = #count,                                                    \
                          .rule = #rule_name,                                                      \
                          .element = SUBMIT_ELEMENT_##element_name,                                \
                          .count_max = max,                                                        \
                          .count_offset = offsetof(struct run_params, count),                      \
                          .count_bytes = sizeof((struct run_params *)0)->count,                    \
                          .align_bytes = align},
    SUBMIT_SECTION_LIST(SECTION_ROW)
#undef SECTION_ROW
};

static const uint32_t ELEMENT_BYTES[] = {
    [SUBMIT_ELEMENT_TOKEN] = sizeof(uint32_t),
    [SUBMIT_ELEMENT_BIAS] = sizeof(struct logit_bias_entry),
    [SUBMIT_ELEMENT_WORD] = sizeof(uint32_t),
    [SUBMIT_ELEMENT_BYTE] = 1,
};

static uint64_t section_count(const struct run_params *run, enum submit_section section)
{
    const struct section_row *row = &SECTIONS[section];
    const uint8_t *field = (const uint8_t *)run + row->count_offset;
    uint32_t narrow = 0;
    uint64_t wide = 0;
    if (row->count_bytes == sizeof wide) {
        memcpy(&wide, field, sizeof wide);
        return wide;
    }
    memcpy(&narrow, field, sizeof narrow);
    return narrow;
}

enum result submit_payload_check_counts(const struct run_params *run, struct error_text *error)
{
    for (enum submit_section section = 0; section < SUBMIT_SECTION_COUNT; section++) {
        const struct section_row *row = &SECTIONS[section];
        uint64_t count = section_count(run, section);
        if (count > row->count_max)
            return error_set(error, RESULT_CORRUPT, "%s: %s %llu", row->rule, row->count_name,
                             (unsigned long long)count);
    }
    return RESULT_OK;
}

struct submit_span submit_payload_span(const struct run_params *run, enum submit_section first,
                                       enum submit_section last)
{
    struct submit_span span = {0};
    uint64_t end = 0;
    for (enum submit_section section = 0; section <= last; section++) {
        const struct section_row *row = &SECTIONS[section];
        uint64_t bytes = section_count(run, section) * ELEMENT_BYTES[row->element];
        uint64_t align = row->align_bytes;
        uint64_t begin = bytes > 0 ? (end + align - 1) / align * align : end;
        if (section == first)
            span.offset = begin;
        end = begin + bytes;
    }
    span.bytes = end - span.offset;
    return span;
}

uint64_t submit_payload_bytes(const struct run_params *run)
{
    return submit_payload_span(run, 0, SUBMIT_SECTION_COUNT - 1).bytes;
}

void submit_payload_write(const struct run_params *run, const struct submit_piece *pieces,
                          uint32_t piece_count, void *payload)
{
    const struct submit_piece *piece = pieces;
    for (enum submit_section section = 0; section < SUBMIT_SECTION_COUNT; section++) {
        struct submit_span span = submit_payload_span(run, section, section);
        uint32_t element_bytes = ELEMENT_BYTES[SECTIONS[section].element];
        uint8_t *at = (uint8_t *)payload + span.offset;
        uint64_t left = span.bytes / element_bytes;
        for (; piece < pieces + piece_count && piece->section == section; piece++) {
            must(piece->count <= left);
            left -= piece->count;
            if (piece->count == 0)
                continue;
            const uint8_t *from = piece->base;
            memcpy(at, from + piece->first * element_bytes, piece->count * element_bytes);
            at += piece->count * element_bytes;
        }
        must(left == 0);
    }
    must(piece == pieces + piece_count);
}

void submit_payload_read(const struct run_params *run, const void *payload,
                         enum submit_section first, enum submit_section last, void *copy)
{
    struct submit_span span = submit_payload_span(run, first, last);
    if (span.bytes > 0)
        memcpy(copy, (const uint8_t *)payload + span.offset, span.bytes);
}

static enum result check_element(enum submit_section section, uint64_t index, const void *element,
                                 uint32_t vocab_tokens, struct error_text *error)
{
    struct logit_bias_entry entry = {0};
    if (SECTIONS[section].element == SUBMIT_ELEMENT_BIAS)
        memcpy(&entry, element, sizeof entry);
    else
        memcpy(&entry.token, element, sizeof entry.token);
    if (entry.token >= vocab_tokens)
        return error_set(error, RESULT_INVALID, "%s[%llu]: token %u is outside the vocabulary",
                         SECTIONS[section].name, (unsigned long long)index, entry.token);
    if (!(entry.bias >= -100.0f && entry.bias <= 100.0f) && entry.bias != -INFINITY)
        return error_set(error, RESULT_INVALID, "%s[%llu]: bias %g is out of range",
                         SECTIONS[section].name, (unsigned long long)index, (double)entry.bias);
    return RESULT_OK;
}

enum result submit_payload_check(const struct run_params *run, enum submit_section first,
                                 enum submit_section last, const void *copy, uint32_t vocab_tokens,
                                 struct error_text *error)
{
    struct submit_span all = submit_payload_span(run, first, last);
    for (enum submit_section section = first; section <= last; section++) {
        struct submit_span span = submit_payload_span(run, section, section);
        uint32_t element_bytes = ELEMENT_BYTES[SECTIONS[section].element];
        if (SECTIONS[section].element == SUBMIT_ELEMENT_WORD ||
            SECTIONS[section].element == SUBMIT_ELEMENT_BYTE || span.bytes == 0)
            continue;
        const uint8_t *elements = (const uint8_t *)copy + (span.offset - all.offset);
        for (uint64_t i = 0; i < span.bytes / element_bytes; i++) {
            enum result result =
                check_element(section, i, elements + i * element_bytes, vocab_tokens, error);
            if (result != RESULT_OK)
                return result;
        }
    }
    return RESULT_OK;
}
