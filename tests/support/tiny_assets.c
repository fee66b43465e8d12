/*
 * Opening fails for no reason that a test could look at, so it must not.
 */
#include "tests/support/tiny_assets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

void tiny_assets_open(struct model_assets *assets, const char *source)
{
    size_t json_bytes;
    char *json = tiny_tokenizer_json(&json_bytes);
    *assets = (struct model_assets){.model_id = "tiny",
                                    .bos_text = "",
                                    .eos_text = "<|im_end|>",
                                    .context_tokens = 128,
                                    .sampling = {NAN, NAN, NAN, NAN, UINT32_MAX}};
    must(tokenizer_open_json(json, json_bytes, &assets->tokenizer, NULL) == RESULT_OK);
    free(json);
    if (source)
        must(chat_template_open(source, strlen(source), &assets->chat_template, NULL) == RESULT_OK);
}

void tiny_assets_close(struct model_assets *assets)
{
    chat_template_close(assets->chat_template);
    tokenizer_close(assets->tokenizer);
    *assets = (struct model_assets){0};
}
