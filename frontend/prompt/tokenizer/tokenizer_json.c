/*
 * tokenizer_open_json(): a Hugging Face tokenizer.json.
 *
 * One shallow pass locates the members, in any order; then they are read in order of dependency:
 * stages (which decide whether the vocabulary is spelled in the byte alphabet), vocabulary, added
 * tokens (which decide which tokens are special), merges. BPE, WordPiece and Unigram models are read;
 * prefixes and suffixes on subwords of BPE, which no supported family has, are refused by name.
 */
#include "frontend/prompt/tokenizer/tokenizer.h"

#include <string.h>

#include "frontend/prompt/tokenizer/bpe_byte_map.h"
#include "frontend/prompt/tokenizer/tokenizer_builder.h"
#include "frontend/prompt/tokenizer/tokenizer_json_stages.h"
#include "proto/json_reader.h"

enum { NAME_BYTES = 64, SPELLED_BYTES = 2 * LIMIT_TOKEN_BYTES };

struct json_member {
    const char *name;
    struct json_slice slice;
};

/* The members of the document, and of its "model". */
enum { ADDED_TOKENS, NORMALIZER, PRE_TOKENIZER, POST_PROCESSOR, DECODER, MODEL, TOP_COUNT };
enum {
    TYPE,
    UNKNOWN,
    PREFIX,
    SUFFIX,
    FUSE,
    FALLBACK,
    IGNORE,
    WORD_CHARS,
    UNKNOWN_ID,
    VOCAB,
    MERGES,
    MODEL_COUNT
};

struct opening {
    struct tokenizer *tokenizer;
    struct error_text *error;
    struct json_member top[TOP_COUNT];
    struct json_member model[MODEL_COUNT];
    char text[SPELLED_BYTES]; /* a string as the file spells it */
    char left[SPELLED_BYTES]; /* decoded */
    char right[SPELLED_BYTES];
};

static enum result invalid(const struct opening *opening, const char *what)
{
    return error_set(opening->error, RESULT_INVALID, "tokenizer.json: malformed %s", what);
}

/* Locates the named members of an object; others are skipped. */
static bool find_members(struct json_reader *reader, struct json_member members[], size_t count)
{
    char name[4 * NAME_BYTES];
    size_t name_bytes;
    json_reader_enter(reader, '{');
    while (json_reader_next_member(reader, name, sizeof name, &name_bytes)) {
        size_t value_bytes;
        const char *value = json_reader_skip(reader, &value_bytes);
        for (size_t i = 0; i < count; i++) {
            if (strlen(members[i].name) == name_bytes &&
                memcmp(members[i].name, name, name_bytes) == 0)
                members[i].slice = (struct json_slice){value, value_bytes};
        }
    }
    return !reader->failed;
}

static bool is_absent(struct json_slice slice)
{
    return !slice.bytes || (slice.count == 4 && memcmp(slice.bytes, "null", 4) == 0);
}

static bool member_bool(struct json_slice slice)
{
    return slice.count == 4 && memcmp(slice.bytes, "true", 4) == 0;
}

/* Reads a string member; false if it is absent, null, or not a short string. */
static bool member_string(struct json_slice slice, char *text, size_t capacity, size_t *text_bytes)
{
    *text_bytes = 0;
    if (is_absent(slice))
        return false;
    struct json_reader reader = json_reader_open(slice.bytes, slice.count);
    *text_bytes = json_reader_string(&reader, text, capacity);
    return !reader.failed;
}

/* Files written before models had a type are told by their members. */
static bool is_wordpiece(struct opening *opening)
{
    size_t bytes;
    if (member_string(opening->model[TYPE].slice, opening->text, NAME_BYTES, &bytes))
        return bytes == 9 && memcmp(opening->text, "WordPiece", 9) == 0;
    return !is_absent(opening->model[WORD_CHARS].slice);
}

static enum result open_word_settings(struct opening *opening)
{
    struct wordpiece_model *words = &opening->tokenizer->words;
    struct json_slice chars = opening->model[WORD_CHARS].slice;
    *words = (struct wordpiece_model){
        .used = true, .prefix = "##", .prefix_bytes = 2, .word_chars = 100, .unknown_id = -1};
    if (!is_absent(opening->model[PREFIX].slice) &&
        !member_string(opening->model[PREFIX].slice, words->prefix, sizeof words->prefix,
                       &words->prefix_bytes))
        return invalid(opening, "continuing_subword_prefix");
    if (is_absent(chars))
        return RESULT_OK;
    struct json_reader reader = json_reader_open(chars.bytes, chars.count);
    words->word_chars = json_reader_u32(&reader);
    if (reader.failed || words->word_chars > WORDPIECE_WORD_CHARS_MAX)
        return error_set(opening->error, RESULT_UNSUPPORTED,
                         "tokenizer.json: max_input_chars_per_word is no number up to %u",
                         WORDPIECE_WORD_CHARS_MAX);
    return RESULT_OK;
}

