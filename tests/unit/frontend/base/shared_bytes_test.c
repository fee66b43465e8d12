/*
 * Shared bytes: a copy that lives until its last owner releases it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/base/shared_bytes.h"

static void bytes_are_copied(void **state)
{
    (void)state;
    char text[] = "a grammar";
    struct shared_bytes *shared = shared_bytes_create(text, sizeof text);
    assert_non_null(shared);
    memset(text, 0, sizeof text);
    assert_int_equal(shared_bytes_length(shared), sizeof text);
    assert_string_equal(shared_bytes_data(shared), "a grammar");
    assert_int_equal((uintptr_t)shared_bytes_data(shared) % 16, 0);
    shared_bytes_release(shared);
}

/* Built with a sanitizer, an early or a missing free is an error. */
static void the_last_release_frees(void **state)
{
    (void)state;
    struct shared_bytes *shared = shared_bytes_create("x", 1);
    assert_ptr_equal(shared_bytes_share(shared), shared);
    shared_bytes_release(shared);
    assert_memory_equal(shared_bytes_data(shared), "x", 1);
    shared_bytes_release(shared);
}

static void null_is_empty(void **state)
{
    (void)state;
    assert_null(shared_bytes_share(NULL));
    assert_null(shared_bytes_data(NULL));
    assert_int_equal(shared_bytes_length(NULL), 0);
    shared_bytes_release(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_copied),
        cmocka_unit_test(the_last_release_frees),
        cmocka_unit_test(null_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
