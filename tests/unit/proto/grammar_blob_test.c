/*
 * Each rule of grammar_blob_check: a blob that keeps all of them, and one word of it changed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "proto/grammar_blob.h"
#include "proto/limits.h"

/* The parts of a blob in their order, with at least one of each. */
struct small_blob {
    struct grammar_blob_header header;
    struct regex_byte_set sets[2];
    struct grammar_blob_node nodes[3]; /* ids 3, 4, 5 */
    uint32_t terminals[2];
    struct grammar_blob_repeat repeats[2];
    struct grammar_blob_group groups[2];
    struct grammar_blob_choice choices[3];
    uint32_t rules[4];
    uint32_t productions[5];
    uint32_t slots[10];
};

static const struct small_blob valid = {
    .header = {.magic = GRAMMAR_BLOB_MAGIC,
               .version = GRAMMAR_BLOB_VERSION,
               .set_count = 2,
               .node_count = 3,
               .terminal_count = 2,
               .repeat_count = 2,
               .rule_count = 3,
               .production_count = 4,
               .slot_count = 10,
               .group_count = 2,
               .choice_count = 3},
    .nodes = {{.kind = REGEX_KIND_SET, .a = 1},
              {.kind = REGEX_KIND_REPEAT, .a = 3, .minimum = 2, .maximum = 2},
              {.kind = REGEX_KIND_CONCAT, .a = 3, .b = 4}},
    .terminals = {3, 5},
    .repeats = {{GRAMMAR_SLOT_TERMINAL | 1, 1, 1}, {GRAMMAR_SLOT_RULE | 2, 0, REGEX_UNBOUNDED}},
    .groups = {{.choice_count = 2,
                .required_count = 1,
                .separator = 1,
                .early = 2,
                .extra = 1,
                .minimum = 1,
                .maximum = 1},
               {.choice_count = 1, .extra = GRAMMAR_NO_RULE, .maximum = REGEX_UNBOUNDED}},
    .choices = {{1, 0}, {2, 1}, {0, 0}},
    .rules = {0, 2, 3, 4},
    .productions = {0, 2, 5, 8, 10},
    .slots = {GRAMMAR_SLOT_TERMINAL | 1, GRAMMAR_SLOT_END | 0, GRAMMAR_SLOT_RULE | 2,
              GRAMMAR_SLOT_REPEAT | 1, GRAMMAR_SLOT_END | 0, GRAMMAR_SLOT_GROUP | 1,
              GRAMMAR_SLOT_TOKEN | (LIMIT_VOCAB_TOKENS - 1), GRAMMAR_SLOT_END | 1,
              GRAMMAR_SLOT_TERMINAL | 0, GRAMMAR_SLOT_END | 2},
};

static struct small_blob make_blob(void)
{
    struct small_blob blob = valid;
    blob.header.bytes = (uint32_t)grammar_blob_bytes(&blob.header);
    return blob;
}

static enum result check(const struct small_blob *blob, struct error_text *error)
{
    struct grammar_blob_view view;
    return grammar_blob_check(blob, blob->header.bytes, &view, error);
}

static void takes_a_valid_blob(void **state)
{
    (void)state;
    struct small_blob blob = make_blob();
    struct grammar_blob_view view;
    struct error_text error;
    assert_int_equal(blob.header.bytes, offsetof(struct small_blob, slots) + sizeof blob.slots);
    assert_int_equal(grammar_blob_check(&blob, blob.header.bytes, &view, &error), RESULT_OK);
    assert_ptr_equal(view.header, &blob.header);
    assert_ptr_equal(view.sets, blob.sets);
    assert_ptr_equal(view.nodes, blob.nodes);
    assert_ptr_equal(view.terminals, blob.terminals);
    assert_ptr_equal(view.repeats, blob.repeats);
    assert_ptr_equal(view.groups, blob.groups);
    assert_ptr_equal(view.choices, blob.choices);
    assert_ptr_equal(view.rules, blob.rules);
    assert_ptr_equal(view.productions, blob.productions);
    assert_ptr_equal(view.slots, blob.slots);
}