/* Files written before models had a type are told by their members. */
static bool is_unigram(struct opening *opening)
{
    size_t bytes;
    struct json_slice vocab = opening->model[VOCAB].slice;
    if (member_string(opening->model[TYPE].slice, opening->text, NAME_BYTES, &bytes))
        return bytes == 7 && memcmp(opening->text, "Unigram", 7) == 0;
    return !is_absent(vocab) && vocab.bytes[0] == '[';
}

static enum result open_unigram_settings(struct opening *opening)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    struct json_slice unknown = opening->model[UNKNOWN_ID].slice;
    tokenizer->unigram.used = true;
    tokenizer->unigram.unknown_id = -1;
    tokenizer->unigram.byte_fallback = member_bool(opening->model[FALLBACK].slice);
    tokenizer->model.byte_fallback = tokenizer->unigram.byte_fallback;
    if (is_absent(unknown))
        return RESULT_OK;
    struct json_reader reader = json_reader_open(unknown.bytes, unknown.count);
    uint32_t id = json_reader_u32(&reader);
    if (reader.failed || id >= LIMIT_VOCAB_TOKENS)
        return invalid(opening, "unk_id");
    tokenizer->model.unknown_id = tokenizer->unigram.unknown_id = (int32_t)id;
    return RESULT_OK;
}

static enum result open_model_settings(struct opening *opening)
{
    struct bpe_model *model = &opening->tokenizer->model;
    size_t bytes;
    if (is_wordpiece(opening))
        return open_word_settings(opening);
    if (is_unigram(opening))
        return open_unigram_settings(opening);
    if (member_string(opening->model[TYPE].slice, opening->text, NAME_BYTES, &bytes) &&
        (bytes != 3 || memcmp(opening->text, "BPE", 3) != 0))
        return error_set(opening->error, RESULT_UNSUPPORTED, "tokenizer.json: model type '%.*s'",
                         (int)bytes, opening->text);
    for (int i = PREFIX; i <= SUFFIX; i++) {
        struct json_slice slice = opening->model[i].slice;
        if (!is_absent(slice) && slice.count != 2) /* "" */
            return error_set(opening->error, RESULT_UNSUPPORTED, "tokenizer.json: %s",
                             opening->model[i].name);
    }
    model->fuse_unknown = member_bool(opening->model[FUSE].slice);
    model->byte_fallback = member_bool(opening->model[FALLBACK].slice);
    model->ignore_merges = member_bool(opening->model[IGNORE].slice);
    return RESULT_OK;
}

/* The bytes of a token's spelling. False: not in the byte alphabet, so no text becomes this
 * token. */
static bool decode_spelling(const struct opening *opening, const char *spelled,
                            size_t spelled_bytes, char *out, size_t *out_bytes)
{
    if (opening->tokenizer->model.by_bytes)
        return bpe_byte_map_decode(spelled, spelled_bytes, out, out_bytes);
    memcpy(out, spelled, spelled_bytes);
    *out_bytes = spelled_bytes;
    return true;
}

/* [text, score] of each id in order. */
static enum result open_scored_pieces(struct opening *opening)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    struct json_slice slice = opening->model[VOCAB].slice;
    struct json_reader reader = json_reader_open(slice.bytes, slice.count);
    json_reader_enter(&reader, '[');
    for (uint32_t id = 0; json_reader_next_element(&reader); id++) {
        json_reader_enter(&reader, '[');
        if (!json_reader_next_element(&reader))
            return invalid(opening, "vocab");
        size_t bytes = json_reader_string(&reader, opening->text, LIMIT_TOKEN_BYTES);
        if (!json_reader_next_element(&reader))
            return invalid(opening, "vocab");
        double score = json_reader_f64(&reader);
        if (json_reader_next_element(&reader) || reader.failed)
            return invalid(opening, "vocab");
        enum result result = unigram_model_add(&tokenizer->unigram, score);
        if (!result)
            result = vocabulary_set_text(&tokenizer->vocabulary, id, opening->text, bytes,
                                         VOCABULARY_FINDABLE);
        if (result)
            return error_set(opening->error, result, "tokenizer.json: token %u of %zu bytes", id,
                             bytes);
    }
    if (reader.failed || tokenizer->vocabulary.longest_bytes == 0)
        return invalid(opening, "vocab");
    if (tokenizer->unigram.unknown_id >= (int32_t)tokenizer->unigram.token_count)
        return invalid(opening, "unk_id");
    return RESULT_OK;
}

