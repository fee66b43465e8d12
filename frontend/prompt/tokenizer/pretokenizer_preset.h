/*
 * The pre-tokenizers that GGUF files name (`tokenizer.ggml.pre`).
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_PRETOKENIZER_PRESET_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_PRETOKENIZER_PRESET_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/prompt/tokenizer/pretokenizer.h"
#include "proto/result.h"

/* GPT-2's pattern; ByteLevel with use_regex splits by it too. */
extern const char pretokenizer_gpt2_regex[];

struct pretokenizer_traits {
    bool ignore_merges;
    bool form_c;   /* text is normalized to NFC first */
    bool adds_bos; /* raw prompts get the bos token if the file does not decide */
};

/* Fills an empty pre-tokenizer. RESULT_UNSUPPORTED naming an unknown name. */
enum result pretokenizer_preset_open(const char *name, size_t name_bytes,
                                     struct pretokenizer *pretokenizer,
                                     struct pretokenizer_traits *traits,
                                     struct error_text *error) RESULT_CHECKED;

#endif