#define WORD(member) (offsetof(struct small_blob, member) / sizeof(uint32_t))

struct change {
    const char *rule; /* NULL: the blob stays valid */
    size_t word;
    uint32_t value;
};

static const struct change changes[] = {
    {"G1 ", WORD(header.magic), GRAMMAR_BLOB_MAGIC + 1},
    {"G1 ", WORD(header.version), GRAMMAR_BLOB_VERSION + 1},
    {"G2 ", WORD(header.reserved[0]), 1},
    {"G2 ", WORD(header.reserved[3]), 1},
    {"G3 ", WORD(header.set_count), 1},
    {"G3 ", WORD(header.slot_count), UINT32_MAX},
    {"G3 ", WORD(header.choice_count), LIMIT_GRAMMAR_BLOB_BYTES},
    {"G4 ", WORD(nodes[0].kind), REGEX_KIND_EMPTY},
    {"G4 ", WORD(nodes[2].kind), REGEX_KIND_COUNT},
    {"G5 ", WORD(nodes[0].a), 2},
    {"G5 ", WORD(nodes[0].b), 1},
    {"G5 ", WORD(nodes[1].a), 4},
    {"G5 ", WORD(nodes[2].b), 5},
    {"G6 ", WORD(nodes[1].minimum), 3},
    {"G6 ", WORD(nodes[1].maximum), 1},
    {"G6 ", WORD(nodes[2].minimum), 1},
    {"G6 ", WORD(nodes[0].maximum), 1},
    {"G8 ", WORD(terminals[1]), 6},
    {NULL, WORD(terminals[0]), 0},
    {"G9 ", WORD(repeats[0].symbol), GRAMMAR_SLOT_TERMINAL | 2},
    {"G9 ", WORD(repeats[1].symbol), GRAMMAR_SLOT_RULE | 3},
    {"G9 ", WORD(repeats[0].symbol), GRAMMAR_SLOT_REPEAT | 0},
    {"G9 ", WORD(repeats[0].maximum), 0},
    {"G9 ", WORD(repeats[0].minimum), 2},
    {"G9 ", WORD(repeats[1].minimum), LIMIT_GRAMMAR_COUNT + 1},
    {NULL, WORD(repeats[1].minimum), LIMIT_GRAMMAR_COUNT},
    {"G10 ", WORD(rules[0]), 1},
    {"G10 ", WORD(rules[3]), 5},
    {"G11 ", WORD(productions[0]), 1},
    {"G11 ", WORD(productions[1]), 0},
    {"G11 ", WORD(productions[4]), 11},
    {"G12 ", WORD(slots[0]), GRAMMAR_SLOT_TERMINAL | 2},
    {"G12 ", WORD(slots[2]), GRAMMAR_SLOT_RULE | 3},
    {"G12 ", WORD(slots[3]), GRAMMAR_SLOT_REPEAT | 2},
    {"G12 ", WORD(slots[5]), GRAMMAR_SLOT_GROUP | 2},
    {"G12 ", WORD(slots[6]), GRAMMAR_SLOT_TOKEN | LIMIT_VOCAB_TOKENS},
    {"G12 ", WORD(slots[0]), GRAMMAR_SLOT_END | 0},
    {"G13 ", WORD(slots[1]), GRAMMAR_SLOT_END | 1},
    {"G13 ", WORD(slots[9]), GRAMMAR_SLOT_TERMINAL | 0},
    {"G14 ", WORD(rules[3]), 3},
    {"G15 ", WORD(groups[0].choice_count), 4},
    {"G15 ", WORD(groups[1].choice_count), 0},
    {"G16 ", WORD(groups[0].separator), 2},
    {"G16 ", WORD(groups[0].extra), 3},
    {"G17 ", WORD(choices[0].rule), 3},
    {"G17 ", WORD(choices[0].required), 2},
    {"G17 ", WORD(choices[1].rule), 1},
    {"G18 ", WORD(groups[0].required_count), 0},
    {"G18 ", WORD(groups[0].maximum), 0},
    {"G18 ", WORD(groups[0].minimum), 2},
    {"G18 ", WORD(groups[1].minimum), LIMIT_GRAMMAR_COUNT + 1},
    {NULL, WORD(groups[1].minimum), LIMIT_GRAMMAR_COUNT},
    {"G18 ", WORD(groups[0].extra), GRAMMAR_NO_RULE},
    {"G18 ", WORD(groups[1].early), 1},
    {"G18 ", WORD(groups[0].early), LIMIT_GRAMMAR_COUNT + 1},
    {NULL, WORD(groups[0].early), LIMIT_GRAMMAR_COUNT},
};

