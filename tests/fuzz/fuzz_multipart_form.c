/*
 * Forms: parts that are found lie inside the body, their names end, and errors have words.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/speech/multipart_form.h"
#include "proto/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct multipart_form form;
    struct error_text error = {""};
    char *body = malloc(size ? size : 1);
    if (!body)
        return 0;
    memcpy(body, data, size);
    enum result result = multipart_form_read(body, size, &form, &error);
    must((result == RESULT_OK) == (error.text[0] == '\0') && form.count <= MULTIPART_PARTS_MAX);
    for (unsigned i = 0; result == RESULT_OK && i < form.count; i++) {
        const struct multipart_part *part = &form.parts[i];
        must(part->bytes >= body && part->byte_count <= (size_t)(body + size - part->bytes));
        must(memchr(part->name, '\0', sizeof part->name) != NULL);
    }
    free(body);
    return 0;
}
