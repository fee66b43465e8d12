/*
 * Any JSON as a schema. Must hold: compilation ends within its fuel; a refusal has a message; what is
 * compiled makes a blob, or is found to be empty or too expensive. The first byte chooses the options.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend/grammar/json_schema_compile.h"
#include "proto/must.h"

#define FUEL 200000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const struct json_schema_options options = {
        .strict = data[0] & 1,
        .closed_objects = (data[0] & 2) != 0,
        .blanks = data[0] >> 2 & 7,
    };
    cJSON *schema = cJSON_ParseWithLength((const char *)data + 1, size - 1);
    if (!schema)
        return 0;
    struct grammar_builder *builder = grammar_builder_open(&(struct grammar_bounds){.fuel = FUEL});
    must(builder != NULL);
    struct grammar_error error;
    struct grammar_blob_out blob = {0};
    symbol_id root = GRAMMAR_NONE;
    if (!json_schema_compile(builder, schema, &options, &root, &error))
        must(error.message[0] != '\0');
    else if (!grammar_builder_finish(builder, root, &blob))
        must(grammar_builder_failed(builder));
    else
        must(blob.size > 0);
    free(blob.bytes);
    grammar_builder_close(builder);
    cJSON_Delete(schema);
    return 0;
}
