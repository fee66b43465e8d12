#include "tests/support/whole_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "proto/must.h"

void *whole_file_read(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s is missing", path);
    must(fseek(file, 0, SEEK_END) == 0);
    *bytes = (size_t)ftell(file);
    rewind(file);
    void *contents = must_alloc(*bytes + 1, 1);
    must(fread(contents, 1, *bytes, file) == *bytes);
    fclose(file);
    return contents;
}
