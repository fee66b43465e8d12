/*
 * Every setting of tokenizer.json that Shoal reads (flags of added tokens, behaviours of splits,
 * metaspace schemes, unknown characters, byte fallback, ...), each in a tiny tokenizer, gives the
 * ids that Hugging Face gives.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "tests/support/tokenizer_corpus.h"

#define FOLDER "tests/golden/tokenizer/variants"

static size_t encode(void *tokenizer, const char *bytes, size_t byte_count, bool is_template,
                     uint32_t **ids)
{
    struct prompt_span span = {bytes, byte_count, is_template};
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, &span, 1, SIZE_MAX, &list), RESULT_OK);
    *ids = list.ids;
    return list.count;
}

static void check(const char *name)
{
    char path[256];
    size_t json_bytes;
    struct error_text error = {""};
    struct tokenizer *tokenizer;
    snprintf(path, sizeof path, FOLDER "/%s.json", name);
    char *json = corpus_read_file(path, "git checkout", &json_bytes);
    if (tokenizer_open_json(json, json_bytes, &tokenizer, &error) != RESULT_OK)
        fail_msg("%s: %s", name, error.text);
    free(json);
    corpus_check(FOLDER, name, encode, tokenizer);
    tokenizer_close(tokenizer);
}

static void test_every_variant(void **state)
{
    (void)state;
    unsigned count = 0;
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char name[128];
        size_t length = strlen(entry->d_name);
        if (length < 6 || length >= sizeof name || strcmp(entry->d_name + length - 5, ".json") != 0)
            continue;
        memcpy(name, entry->d_name, length - 5);
        name[length - 5] = '\0';
        check(name);
        count++;
    }
    closedir(folder);
    assert_int_equal(count, 36);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_variant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