static void finds_each_change(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct small_blob blob = make_blob();
        struct error_text error = {{0}};
        uint32_t *words = (uint32_t *)(void *)&blob;
        words[changes[i].word] = changes[i].value;
        struct grammar_blob_view view;
        enum result result = grammar_blob_check(&blob, make_blob().header.bytes, &view, &error);
        if (!changes[i].rule)
            assert_int_equal(result, RESULT_OK);
        else if (result != RESULT_CORRUPT ||
                 strncmp(error.text, changes[i].rule, strlen(changes[i].rule)) != 0)
            fail_msg("change %zu: expected %s, got result %d: %s", i, changes[i].rule, result,
                     error.text);
    }
}

static void the_size_must_be_that_of_the_counts(void **state)
{
    (void)state;
    struct small_blob blob = make_blob();
    struct error_text error;
    struct grammar_blob_view view;
    const size_t sizes[] = {blob.header.bytes - 4, sizeof blob.header - 4, 0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_int_equal(grammar_blob_check(&blob, sizes[i], &view, &error), RESULT_CORRUPT);
    blob.header.bytes -= 4;
    assert_int_equal(check(&blob, &error), RESULT_CORRUPT);
    assert_int_equal(grammar_blob_check(&blob, (size_t)LIMIT_GRAMMAR_BLOB_BYTES + 1, &view, &error),
                     RESULT_TOO_LARGE);
}

/* A chain of `depth` nodes, each a complement of the one before. */
static enum result check_chain(uint32_t depth)
{
    struct grammar_blob_header header = {.magic = GRAMMAR_BLOB_MAGIC,
                                         .version = GRAMMAR_BLOB_VERSION,
                                         .node_count = depth,
                                         .rule_count = 1,
                                         .production_count = 1,
                                         .slot_count = 1};
    header.bytes = (uint32_t)grammar_blob_bytes(&header);
    unsigned char *bytes = calloc(1, header.bytes);
    assert_non_null(bytes);
    memcpy(bytes, &header, sizeof header);
    struct grammar_blob_node *nodes = (void *)(bytes + sizeof header);
    for (uint32_t i = 0; i < depth; i++)
        nodes[i] = (struct grammar_blob_node){.kind = REGEX_KIND_NOT,
                                              .a = i + GRAMMAR_BLOB_FIRST_NODE - 1};
    uint32_t *words = (void *)(nodes + depth);
    words[1] = 1; /* rules: 0, 1 */
    words[3] = 1; /* productions: 0, 1 */
    words[4] = GRAMMAR_SLOT_END;
    struct grammar_blob_view view;
    struct error_text error;
    enum result result = grammar_blob_check(bytes, header.bytes, &view, &error);
    free(bytes);
    return result;
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(check_chain(LIMIT_GRAMMAR_DEPTH), RESULT_OK);
    assert_int_equal(check_chain(LIMIT_GRAMMAR_DEPTH + 1), RESULT_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_a_valid_blob),
        cmocka_unit_test(finds_each_change),
        cmocka_unit_test(the_size_must_be_that_of_the_counts),
        cmocka_unit_test(nesting_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