static enum result open_vocabulary(struct opening *opening)
{
    struct vocabulary *vocabulary = &opening->tokenizer->vocabulary;
    struct json_slice slice = opening->model[VOCAB].slice;
    struct json_reader reader = json_reader_open(slice.bytes, slice.count);
    size_t spelled_bytes;
    if (is_absent(slice))
        return invalid(opening, "model: no vocab");
    if (opening->tokenizer->unigram.used)
        return open_scored_pieces(opening);
    json_reader_enter(&reader, '{');
    while (json_reader_next_member(&reader, opening->text, SPELLED_BYTES, &spelled_bytes)) {
        uint32_t id = json_reader_u32(&reader);
        if (reader.failed)
            break;
        size_t bytes;
        const char *text = opening->left;
        unsigned flags = VOCABULARY_FINDABLE;
        if (!decode_spelling(opening, opening->text, spelled_bytes, opening->left, &bytes)) {
            text = opening->text;
            bytes = spelled_bytes;
            flags = 0;
        }
        enum result result = vocabulary_set_text(vocabulary, id, text, bytes, flags);
        if (result)
            return error_set(opening->error, result, "tokenizer.json: token %u of %zu bytes", id,
                             bytes);
    }
    if (reader.failed || vocabulary->token_count == 0 || vocabulary->longest_bytes == 0)
        return invalid(opening, "vocab");
    return RESULT_OK;
}

static void read_added_token(struct opening *opening, struct json_reader *reader,
                             struct added_token *token)
{
    char name[NAME_BYTES];
    size_t name_bytes;
    bool has_content = false;
    json_reader_enter(reader, '{');
    while (json_reader_next_member(reader, name, sizeof name - 1, &name_bytes)) {
        name[name_bytes] = '\0';
        size_t skipped_bytes;
        if (strcmp(name, "id") == 0) {
            token->id = json_reader_u32(reader);
        } else if (strcmp(name, "content") == 0) {
            token->content = opening->text;
            token->content_bytes = json_reader_string(reader, opening->text, LIMIT_TOKEN_BYTES);
            has_content = true;
        } else if (strcmp(name, "special") == 0) {
            token->special = json_reader_bool(reader);
        } else if (strcmp(name, "normalized") == 0) {
            token->normalized = json_reader_bool(reader);
        } else if (strcmp(name, "lstrip") == 0) {
            token->lstrip = json_reader_bool(reader);
        } else if (strcmp(name, "rstrip") == 0) {
            token->rstrip = json_reader_bool(reader);
        } else if (strcmp(name, "single_word") == 0) {
            token->single_word = json_reader_bool(reader);
        } else {
            json_reader_skip(reader, &skipped_bytes);
        }
    }
    reader->failed |= !has_content;
}

static enum result open_added_tokens(struct opening *opening)
{
    struct json_slice slice = opening->top[ADDED_TOKENS].slice;
    struct json_reader reader = json_reader_open(slice.bytes, slice.count);
    if (is_absent(slice))
        return RESULT_OK;
    json_reader_enter(&reader, '[');
    while (json_reader_next_element(&reader)) {
        struct added_token token = {0};
        read_added_token(opening, &reader, &token);
        if (reader.failed)
            break;
        enum result result = tokenizer_add_token(opening->tokenizer, &token);
        if (result)
            return error_set(opening->error, result, "tokenizer.json: added token %u", token.id);
    }
    return reader.failed ? invalid(opening, "added_tokens") : RESULT_OK;
}

/* Both spellings of a merge: ["a", "b"] and "a b". */
static bool read_merge(struct opening *opening, struct json_reader *reader, const char **right,
                       size_t *left_bytes, size_t *right_bytes)
{
    *right = opening->right;
    if (json_reader_peek(reader) == '[') {
        json_reader_enter(reader, '[');
        if (!json_reader_next_element(reader))
            return false;
        *left_bytes = json_reader_string(reader, opening->text, SPELLED_BYTES);
        if (!json_reader_next_element(reader))
            return false;
        *right_bytes = json_reader_string(reader, opening->right, SPELLED_BYTES);
        return !json_reader_next_element(reader) && !reader->failed;
    }
    size_t bytes = json_reader_string(reader, opening->text, SPELLED_BYTES);
    const char *space = memchr(opening->text, ' ', bytes);
    if (reader->failed || !space)
        return false;
    *left_bytes = (size_t)(space - opening->text);
    *right_bytes = bytes - *left_bytes - 1;
    *right = space + 1;
    return true;
}

