/*
 * Functions shared by the readers of tokenizer files.
 *
 * No file format declares in one place which tokens end a turn: files name an end-of-text token,
 * and chat models end a turn with another one that is known only by its name. The end tokens are
 * therefore the ids that the file names, and the special tokens with a name that ends a turn in
 * published checkpoints. A token that is not special never ends a turn: its text may be part of an
 * answer.
 */
#include "frontend/prompt/tokenizer/tokenizer_builder.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "proto/utf8.h"

#define LOWER_BLOCK "\xE2\x96\x81" /* U+2581, a space */

static const char *const end_names[] = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|eot|>",
    "<EOT>",
    "<eos>",
    "</s>",
    "<end_of_utterance>",
    "<|endofturn|>",
    "<｜end▁of▁sentence｜>",
    "<|END_OF_TURN_TOKEN|>",
    "<|return|>",
    "<|call|>",
    "<turn|>",
};

struct tokenizer *tokenizer_create(void)
{
    struct tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer)
        return NULL;
    vocabulary_init(&tokenizer->vocabulary);
    bpe_model_init(&tokenizer->model);
    tokenizer->bos_token = -1;
    tokenizer->tail_token = -1;
    tokenizer->eos_token = -1;
    return tokenizer;
}

enum result tokenizer_begin_pieces(struct tokenizer *tokenizer, bool has_prefix)
{
    struct normalizer_step prefix = {.kind = NORMALIZER_PREPEND, .to = LOWER_BLOCK, .to_bytes = 3};
    struct normalizer_step spaces = {
        .kind = NORMALIZER_REPLACE, .from = " ", .from_bytes = 1, .to = LOWER_BLOCK, .to_bytes = 3};
    enum result result = has_prefix ? normalizer_add(&tokenizer->normalizer, &prefix) : RESULT_OK;
    if (!result)
        result = normalizer_add(&tokenizer->normalizer, &spaces);
    tokenizer->model.byte_fallback = true;
    tokenizer->model.fuse_unknown = true;
    tokenizer->shows_spaces = true;
    tokenizer->strips_space = has_prefix;
    tokenizer->adds_bos = true;
    tokenizer->bos_token = 1;
    tokenizer->eos_token = 2;
    return result;
}

enum result tokenizer_add_token(struct tokenizer *tokenizer, const struct added_token *token)
{
    struct vocabulary *vocabulary = &tokenizer->vocabulary;
    unsigned flags = VOCABULARY_ADDED | (token->special ? VOCABULARY_SPECIAL : 0u);
    enum result result = RESULT_OK;
    if (token->id >= LIMIT_VOCAB_TOKENS || token->content_bytes > LIMIT_TOKEN_BYTES)
        return RESULT_TOO_LARGE;
    if (vocabulary_has(vocabulary, token->id, VOCABULARY_PRESENT)) {
        vocabulary->tokens[token->id].flags |= (uint8_t)flags;
        result = vocabulary_set_shown(vocabulary, token->id, token->content, token->content_bytes);
    } else {
        result =
            vocabulary_set_text(vocabulary, token->id, token->content, token->content_bytes, flags);
    }
    /* Incomplete characters are not matched: cutting one out of a text would leave the other
     * half. */
    if (result || !utf8_is_valid(token->content, token->content_bytes))
        return result;
    return added_tokens_add(&tokenizer->added, token);
}

enum result tokenizer_add_merge(struct tokenizer *tokenizer, const char *left, size_t left_bytes,
                                const char *right, size_t right_bytes)
{
    struct vocabulary *vocabulary = &tokenizer->vocabulary;
    char text[LIMIT_TOKEN_BYTES];
    if (left_bytes == 0 || right_bytes == 0 || left_bytes + right_bytes > sizeof text)
        return RESULT_NOT_FOUND;
    memcpy(text, left, left_bytes);
    memcpy(text + left_bytes, right, right_bytes);
    int32_t left_id = vocabulary_find(vocabulary, left, left_bytes);
    int32_t right_id = vocabulary_find(vocabulary, right, right_bytes);
    int32_t merged_id = vocabulary_find(vocabulary, text, left_bytes + right_bytes);
    if (left_id < 0 || right_id < 0 || merged_id < 0)
        return RESULT_NOT_FOUND;
    if (vocabulary_has(vocabulary, (uint32_t)merged_id, VOCABULARY_SPECIAL))
        return RESULT_OK;
    return bpe_merge_table_add(&tokenizer->model.merges, (uint32_t)left_id, (uint32_t)right_id,
                               (uint32_t)merged_id);
}

