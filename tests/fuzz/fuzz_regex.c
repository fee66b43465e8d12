/*
 * Any bytes as a regular expression. Must hold: compilation ends within its fuel, and a refusal has a
 * message. The first byte chooses the options.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/regex_compile.h"
#include "proto/must.h"

#define FUEL 200000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const struct regex_options options = {.search = data[0] & 1,
                                          .json_spelling = (data[0] & 2) != 0};
    struct grammar_builder *builder = grammar_builder_open(&(struct grammar_bounds){.fuel = FUEL});
    must(builder != NULL);
    struct grammar_error error = {0};
    struct grammar_blob_out blob = {0};
    regex_id regex = GRAMMAR_NONE;
    if (regex_compile(builder, (const char *)data + 1, size - 1, &options, &regex, &error)) {
        if (grammar_builder_finish(builder, grammar_terminal(builder, regex), &blob))
            must(blob.size > 0);
    } else {
        must(error.message[0] != '\0' || grammar_builder_failed(builder));
    }
    free(blob.bytes);
    grammar_builder_close(builder);
    return 0;
}
