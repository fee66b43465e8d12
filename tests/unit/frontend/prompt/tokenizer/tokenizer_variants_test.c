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
#include <string.h>

#include <cmocka.h>

#include "tests/support/golden_tokenizer.h"

#define FOLDER "tests/golden/tokenizer/variants"

static void check(const char *name)
{
    struct tokenizer *tokenizer = golden_tokenizer_open_variant(name);
    golden_tokenizer_check(FOLDER, name, tokenizer);
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
    assert_int_equal(count, 45);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_variant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
