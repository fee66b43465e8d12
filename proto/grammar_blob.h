/*
 * A compiled grammar as one position-independent block: the frontend writes it, the worker checks
 * and reads it. Little-endian.
 *
 *   offset  what
 *   0       struct grammar_blob_header
 *   64      sets      [set_count]        struct regex_byte_set, 32 bytes
 *           nodes     [node_count]       struct grammar_blob_node, 20 bytes; children come first
 *           terminals [terminal_count]   node of each terminal
 *           repeats   [repeat_count]     struct grammar_blob_repeat, 12 bytes
 *           groups    [group_count]      struct grammar_blob_group, 28 bytes
 *           choices   [choice_count]     struct grammar_blob_choice, 8 bytes, of one group after the other
 *           rules     [rule_count + 1]   first production of each rule
 *           productions [production_count + 1]  first slot of each production
 *           slots     [slot_count]       symbols; each production ends with GRAMMAR_SLOT_END | rule
 *
 * Nodes REGEX_NOTHING, REGEX_EMPTY and REGEX_ANYTHING have their ids of proto/grammar_regex.h and
 * are not written: entry i is node i + 3. The root is rule 0.
 */
#ifndef SHOAL_PROTO_GRAMMAR_BLOB_H
#define SHOAL_PROTO_GRAMMAR_BLOB_H

#include <stddef.h>
#include <stdint.h>

#include "proto/grammar_regex.h"
#include "proto/result.h"

#define GRAMMAR_BLOB_MAGIC      0x4D524753u /* "SGRM" */
#define GRAMMAR_BLOB_VERSION    3u
#define GRAMMAR_BLOB_FIRST_NODE 3u

struct grammar_blob_header {
    uint32_t magic;
    uint32_t version;
    uint32_t bytes; /* of the whole blob */
    uint32_t set_count;
    uint32_t node_count;
    uint32_t terminal_count;
    uint32_t repeat_count;
    uint32_t rule_count;
    uint32_t production_count;
    uint32_t slot_count;
    uint32_t group_count;
    uint32_t choice_count;
    uint32_t reserved[4]; /* zero */
};

struct grammar_blob_node {
    uint32_t kind; /* enum regex_kind, from REGEX_KIND_SET on */
    uint32_t a;    /* SET: index of the set, else a node */
    uint32_t b;    /* a node, or 0 */
    uint32_t minimum;
    uint32_t maximum;
};

/* A slot's upper four bits say what its lower 28 are. */
#define GRAMMAR_SLOT_KIND     0xF0000000u
#define GRAMMAR_SLOT_VALUE    0x0FFFFFFFu
#define GRAMMAR_SLOT_TERMINAL 0x00000000u /* a terminal */
#define GRAMMAR_SLOT_RULE     0x10000000u /* a rule */
#define GRAMMAR_SLOT_REPEAT   0x20000000u /* a repeat */
#define GRAMMAR_SLOT_TOKEN    0x30000000u /* exactly this token */
#define GRAMMAR_SLOT_END      0x40000000u /* the production of this rule ends */
#define GRAMMAR_SLOT_GROUP    0x50000000u /* a group */

/* minimum to maximum times the symbol. */
struct grammar_blob_repeat {
    uint32_t symbol; /* GRAMMAR_SLOT_TERMINAL or GRAMMAR_SLOT_RULE, with its value */
    uint32_t minimum;
    uint32_t maximum; /* >= 1, or REGEX_UNBOUNDED */
};

#define GRAMMAR_GROUP_CHOICES 65536u     /* of one group */
#define GRAMMAR_NO_RULE       UINT32_MAX /* in grammar_blob_group */

/* One or more texts in any order, with the separator between them: each choice at most once, the
 * required ones exactly once, and undeclared texts: at most `early` of them while a required choice
 * is missing, any number afterwards. Nothing in a group matches the empty text. */
struct grammar_blob_group {
    uint32_t choice_count;
    uint32_t required_count; /* of the choices */
    uint32_t separator;      /* a terminal */
    uint32_t early;          /* undeclared texts; 0 without `extra` */
    uint32_t extra;          /* rule of undeclared texts, or GRAMMAR_NO_RULE */
    uint32_t minimum;        /* choices; undeclared texts, however many, count as one */
    uint32_t maximum;        /* texts, or REGEX_UNBOUNDED */
};

/* Rules ascend within a group. */
struct grammar_blob_choice {
    uint32_t rule;
    uint32_t required; /* 0 or 1 */
};

/* Where the parts lie in a checked blob. */
struct grammar_blob_view {
    const struct grammar_blob_header *header;
    const struct regex_byte_set *sets;
    const struct grammar_blob_node *nodes;
    const uint32_t *terminals;
    const struct grammar_blob_repeat *repeats;
    const struct grammar_blob_group *groups;
    const struct grammar_blob_choice *choices;
    const uint32_t *rules;
    const uint32_t *productions;
    const uint32_t *slots;
};

/* Bytes of a blob with these counts. */
size_t grammar_blob_bytes(const struct grammar_blob_header *header);
/* Checks every index, count and the nesting in linear time; `bytes` is 8-byte aligned and stays
 * where it is while the view is used. RESULT_CORRUPT or RESULT_TOO_LARGE with a text that starts
 * with the rule ("G1 ..."). */
RESULT_CHECKED enum result grammar_blob_check(const void *bytes, size_t size,
                                              struct grammar_blob_view *view,
                                              struct error_text *error);

#endif
