/*
 * Text of a grammar in which special tokens of the vocabulary may be spelled: `<|tool_call|>` in
 * the begin of a structural tag or in the frame of a tool call. Text that a tokenizer would make a
 * special token becomes that token (special tokens never match text); the rest becomes bytes.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_GRAMMAR_TEXT_H
#define SHOAL_FRONTEND_GRAMMAR_GRAMMAR_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/grammar/grammar_builder.h"

/* A special token in a text: its first byte and its length. */
struct special_token {
    size_t begin;
    size_t length;
    uint32_t id;
};

/* Finds special tokens of a vocabulary. Wherever one is passed, NULL means that there are none. */
struct special_finder {
    const void *context;
    /* The first special token in the text, and of those that begin there the longest. */
    bool (*find)(const void *context, const char *text, size_t length,
                 struct special_token *special);
    bool (*is_special)(const void *context, uint32_t id);
};

/* The symbol of exactly this text. GRAMMAR_NONE: the builder failed. */
symbol_id grammar_text_symbol(struct grammar_builder *builder,
                              const struct special_finder *specials, const char *text,
                              size_t length);
/* True if the text contains a special token, so that no text without special tokens contains it. */
bool grammar_text_has_special(const struct special_finder *specials, const char *text,
                              size_t length);
/* All UTF-8 text that contains none of the `count` texts; texts with special tokens and empty ones
 * are left out, since text cannot contain the first. */
regex_id grammar_text_without(struct grammar_builder *builder,
                              const struct special_finder *specials, const char *const *texts,
                              size_t count);

#endif
