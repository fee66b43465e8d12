/*
 * Limits the address space to what is used, and takes the blocks that malloc() still has. The first
 * word of a block is the next one.
 */
#include "tests/support/no_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/must.h"

static struct rlimit before;
static void **blocks;

void no_memory_begin(size_t least_bytes)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    must(file && fscanf(file, "%lu", &pages) == 1);
    (void)fclose(file);
    must(least_bytes >= sizeof(void *) && getrlimit(RLIMIT_AS, &before) == 0);
    struct rlimit limited = before;
    limited.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
    must(setrlimit(RLIMIT_AS, &limited) == 0);
    for (void **block; (block = malloc(least_bytes)) != NULL; blocks = block)
        *block = (void *)blocks;
}

void no_memory_end(void)
{
    must(setrlimit(RLIMIT_AS, &before) == 0);
    while (blocks) {
        void **next = (void **)*blocks;
        free(blocks);
        blocks = next;
    }
}
