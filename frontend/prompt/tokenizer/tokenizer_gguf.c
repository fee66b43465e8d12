/*
 * tokenizer_open_gguf(): the tokenizer inside a GGUF file.
 *
 * Three kinds. "gpt2" stores a byte-level BPE vocabulary with its merges and names its
 * pre-tokenizer. "llama" stores SentencePiece pieces with scores, from which merges are built.
 * "gemma4" stores such pieces with their merges. To equal the publishers' tokenizer.json, two
 * changes of the GGUF converter are undone: user-defined pieces made of spaces are spelled with
 * U+2581 again, and user-defined pieces get the score 0 (the file has -1000), which ranks them
 * first. Other kinds (Unigram, WordPiece, RWKV) are refused by name.
 */
#include "frontend/prompt/tokenizer/tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/prompt/tokenizer/bpe_byte_map.h"
#include "frontend/prompt/tokenizer/pretokenizer_preset.h"
#include "frontend/prompt/tokenizer/sentencepiece_merges.h"
#include "frontend/prompt/tokenizer/tokenizer_builder.h"
#include "proto/gguf_file.h"
#include "proto/utf8.h"

#define LOWER_BLOCK "\xE2\x96\x81"

enum token_type {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6,
};

struct opening {
    const struct gguf_file *gguf;
    struct tokenizer *tokenizer;
    struct error_text *error;
    struct gguf_array tokens;
    struct gguf_array types; /* count 0: all are normal */
};

static enum result get_arrays(struct opening *opening)
{
    enum result result = gguf_file_array(opening->gguf, "tokenizer.ggml.tokens", &opening->tokens);
    if (result || opening->tokens.type != GGUF_STRING || opening->tokens.count == 0)
        return error_set(opening->error, RESULT_INVALID, "tokenizer.ggml.tokens: not strings");
    if (opening->tokens.count > LIMIT_VOCAB_TOKENS)
        return error_set(opening->error, RESULT_TOO_LARGE, "tokenizer.ggml.tokens: too many");
    result = gguf_file_array(opening->gguf, "tokenizer.ggml.token_type", &opening->types);
    if (result == RESULT_NOT_FOUND) {
        opening->types.count = 0;
        return RESULT_OK;
    }
    if (result || opening->types.count != opening->tokens.count ||
        (opening->types.type != GGUF_INT32 && opening->types.type != GGUF_UINT32))
        return error_set(opening->error, RESULT_INVALID,
                         "tokenizer.ggml.token_type: not one integer for each token");
    return RESULT_OK;
}

static int64_t type_of(const struct opening *opening, uint32_t id)
{
    return opening->types.count ? gguf_array_i64(&opening->types, id) : TOKEN_NORMAL;
}

/* Spells the spaces of a user-defined piece as SentencePiece does. False: it does not fit. */
static bool respell_spaces(const char *text, size_t bytes, char *out, size_t *out_bytes)
{
    size_t written = 0;
    for (size_t at = 0; at < bytes; at++) {
        size_t step = text[at] == ' ' ? 3 : 1;
        if (written + step > LIMIT_TOKEN_BYTES)
            return false;
        memcpy(out + written, text[at] == ' ' ? LOWER_BLOCK : &text[at], step);
        written += step;
    }
    *out_bytes = written;
    return true;
}

/* Adds one token: its text for merges, and its registration if it is matched before splitting. */
static enum result open_token(struct opening *opening, uint32_t id, struct gguf_string spelled)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    int64_t type = type_of(opening, id);
    bool by_bytes = tokenizer->model.by_bytes;
    bool special = type == TOKEN_CONTROL || type == TOKEN_UNKNOWN;
    bool user_defined = type == TOKEN_USER_DEFINED;
    char decoded[2 * LIMIT_TOKEN_BYTES];
    const char *text = spelled.bytes;
    size_t bytes = spelled.length;
    bool findable = !special && (by_bytes || utf8_is_valid(text, bytes));
    if (bytes > sizeof decoded)
        return RESULT_TOO_LARGE;
    if (by_bytes && !special && !user_defined) {
        findable = bpe_byte_map_decode(spelled.bytes, spelled.length, decoded, &bytes);
        text = findable ? decoded : spelled.bytes;
        bytes = findable ? bytes : spelled.length;
    } else if (!by_bytes && user_defined) {
        if (!respell_spaces(spelled.bytes, spelled.length, decoded, &bytes))
            return RESULT_TOO_LARGE;
        text = decoded;
    }
    enum result result = vocabulary_set_text(&tokenizer->vocabulary, id, text, bytes,
                                             findable ? VOCABULARY_FINDABLE : 0u);
    if (result || (!special && !user_defined))
        return result;
    struct added_token added = {
        .id = id, .content = decoded, .content_bytes = bytes, .special = special};
    if (text != decoded && bytes > 0)
        memcpy(decoded, text, bytes);
    return tokenizer_add_token(tokenizer, &added);
}

