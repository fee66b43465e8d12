/*
 * The abort behind must(), and allocation that may not fail.
 */
#include "proto/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void must_fail(const char *fact, const char *file, int line)
{
    fprintf(stderr, "%s:%d: must(%s) is false\n", file, line, fact);
    fflush(stderr);
    abort();
}

void *must_alloc(size_t count, size_t element_bytes)
{
    void *memory = calloc(count ? count : 1, element_bytes ? element_bytes : 1);
    must(memory != NULL);
    return memory;
}

char *must_strdup(const char *text)
{
    char *copy = strdup(text);
    must(copy != NULL);
    return copy;
}
