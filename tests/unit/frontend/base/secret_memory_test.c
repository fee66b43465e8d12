/*
 * Secret memory is locked and left out of dumps and children, as the kernel reports it; files are read
 * up to its capacity and no further. The sanitizers replace mlock() by a function that does nothing.
 */
// tags: no-sanitizers
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "frontend/base/secret_memory.h"

#define BYTES      10000u
#define FLAG_BYTES 1024u

/* The VmFlags of the mapping at `memory` (proc(5)); empty if there is no mapping. */
static void read_flags(const void *memory, char flags[FLAG_BYTES])
{
    char line[1024];
    unsigned long start, end;
    int inside = 0;
    flags[0] = '\0';
    FILE *maps = fopen("/proc/self/smaps", "re");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            inside = start <= (uintptr_t)memory && (uintptr_t)memory < end;
        if (inside && strncmp(line, "VmFlags:", 8) == 0)
            snprintf(flags, FLAG_BYTES, "%s", line + 8);
    }
    fclose(maps);
}

static void it_is_locked_and_not_dumped(void **state)
{
    (void)state;
    char flags[FLAG_BYTES];
    struct secret_memory memory;
    secret_memory_init(&memory, BYTES);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(memory.bytes[i], 0);
    memset(memory.bytes, 0x5a, BYTES);
    read_flags(memory.bytes, flags);
    assert_non_null(strstr(flags, " lo")); /* locked */
    assert_non_null(strstr(flags, " dd")); /* not dumped */
    assert_non_null(strstr(flags, " dc")); /* not copied on fork */
    secret_memory_fini(&memory);
    assert_null(memory.bytes);
}

/* What reading a pipe with `bytes` bytes into memory of BYTES returns. */
static enum result read_of(size_t bytes, struct secret_memory *memory)
{
    char text[BYTES + 1];
    int ends[2];
    memset(text, 'k', sizeof text);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], text, bytes), bytes);
    close(ends[1]);
    secret_memory_init(memory, BYTES);
    enum result result = secret_memory_read(memory, ends[0]);
    close(ends[0]);
    return result;
}

static void a_file_is_read_up_to_the_capacity(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, BYTES - 1, BYTES};
    struct secret_memory memory;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(read_of(sizes[i], &memory), RESULT_OK);
        assert_int_equal(memory.size, sizes[i]);
        for (size_t at = 0; at < sizes[i]; at++)
            assert_int_equal(memory.bytes[at], 'k');
        secret_memory_fini(&memory);
    }
    assert_int_equal(read_of(BYTES + 1, &memory), RESULT_TOO_LARGE);
    assert_int_equal(secret_memory_read(&memory, -1), RESULT_IO);
    secret_memory_fini(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_locked_and_not_dumped),
        cmocka_unit_test(a_file_is_read_up_to_the_capacity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
