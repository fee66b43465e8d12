/* What the cache of compiled grammars keeps, drops and counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/base/shared_bytes.h"
#include "frontend/base/text_buffer.h"
#include "frontend/grammar/grammar_cache.h"

struct source {
    const char *text; /* "" is refused, NULL takes too much work */
    unsigned compiled;
};

static bool compile(void *context, struct grammar_builder *builder, symbol_id *root,
                    struct text_buffer *note, struct grammar_error *error)
{
    struct source *source = context;
    source->compiled++;
    if (!source->text) {
        (void)grammar_builder_spend(builder, UINT64_MAX);
        return false;
    }
    if (source->text[0] == '\0') {
        snprintf(error->message, sizeof error->message, "it is empty");
        error->about_tools = true;
        return false;
    }
    if (source->text[0] == 'n')
        text_buffer_append_text(note, "noted");
    *root = grammar_terminal(builder,
                             grammar_regex_literal(builder, source->text, strlen(source->text)));
    return true;
}

static enum result find(struct grammar_cache *cache, const char *key, struct source *source,
                        struct grammar_error *error)
{
    struct shared_bytes *grammar, *note;
    enum result result =
        grammar_cache_find(cache, key, strlen(key), NULL, compile, source, &grammar, &note, error);
    assert_int_equal(result == RESULT_OK, grammar != NULL);
    assert_int_equal(note != NULL, source->text && source->text[0] == 'n');
    shared_bytes_release(grammar);
    shared_bytes_release(note);
    return result;
}

static struct grammar_cache_counts counts_of(struct grammar_cache *cache)
{
    struct grammar_cache_counts counts;
    grammar_cache_count(cache, &counts);
    return counts;
}

static void found_again(void **state)
{
    (void)state;
    struct grammar_cache *cache = grammar_cache_create(1u << 20);
    struct grammar_error error;
    struct source a = {.text = "a"}, b = {.text = "noted"};
    assert_int_equal(find(cache, "a", &a, &error), RESULT_OK);
    assert_int_equal(find(cache, "a", &a, &error), RESULT_OK);
    assert_int_equal(find(cache, "b", &b, &error), RESULT_OK);
    assert_int_equal(find(cache, "b", &b, &error), RESULT_OK);
    assert_int_equal(a.compiled, 1);
    assert_int_equal(b.compiled, 1);
    struct grammar_cache_counts counts = counts_of(cache);
    assert_int_equal(counts.hits, 2);
    assert_int_equal(counts.misses, 2);
    assert_int_equal(counts.entries, 2);
    assert_true(counts.bytes > 100);
    grammar_cache_destroy(cache);
}

static void refusals_are_kept_and_exhaustion_is_not(void **state)
{
    (void)state;
    struct grammar_cache *cache = grammar_cache_create(1u << 20);
    struct grammar_error error;
    struct source refused = {.text = ""}, large = {.text = NULL};
    for (int i = 0; i < 2; i++) {
        error = (struct grammar_error){0};
        assert_int_equal(find(cache, "refused", &refused, &error), RESULT_INVALID);
        assert_string_equal(error.message, "it is empty");
        assert_true(error.about_tools);
        error = (struct grammar_error){0};
        assert_int_equal(find(cache, "large", &large, &error), RESULT_TOO_LARGE);
        assert_true(error.message[0] != '\0');
    }
    assert_int_equal(refused.compiled, 1);
    assert_int_equal(large.compiled, 2);
    assert_int_equal(counts_of(cache).entries, 1);
    grammar_cache_destroy(cache);
}

static void cancelled_is_not_kept(void **state)
{
    (void)state;
    struct grammar_cache *cache = grammar_cache_create(1u << 20);
    struct grammar_error error;
    struct shared_bytes *grammar, *note;
    struct source a = {.text = "a"};
    atomic_bool cancelled = true;
    assert_int_equal(
        grammar_cache_find(cache, "a", 1, &cancelled, compile, &a, &grammar, &note, &error),
        RESULT_CANCELLED);
    assert_null(grammar);
    assert_int_equal(counts_of(cache).entries, 0);
    assert_int_equal(find(cache, "a", &a, &error), RESULT_OK);
    assert_int_equal(a.compiled, 2);
    grammar_cache_destroy(cache);
}

static void the_least_recently_used_leaves(void **state)
{
    (void)state;
    struct grammar_cache *cache = grammar_cache_create(1u << 20);
    struct grammar_error error;
    struct source source = {.text = "a"};
    assert_int_equal(find(cache, "0", &source, &error), RESULT_OK);
    size_t one = counts_of(cache).bytes;
    grammar_cache_destroy(cache);

    cache = grammar_cache_create(3 * one);
    source.compiled = 0;
    const char *const keys[] = {"0", "1", "2", "0", "3", "0", "1"};
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(find(cache, keys[i], &source, &error), RESULT_OK);
    /* compiled: 0, 1, 2; 3, which drops 1; and 1 again */
    assert_int_equal(source.compiled, 5);
    struct grammar_cache_counts counts = counts_of(cache);
    assert_int_equal(counts.entries, 3);
    assert_int_equal(counts.bytes, 3 * one);
    assert_int_equal(counts.dropped, 2);
    grammar_cache_destroy(cache);

    cache = grammar_cache_create(one - 1); /* larger than the whole cache: used, not kept */
    assert_int_equal(find(cache, "0", &source, &error), RESULT_OK);
    assert_int_equal(counts_of(cache).entries, 0);
    assert_int_equal(counts_of(cache).bytes, 0);
    grammar_cache_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_again),
        cmocka_unit_test(refusals_are_kept_and_exhaustion_is_not),
        cmocka_unit_test(cancelled_is_not_kept),
        cmocka_unit_test(the_least_recently_used_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
