/*
 * A grammar whose automaton has used up its memory: a matcher goes on with a new one, with the same
 * masks, and later matchers do not get the full one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/grammar/grammar_builder.h"
#include "tests/support/grammar_texts.h"
#include "worker/sample/grammar_matcher.h"
#include "worker/sample/grammar_program.h"
#include "worker/sample/grammar_trie.h"

#define LETTERS 6u

/* An a, then any letters a and b, then LETTERS of them: 2^LETTERS states. */
static struct grammar_texts grammar_make(void)
{
    struct grammar_texts texts;
    const struct regex_options whole = {0};
    assert_true(grammar_texts_regex(&texts, "[ab]*a[ab]{6}", &whole));
    return texts;
}

static struct grammar_matcher *matcher_make(struct grammar_vocabulary *vocabulary,
                                            const struct grammar_texts *texts)
{
    enum grammar_result result;
    struct grammar_matcher *m =
        grammar_matcher_open(vocabulary, texts->blob.bytes, texts->blob.size, &result);
    assert_int_equal(result, GRAMMAR_OK);
    return m;
}

/* From now on no state is added. */
static void fill_memory(struct grammar_vocabulary *vocabulary)
{
    struct regex_store *store = &vocabulary->programs[0]->automaton.store;
    store->failure = REGEX_OUT_OF_MEMORY;
    store->bytes_limit = store->bytes;
}

static void matcher_goes_on(void **state)
{
    (void)state;
    struct grammar_vocabulary *vocabulary = grammar_texts_vocabulary();
    struct grammar_texts texts = grammar_make();
    struct grammar_matcher *m = matcher_make(vocabulary, &texts);
    struct grammar_matcher *other = matcher_make(vocabulary, &texts);
    const uint32_t first[] = {'a', 'b', 'b'}, rest[] = {'a', 'a', 'b', 'b'};
    uint32_t words[9];
    size_t allowed;
    assert_int_equal(grammar_matcher_follow(m, first, 3), GRAMMAR_OK);
    assert_int_equal(grammar_matcher_follow(other, first, 2), GRAMMAR_OK);
    const struct grammar_program *full = vocabulary->programs[0];
    fill_memory(vocabulary);
    assert_int_equal(grammar_matcher_follow(m, rest, 3), GRAMMAR_OK);
    assert_ptr_not_equal(vocabulary->programs[0], full);
    assert_int_equal(grammar_matcher_followed(m), 6);
    assert_false(grammar_matcher_may_end(m));
    assert_int_equal(grammar_matcher_mask(m, words, &allowed), GRAMMAR_OK);
    assert_int_equal(allowed, 2);
    assert_int_equal(grammar_matcher_follow(m, rest + 3, 1), GRAMMAR_OK);
    assert_true(grammar_matcher_may_end(m));
    /* what was refused stays refused, and cutting still works */
    assert_int_equal(grammar_matcher_follow(m, &(const uint32_t){'c'}, 1), GRAMMAR_REFUSED);
    grammar_matcher_cut(m, 1);
    assert_int_equal(grammar_matcher_follow(m, rest, 4), GRAMMAR_OK);
    /* the other one, by its mask; it shares the new program */
    assert_int_equal(grammar_matcher_mask(other, words, &allowed), GRAMMAR_OK);
    assert_int_equal(allowed, 2);
    assert_int_equal(vocabulary->programs[0]->matchers, 2);
    grammar_matcher_close(m);
    grammar_matcher_close(other);
    grammar_texts_close(&texts);
    grammar_vocabulary_close(vocabulary);
}

static void later_matchers_get_another(void **state)
{
    (void)state;
    struct grammar_vocabulary *vocabulary = grammar_texts_vocabulary();
    struct grammar_texts texts = grammar_make();
    struct grammar_matcher *m = matcher_make(vocabulary, &texts);
    uint32_t words[9];
    size_t allowed;
    fill_memory(vocabulary);
    assert_int_equal(grammar_matcher_mask(m, words, &allowed), GRAMMAR_OK);
    grammar_matcher_close(m);
    m = matcher_make(vocabulary, &texts);
    assert_int_equal(vocabulary->programs[0]->automaton.store.failure, REGEX_FINE);
    assert_null(vocabulary->programs[1]);
    grammar_matcher_close(m);
    grammar_texts_close(&texts);
    grammar_vocabulary_close(vocabulary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matcher_goes_on),
        cmocka_unit_test(later_matchers_get_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