static enum result open_tokens(struct opening *opening)
{
    const uint8_t *cursor = opening->tokens.first;
    struct gguf_string text;
    for (uint32_t id = 0; gguf_array_next_string(&opening->tokens, &cursor, &text); id++) {
        enum result result = open_token(opening, id, text);
        if (result)
            return error_set(opening->error, result, "tokenizer.ggml.tokens: token %u (%s)", id,
                             result_name(result));
    }
    if (opening->tokenizer->vocabulary.longest_bytes == 0)
        return error_set(opening->error, RESULT_INVALID, "tokenizer.ggml.tokens: all empty");
    return vocabulary_index(&opening->tokenizer->vocabulary);
}

/* A merge is "left right" in the byte alphabet or in pieces, where no character is a space.
 * Unusable ones are skipped. */
static enum result open_merge(struct opening *opening, struct gguf_string merge)
{
    char left[2 * LIMIT_TOKEN_BYTES];
    char right[2 * LIMIT_TOKEN_BYTES];
    const char *space = merge.length > 0 ? memchr(merge.bytes + 1, ' ', merge.length - 1) : NULL;
    if (!space || merge.length > sizeof left)
        return RESULT_OK;
    size_t left_bytes = (size_t)(space - merge.bytes);
    size_t right_bytes = merge.length - left_bytes - 1;
    bool by_bytes = opening->tokenizer->model.by_bytes;
    if (by_bytes && (!bpe_byte_map_decode(merge.bytes, left_bytes, left, &left_bytes) ||
                     !bpe_byte_map_decode(space + 1, right_bytes, right, &right_bytes)))
        return RESULT_OK;
    enum result result = tokenizer_add_merge(opening->tokenizer, by_bytes ? left : merge.bytes,
                                             left_bytes, by_bytes ? right : space + 1, right_bytes);
    return result == RESULT_NOT_FOUND ? RESULT_OK : result;
}

static enum result open_merges(struct opening *opening)
{
    struct gguf_array merges;
    enum result result = gguf_file_array(opening->gguf, "tokenizer.ggml.merges", &merges);
    if (result || merges.type != GGUF_STRING)
        return error_set(opening->error, RESULT_INVALID, "tokenizer.ggml.merges: not strings");
    const uint8_t *cursor = merges.first;
    struct gguf_string merge;
    while (!result && gguf_array_next_string(&merges, &cursor, &merge))
        result = open_merge(opening, merge);
    return result;
}

static enum result open_byte_level(struct opening *opening)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    struct gguf_string name = {"default", 7};
    struct pretokenizer_traits traits;
    if (gguf_file_string(opening->gguf, "tokenizer.ggml.pre", &name) == RESULT_INVALID)
        return error_set(opening->error, RESULT_INVALID, "tokenizer.ggml.pre: not a string");
    enum result result = pretokenizer_preset_open(name.bytes, name.length, &tokenizer->pretokenizer,
                                                  &traits, opening->error);
    if (result)
        return result;
    tokenizer->model.by_bytes = true;
    tokenizer->model.ignore_merges = traits.ignore_merges;
    tokenizer->adds_bos = traits.adds_bos;
    if (traits.form_c)
        result = normalizer_add(&tokenizer->normalizer,
                                &(struct normalizer_step){.kind = NORMALIZER_FORM_C});
    if (!result)
        result = open_tokens(opening);
    return result ? result : open_merges(opening);
}

static enum result open_scores(struct opening *opening, float scores[])
{
    struct gguf_array array;
    enum result result = gguf_file_array(opening->gguf, "tokenizer.ggml.scores", &array);
    if (result || array.type != GGUF_FLOAT32 || array.count != opening->tokens.count)
        return error_set(opening->error, RESULT_INVALID,
                         "tokenizer.ggml.scores: not one number for each token");
    for (uint32_t id = 0; id < array.count; id++) {
        scores[id] = (float)gguf_array_f64(&array, id);
        if (type_of(opening, id) == TOKEN_USER_DEFINED)
            scores[id] = 0.0F;
        if (!isfinite(scores[id]))
            return error_set(opening->error, RESULT_INVALID, "tokenizer.ggml.scores: not finite");
    }
    return RESULT_OK;
}

