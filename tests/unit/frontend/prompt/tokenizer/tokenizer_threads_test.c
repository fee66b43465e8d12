/*
 * One tokenizer, many threads at once, the same ids: meant for ThreadSanitizer.
 */
// tags: threads
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "tests/support/golden_tokenizer.h"
#include "tests/support/tokenizer_corpus.h"

enum { THREADS = 8, ROUNDS = 40 };

static const char text[] = "Hello, world! 12345 it's   a\n\n test <|im_end|> \xF0\x9F\x91\x8D "
                           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

static uint64_t encode_once(const struct tokenizer *tokenizer)
{
    struct prompt_span span = {text, sizeof text - 1, true};
    struct token_list list = {0};
    if (tokenizer_encode(tokenizer, &span, 1, 1000, NULL, &list) != RESULT_OK)
        return 0;
    uint64_t hash = corpus_hash(list.ids, list.count);
    token_list_fini(&list);
    return hash;
}

static void *encode_often(void *tokenizer)
{
    uint64_t first = encode_once(tokenizer);
    for (int i = 1; i < ROUNDS; i++) {
        if (encode_once(tokenizer) != first)
            return NULL;
    }
    uint64_t *hash = malloc(sizeof *hash);
    if (hash)
        *hash = first;
    return hash;
}

static void check(const char *variant)
{
    pthread_t threads[THREADS];
    struct tokenizer *tokenizer = golden_tokenizer_open_variant(variant);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, tokenizer), 0);
    uint64_t wanted = encode_once(tokenizer);
    for (int i = 0; i < THREADS; i++) {
        void *hash;
        pthread_join(threads[i], &hash);
        assert_non_null(hash);
        assert_true(*(uint64_t *)hash == wanted);
        free(hash);
    }
    tokenizer_close(tokenizer);
}

static void test_byte_level(void **state)
{
    (void)state;
    check("byte_level_digits");
}

static void test_pieces(void **state)
{
    (void)state;
    check("fallback");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_level),
        cmocka_unit_test(test_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
