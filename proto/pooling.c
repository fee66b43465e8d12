/*
 * The names are those of llama.cpp's --pooling.
 */
#include "proto/pooling.h"

#include <stddef.h>
#include <string.h>

#include "proto/must.h"

static const char *const names[] = {
    [POOLING_OFF] = "off", [POOLING_LAST] = "last", [POOLING_MEAN] = "mean",
    [POOLING_CLS] = "cls", [POOLING_MAX] = "max",   [POOLING_TOKENS] = "none"};
#define NAME_COUNT (sizeof names / sizeof names[0])

int pooling_parse(const char *text, enum pooling *pooling)
{
    for (size_t i = 0; i < NAME_COUNT; i++) {
        if (strcmp(text, names[i]) == 0) {
            *pooling = (enum pooling)i;
            return 0;
        }
    }
    return -1;
}

const char *pooling_name(enum pooling pooling)
{
    must(pooling < NAME_COUNT);
    return names[pooling];
}

bool pooling_reads_all(enum pooling pooling)
{
    return pooling != POOLING_OFF && pooling != POOLING_LAST;
}