/* The value of <0xNN>, or -1. */
static int byte_token_value(const char *text, size_t text_bytes)
{
    if (text_bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        int digit = text[i] >= '0' && text[i] <= '9'   ? text[i] - '0'
                    : text[i] >= 'A' && text[i] <= 'F' ? text[i] - 'A' + 10
                                                       : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Writes the text with spaces for U+2581; returns its length. */
static size_t show_spaces(const char *text, size_t text_bytes, char *shown)
{
    size_t written = 0;
    for (size_t at = 0; at < text_bytes;) {
        if (text_bytes - at >= 3 && memcmp(text + at, LOWER_BLOCK, 3) == 0) {
            shown[written++] = ' ';
            at += 3;
        } else {
            shown[written++] = text[at++];
        }
    }
    return written;
}

enum result tokenizer_show_pieces(struct tokenizer *tokenizer)
{
    struct vocabulary *vocabulary = &tokenizer->vocabulary;
    enum result result = RESULT_OK;
    for (uint32_t id = 0; id < vocabulary->token_count && !result; id++) {
        if (vocabulary_has(vocabulary, id, VOCABULARY_SPECIAL))
            continue;
        char shown[LIMIT_TOKEN_BYTES];
        size_t text_bytes;
        const char *text = vocabulary_text(vocabulary, id, &text_bytes);
        int byte = tokenizer->model.byte_fallback ? byte_token_value(text, text_bytes) : -1;
        if (byte >= 0) {
            shown[0] = (char)byte;
            vocabulary->tokens[id].flags |= VOCABULARY_BYTE;
            result = vocabulary_set_shown(vocabulary, id, shown, 1);
        } else if (tokenizer->shows_spaces) {
            size_t shown_bytes = show_spaces(text, text_bytes, shown);
            if (shown_bytes != text_bytes)
                result = vocabulary_set_shown(vocabulary, id, shown, shown_bytes);
        }
    }
    return result;
}

enum result tokenizer_show_words(struct tokenizer *tokenizer)
{
    struct vocabulary *vocabulary = &tokenizer->vocabulary;
    const struct wordpiece_model *words = &tokenizer->words;
    enum result result = RESULT_OK;
    tokenizer->strips_space = true;
    for (uint32_t id = 0; id < vocabulary->token_count && !result; id++) {
        if (vocabulary_has(vocabulary, id, VOCABULARY_SPECIAL))
            continue;
        char shown[LIMIT_TOKEN_BYTES + 1] = " ";
        size_t bytes;
        const char *text = vocabulary_text(vocabulary, id, &bytes);
        size_t before = words->prefix_bytes;
        bool continues = before > 0 && bytes >= before && memcmp(text, words->prefix, before) == 0;
        if (!continues)
            memcpy(shown + 1, text, bytes);
        if (continues)
            result = vocabulary_set_shown(vocabulary, id, text + before, bytes - before);
        else if (bytes > 0 && bytes < LIMIT_TOKEN_BYTES)
            result = vocabulary_set_shown(vocabulary, id, shown, bytes + 1);
    }
    return result;
}

static int32_t find_special(const struct tokenizer *tokenizer, const char *name)
{
    const struct added_token *token = added_tokens_find(&tokenizer->added, name, strlen(name));
    return token && token->special ? (int32_t)token->id : -1;
}

static void find_end_tokens(struct tokenizer *tokenizer)
{
    tokenizer_add_end_token(tokenizer, tokenizer->eos_token);
    /* In the Harmony format <|end|> only ends a message inside the turn. */
    bool is_harmony = find_special(tokenizer, "<|return|>") >= 0;
    for (size_t i = 0; i < sizeof end_names / sizeof end_names[0]; i++) {
        if (!is_harmony || strcmp(end_names[i], "<|end|>") != 0)
            tokenizer_add_end_token(tokenizer, find_special(tokenizer, end_names[i]));
    }
    if (tokenizer->eos_token < 0 && tokenizer->end_token_count > 0)
        tokenizer->eos_token = (int32_t)tokenizer->end_tokens[0];
}

enum result tokenizer_finish(struct tokenizer *tokenizer)
{
    /* An id that is special with one content is special with all. */
    for (size_t i = 0; i < tokenizer->added.count; i++) {
        struct added_token *token = &tokenizer->added.tokens[i];
        token->special = tokenizer_is_special(tokenizer, token->id);
    }
    enum result result = added_tokens_index(&tokenizer->added, &tokenizer->normalizer);
    if (!result && tokenizer->unigram.used)
        result = unigram_model_prepare(&tokenizer->unigram, &tokenizer->vocabulary);
    else if (!result && !tokenizer->words.used)
        result = bpe_model_prepare(&tokenizer->model, &tokenizer->vocabulary);
    if (!result)
        find_end_tokens(tokenizer);
    return result;
}
