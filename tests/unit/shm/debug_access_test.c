/*
 * After debug_access_deny() the kernel lets no other process of the user read the memory.
 */
// tags: arm
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>

#include <cmocka.h>

#include "shm/debug_access.h"

#ifdef SHOAL_SANITIZED
#define DUMPABLE_AFTER 1 /* the leak check attaches to its own process */
#else
#define DUMPABLE_AFTER 0
#endif

static void the_process_is_not_dumpable_after(void **state)
{
    (void)state;
    assert_int_equal(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
    debug_access_deny();
    int dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    assert_int_equal(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
    assert_int_equal(dumpable, DUMPABLE_AFTER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_process_is_not_dumpable_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