static enum result open_merges(struct opening *opening)
{
    struct json_slice slice = opening->model[MERGES].slice;
    struct json_reader reader = json_reader_open(slice.bytes, slice.count);
    if (is_absent(slice))
        return RESULT_OK;
    json_reader_enter(&reader, '[');
    for (uint32_t rank = 0; json_reader_next_element(&reader); rank++) {
        const char *right;
        size_t left_bytes = 0;
        size_t right_bytes = 0;
        char left_text[SPELLED_BYTES];
        char right_text[SPELLED_BYTES];
        if (!read_merge(opening, &reader, &right, &left_bytes, &right_bytes))
            return invalid(opening, "merges");
        if (!decode_spelling(opening, opening->text, left_bytes, left_text, &left_bytes) ||
            !decode_spelling(opening, right, right_bytes, right_text, &right_bytes))
            continue;
        enum result result =
            tokenizer_add_merge(opening->tokenizer, left_text, left_bytes, right_text, right_bytes);
        if (result)
            return error_set(opening->error, result == RESULT_NOT_FOUND ? RESULT_INVALID : result,
                             "tokenizer.json: merge %u (%s)", rank, result_name(result));
    }
    return reader.failed ? invalid(opening, "merges") : RESULT_OK;
}

static enum result open_stages(struct opening *opening)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    struct error_text *error = opening->error;
    enum result result =
        tokenizer_json_normalizer(opening->top[NORMALIZER].slice, tokenizer, error);
    if (!result)
        result = tokenizer_json_pretokenizer(opening->top[PRE_TOKENIZER].slice, tokenizer, error);
    if (!result)
        result = tokenizer_json_decoder(opening->top[DECODER].slice, tokenizer, error);
    return result;
}

static void open_unknown(struct opening *opening)
{
    size_t bytes;
    if (opening->tokenizer->unigram.used ||
        !member_string(opening->model[UNKNOWN].slice, opening->text, LIMIT_TOKEN_BYTES, &bytes))
        return;
    int32_t id = vocabulary_find(&opening->tokenizer->vocabulary, opening->text, bytes);
    opening->tokenizer->model.unknown_id = opening->tokenizer->words.unknown_id = id;
}

static enum result open_tokenizer(struct opening *opening)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    enum result result = open_model_settings(opening);
    if (!result)
        result = open_stages(opening);
    if (!result)
        result = open_vocabulary(opening);
    if (!result)
        result = open_added_tokens(opening);
    if (!result)
        result = vocabulary_index(&tokenizer->vocabulary);
    if (!result)
        result = bpe_merge_table_init(&tokenizer->model.merges, tokenizer->vocabulary.token_count);
    if (!result)
        result = open_merges(opening);
    if (!result)
        result = tokenizer_json_post_processor(opening->top[POST_PROCESSOR].slice, tokenizer,
                                               opening->error);
    if (!result && tokenizer->words.used)
        result = tokenizer_show_words(tokenizer);
    else if (!result && !tokenizer->model.by_bytes)
        result = tokenizer_show_pieces(tokenizer);
    if (!result) {
        open_unknown(opening);
        result = tokenizer_finish(tokenizer);
    }
    return result;
}

enum result tokenizer_open_json(const char *json, size_t json_bytes, struct tokenizer **tokenizer,
                                struct error_text *error)
{
    struct opening opening = {
        .error = error,
        .top = {{.name = "added_tokens"},
                {.name = "normalizer"},
                {.name = "pre_tokenizer"},
                {.name = "post_processor"},
                {.name = "decoder"},
                {.name = "model"}},
        .model = {{.name = "type"},
                  {.name = "unk_token"},
                  {.name = "continuing_subword_prefix"},
                  {.name = "end_of_word_suffix"},
                  {.name = "fuse_unk"},
                  {.name = "byte_fallback"},
                  {.name = "ignore_merges"},
                  {.name = "max_input_chars_per_word"},
                  {.name = "unk_id"},
                  {.name = "vocab"},
                  {.name = "merges"}},
    };
    if (json_bytes > LIMIT_JSON_FILE_BYTES)
        return error_set(error, RESULT_TOO_LARGE, "tokenizer.json: %zu bytes", json_bytes);
    error_set(error, RESULT_OK, "tokenizer.json: out of memory");
    struct json_reader reader = json_reader_open(json, json_bytes);
    if (!find_members(&reader, opening.top, TOP_COUNT) || is_absent(opening.top[MODEL].slice))
        return invalid(&opening, "document");
    reader = json_reader_open(opening.top[MODEL].slice.bytes, opening.top[MODEL].slice.count);
    if (!find_members(&reader, opening.model, MODEL_COUNT))
        return invalid(&opening, "model");
    opening.tokenizer = tokenizer_create();
    if (!opening.tokenizer)
        return RESULT_OUT_OF_MEMORY;
    enum result result = open_tokenizer(&opening);
    if (result)
        tokenizer_close(opening.tokenizer);
    else
        *tokenizer = opening.tokenizer;
    return result;
}
