/*
 * Any text as a grammar in GBNF and in Lark: it is refused with a message, or gives a blob that
 * passes its check.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/gbnf.h"
#include "frontend/grammar/lark.h"
#include "proto/must.h"

typedef bool grammar_text_compiler(struct grammar_builder *builder, const char *text, size_t length,
                                   const struct special_finder *specials, symbol_id *out,
                                   struct grammar_error *error);

static bool special_find(const void *context, const char *text, size_t length,
                         struct special_token *special)
{
    const char *found = memmem(text, length, "<think>", 7);
    (void)context;
    if (found)
        *special = (struct special_token){(size_t)(found - text), 7, 257};
    return found != NULL;
}

static bool id_is_special(const void *context, uint32_t id)
{
    (void)context;
    return id == 257;
}

static void compile(grammar_text_compiler *compiler, const char *text, size_t length)
{
    const struct special_finder specials = {NULL, special_find, id_is_special};
    struct grammar_builder *builder =
        grammar_builder_open(&(struct grammar_bounds){.fuel = 2000000, .bytes = (size_t)16 << 20});
    struct grammar_error error;
    struct grammar_blob_out blob;
    symbol_id root;
    must(builder != NULL);
    bool compiled = compiler(builder, text, length, &specials, &root, &error);
    must(compiled || error.message[0] || grammar_builder_failed(builder));
    if (compiled && grammar_builder_finish(builder, root, &blob))
        free(blob.bytes);
    grammar_builder_close(builder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    compile(gbnf_compile, (const char *)data, size);
    compile(lark_compile, (const char *)data, size);
    return 0;
}
