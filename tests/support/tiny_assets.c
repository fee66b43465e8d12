/*
 * Aborts if the assets cannot be opened.
 */
#include "tests/support/tiny_assets.h"

#include <math.h>
#include <string.h>

#include "proto/must.h"

void tiny_assets_open(struct model_assets *assets, const char *source)
{
    *assets = (struct model_assets){.model_id = "tiny",
                                    .bos_text = "",
                                    .eos_text = "<|im_end|>",
                                    .context_tokens = 128,
                                    .sampling = {NAN, NAN, NAN, NAN, UINT32_MAX}};
    assets->tokenizer = tiny_tokenizer_open();
    if (source)
        must(chat_template_open(source, strlen(source), &assets->chat_template, NULL) == RESULT_OK);
}

void tiny_assets_close(struct model_assets *assets)
{
    chat_template_close(assets->chat_template);
    tokenizer_close(assets->tokenizer);
    *assets = (struct model_assets){0};
}
