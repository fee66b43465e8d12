/*
 * The payload of a submit record: sections in a fixed order, whose sizes follow from the counts in
 * struct run_params. SUBMIT_SECTION_LIST describes it once; the sizes, the writer, the reader and
 * the checks of both processes loop over that table. Numbers are little-endian.
 *
 * A section begins at the end of the one before, or at the next multiple of its alignment. An empty
 * section has no bytes and no padding.
 *
 * Columns of the table: the section; its elements (enum submit_element); their number, a field of
 * struct run_params; the rule there that bounds it; its maximum; the section's alignment in bytes.
 */
#ifndef SHOAL_PROTO_SUBMIT_PAYLOAD_H
#define SHOAL_PROTO_SUBMIT_PAYLOAD_H

#include <stdint.h>

#include "proto/image_record.h"
#include "proto/limits.h"
#include "proto/result.h"
#include "proto/run_params.h"

/* clang-format off */
#define SUBMIT_SECTION_LIST(X) \
    X(PROMPT_IDS,      TOKEN, prompt_tokens,     S7,  LIMIT_CONTEXT_TOKENS,       4) \
    X(STOP_IDS,        TOKEN, stop_token_count,  S11, LIMIT_STOP_TOKENS,          4) \
    X(LOGIT_BIAS,      BIAS,  logit_bias_count,  S10, LIMIT_LOGIT_BIAS,           4) \
    X(PREFIX_IDS,      TOKEN, prefix_count,      S16, LIMIT_PREFIX_TOKENS,        4) \
    X(THINK_START_IDS, TOKEN, think_start_count, S17, LIMIT_THINK_TOKENS,         4) \
    X(THINK_END_IDS,   TOKEN, think_end_count,   S17, LIMIT_THINK_TOKENS,         4) \
    X(DRY_BREAKERS,    WORD,  dry_breaker_words, S22, LIMIT_DRY_BREAKER_WORDS,    4) \
    X(GRAMMAR,         BYTE,  grammar_bytes,     S19, LIMIT_GRAMMAR_BLOB_BYTES,        8) \
    X(IMAGES,          BYTE,  image_bytes,       S18, LIMIT_REQUEST_IMAGE_BYTES, IMAGE_ALIGN_BYTES)
/* clang-format on */

enum submit_section {
#define SECTION_NAME(section, ...) SUBMIT_##section,
    SUBMIT_SECTION_LIST(SECTION_NAME)
#undef SECTION_NAME
        SUBMIT_SECTION_COUNT
};

enum submit_element {
    SUBMIT_ELEMENT_TOKEN, /* uint32_t, an id of the vocabulary */
    SUBMIT_ELEMENT_BIAS,  /* struct logit_bias_entry */
    SUBMIT_ELEMENT_WORD,  /* uint32_t; DRY_BREAKERS: dry_breakers_check() checks them */
    SUBMIT_ELEMENT_BYTE   /* GRAMMAR: a blob that grammar_blob_check() checks. IMAGES: struct
                             image_record[image_count] and their pixels, counted in bytes;
                             image_record_check() checks them */
};

/* RESULT_CORRUPT when a count exceeds the table's maximum; the error text begins with the rule's
 * name. The other functions require counts within these bounds. */
enum result submit_payload_check_counts(const struct run_params *run,
                                        struct error_text *error) RESULT_CHECKED;

/* Size of the whole payload. */
uint64_t submit_payload_bytes(const struct run_params *run);

/* Consecutive sections `first` to `last` inside the payload. Where they have the same element and
 * alignment, they are one array. */
struct submit_span {
    uint64_t offset;
    uint64_t bytes;
};
struct submit_span submit_payload_span(const struct run_params *run, enum submit_section first,
                                       enum submit_section last);

/* A piece of a section: `count` elements, base[first] the first of them. */
struct submit_piece {
    enum submit_section section;
    const void *base; /* may be NULL when count is 0 */
    uint64_t first;
    uint64_t count;
};
/* Fills the payload from pieces in the order of the table. Several pieces of one section follow
 * each other; together they have as many elements as its count says (asserted). Padding is not
 * written. */
void submit_payload_write(const struct run_params *run, const struct submit_piece *pieces,
                          uint32_t piece_count, void *payload);

/* Copies the sections `first` to `last` to `copy`, which has room for the bytes of their span. */
void submit_payload_read(const struct run_params *run, const void *payload,
                         enum submit_section first, enum submit_section last, void *copy);

/* Checks the elements of the sections `first` to `last`, copied by submit_payload_read(): token ids
 * below `vocab_tokens`, biases in their range. RESULT_INVALID and the first wrong element. */
enum result submit_payload_check(const struct run_params *run, enum submit_section first,
                                 enum submit_section last, const void *copy, uint32_t vocab_tokens,
                                 struct error_text *error) RESULT_CHECKED;

#endif