static enum result open_score_merges(struct opening *opening)
{
    float *scores = malloc(opening->tokens.count * sizeof *scores);
    if (!scores)
        return RESULT_OUT_OF_MEMORY;
    enum result result = open_scores(opening, scores);
    if (!result)
        result = sentencepiece_merges_build(&opening->tokenizer->vocabulary, scores,
                                            &opening->tokenizer->model.merges);
    free(scores);
    return result;
}

static enum result open_sentencepiece(struct opening *opening, bool has_merges)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    bool has_prefix = true;
    uint32_t unknown = 0;
    (void)gguf_file_bool(opening->gguf, "tokenizer.ggml.add_space_prefix", &has_prefix);
    (void)gguf_file_u32(opening->gguf, "tokenizer.ggml.unknown_token_id", &unknown);
    enum result result = tokenizer_begin_pieces(tokenizer, has_prefix);
    if (!result)
        result = open_tokens(opening);
    if (!result)
        result = tokenizer_show_pieces(tokenizer);
    if (unknown < tokenizer->vocabulary.token_count)
        tokenizer->model.unknown_id = (int32_t)unknown;
    if (result)
        return result;
    return has_merges ? open_merges(opening) : open_score_merges(opening);
}

/* -1 if the key is absent or names no token. */
static int32_t token_of_key(const struct opening *opening, const char *key, int32_t absent)
{
    uint32_t id;
    int32_t token = gguf_file_u32(opening->gguf, key, &id) ? absent : (int32_t)(id & INT32_MAX);
    bool known = token >= 0 && vocabulary_has(&opening->tokenizer->vocabulary, (uint32_t)token,
                                              VOCABULARY_PRESENT);
    return known ? token : -1;
}

static void open_roles(struct opening *opening)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    tokenizer->bos_token =
        token_of_key(opening, "tokenizer.ggml.bos_token_id", tokenizer->bos_token);
    tokenizer->eos_token =
        token_of_key(opening, "tokenizer.ggml.eos_token_id", tokenizer->eos_token);
    (void)gguf_file_bool(opening->gguf, "tokenizer.ggml.add_bos_token", &tokenizer->adds_bos);
    bool ends = false;
    (void)gguf_file_bool(opening->gguf, "tokenizer.ggml.add_eos_token", &ends);
    if (ends)
        tokenizer->tail_token = tokenizer->eos_token;
    tokenizer_add_end_token(tokenizer, tokenizer->eos_token);
    tokenizer_add_end_token(tokenizer, token_of_key(opening, "tokenizer.ggml.eot_token_id", -1));
    tokenizer_add_end_token(tokenizer, token_of_key(opening, "tokenizer.ggml.eom_token_id", -1));
}

static enum result open_tokenizer(struct opening *opening)
{
    struct gguf_string kind = {"", 0};
    if (gguf_file_string(opening->gguf, "tokenizer.ggml.model", &kind))
        return error_set(opening->error, RESULT_INVALID, "tokenizer.ggml.model: not a string");
    bool is_byte_level = kind.length == 4 && memcmp(kind.bytes, "gpt2", 4) == 0;
    bool is_pieces = kind.length == 5 && memcmp(kind.bytes, "llama", 5) == 0;
    bool has_merges = kind.length == 6 && memcmp(kind.bytes, "gemma4", 6) == 0;
    if (!is_byte_level && !is_pieces && !has_merges)
        return error_set(opening->error, RESULT_UNSUPPORTED, "tokenizer model '%.*s'",
                         kind.length > 64 ? 64 : (int)kind.length, kind.bytes);
    enum result result = get_arrays(opening);
    if (!result)
        result = bpe_merge_table_init(&opening->tokenizer->model.merges,
                                      (uint32_t)opening->tokens.count * 2);
    if (!result)
        result = is_byte_level ? open_byte_level(opening) : open_sentencepiece(opening, has_merges);
    if (result)
        return result;
    open_roles(opening);
    return tokenizer_finish(opening->tokenizer);
}

enum result tokenizer_open_gguf(const struct gguf_file *gguf, struct tokenizer **tokenizer,
                                struct error_text *error)
{
    struct opening opening = {.gguf = gguf, .tokenizer = tokenizer_create(), .error = error};
    error_set(error, RESULT_OK, "tokenizer: out of memory");
    if (!opening.tokenizer)
        return RESULT_OUT_OF_MEMORY;
    enum result result = open_tokenizer(&opening);
    if (result)
        tokenizer_close(opening.tokenizer);
    else
        *tokenizer = opening.tokenizer;
    return result;
}
