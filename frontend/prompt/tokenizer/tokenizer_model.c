/*
 * tokenizer_open_model(): SentencePiece's tokenizer.model, as Llama 2 and Gemma publish it.
 *
 * The file is a protocol buffer: pieces with scores and types, the trainer's settings, the text
 * normalization. It is converted as Hugging Face does: merges in the order of the scores, bytes for
 * characters without a piece, spaces as U+2581, one of them prepended if the file says so, control
 * and user-defined pieces matched first.
 *
 * Not supported, each refused by name: models other than BPE (unigram chooses pieces by
 * probability, which is another algorithm), normalization beyond spaces (a precompiled map of
 * characters), removal of spaces. Sources: SentencePiece's published message description; Hugging
 * Face transformers, convert_slow_tokenizer.py.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/prompt/tokenizer/protobuf_reader.h"
#include "frontend/prompt/tokenizer/sentencepiece_merges.h"
#include "frontend/prompt/tokenizer/tokenizer.h"
#include "frontend/prompt/tokenizer/tokenizer_builder.h"
#include "proto/utf8.h"

#define FILE_NAME "tokenizer.model"

/* Numbers of fields. */
enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { TRAINER_TYPE = 3, TRAINER_FALLBACK = 35, TRAINER_UNKNOWN = 40 };
enum { TRAINER_BOS = 41, TRAINER_EOS = 42 };
enum { NORMALIZER_NAME = 1, NORMALIZER_MAP = 2, NORMALIZER_PREFIX = 3, NORMALIZER_DROPS = 4 };

enum piece_type { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER, PIECE_UNUSED };
enum { PIECE_TYPE_MOST = 6 };

static const char *const trainer_types[] = {"?", "unigram", "BPE", "word", "char"};

struct settings {
    uint64_t trainer_type;
    bool byte_fallback;
    int64_t unknown, bos, eos;
    bool prefix, drops_spaces;
    char name[32];
    size_t map_bytes;
};

struct opening {
    struct tokenizer *tokenizer;
    struct error_text *error;
    const void *bytes;
    size_t byte_count;
    uint32_t piece_count;
    struct settings settings;
    float *scores; /* [piece_count] */
};

static enum result malformed(const struct opening *opening, const char *what)
{
    return error_set(opening->error, RESULT_CORRUPT, FILE_NAME ": malformed %s", what);
}

/* --- settings --------------------------------------------------------------------------------- */

/* Ids are 32 bits, signed; -1: none. */
static int64_t id_of(const struct protobuf_field *field)
{
    return (int32_t)(uint32_t)field->value;
}

static bool read_trainer(struct protobuf_field message, struct settings *settings)
{
    struct protobuf_reader reader = protobuf_reader_open(message.bytes, message.byte_count);
    struct protobuf_field field;
    while (protobuf_reader_next(&reader, &field)) {
        if (field.kind != PROTOBUF_NUMBER)
            continue;
        switch (field.number) {
        case TRAINER_TYPE: settings->trainer_type = field.value; break;
        case TRAINER_FALLBACK: settings->byte_fallback = field.value != 0; break;
        case TRAINER_UNKNOWN: settings->unknown = id_of(&field); break;
        case TRAINER_BOS: settings->bos = id_of(&field); break;
        case TRAINER_EOS: settings->eos = id_of(&field); break;
        default: break;
        }
    }
    return !reader.failed;
}

static bool read_normalizer(struct protobuf_field message, struct settings *settings)
{
    struct protobuf_reader reader = protobuf_reader_open(message.bytes, message.byte_count);
    struct protobuf_field field;
    while (protobuf_reader_next(&reader, &field)) {
        bool is_number = field.kind == PROTOBUF_NUMBER, is_bytes = field.kind == PROTOBUF_BYTES;
        if (field.number == NORMALIZER_PREFIX && is_number)
            settings->prefix = field.value != 0;
        else if (field.number == NORMALIZER_DROPS && is_number)
            settings->drops_spaces = field.value != 0;
        else if (field.number == NORMALIZER_MAP && is_bytes)
            settings->map_bytes = field.byte_count;
        else if (field.number == NORMALIZER_NAME && is_bytes &&
                 field.byte_count < sizeof settings->name)
            memcpy(settings->name, field.bytes, field.byte_count);
    }
    return !reader.failed;
}

static enum result read_settings(struct opening *opening)
{
    /* The message description's defaults for absent fields. */
    struct settings *settings = &opening->settings;
    *settings = (struct settings){
        .trainer_type = 1, .unknown = 0, .bos = 1, .eos = 2, .prefix = true, .drops_spaces = true};
    struct protobuf_reader reader = protobuf_reader_open(opening->bytes, opening->byte_count);
    struct protobuf_field field;
    bool whole = true;
    while (whole && protobuf_reader_next(&reader, &field)) {
        if (field.kind != PROTOBUF_BYTES)
            continue;
        opening->piece_count += field.number == MODEL_PIECE;
        if (opening->piece_count > LIMIT_VOCAB_TOKENS)
            return error_set(opening->error, RESULT_TOO_LARGE, FILE_NAME ": more than %u pieces",
                             LIMIT_VOCAB_TOKENS);
        if (field.number == MODEL_TRAINER)
            whole = read_trainer(field, settings);
        else if (field.number == MODEL_NORMALIZER)
            whole = read_normalizer(field, settings);
    }
    if (reader.failed || !whole)
        return malformed(opening, "protocol buffer");
    return opening->piece_count > 0
               ? RESULT_OK
               : error_set(opening->error, RESULT_INVALID, FILE_NAME ": it has no pieces");
}

static enum result check_settings(const struct opening *opening)
{
    const struct settings *settings = &opening->settings;
    if (settings->trainer_type != 2)
        return error_set(opening->error, RESULT_UNSUPPORTED, FILE_NAME ": model type %s, not BPE",
                         settings->trainer_type <= 4 ? trainer_types[settings->trainer_type]
                                                     : "unknown");
    if (settings->map_bytes > 0)
        return error_set(opening->error, RESULT_UNSUPPORTED,
                         FILE_NAME ": normalizer \"%s\" changes characters", settings->name);
    if (settings->drops_spaces)
        return error_set(opening->error, RESULT_UNSUPPORTED,
                         FILE_NAME ": it removes extra whitespace");
    return RESULT_OK;
}

/* --- pieces ----------------------------------------------------------------------------------- */

struct stored_piece {
    const char *text;
    size_t bytes;
    float score;
    uint64_t type;
};

static bool read_piece(struct protobuf_field message, struct stored_piece *piece)
{
    struct protobuf_reader reader = protobuf_reader_open(message.bytes, message.byte_count);
    struct protobuf_field field;
    *piece = (struct stored_piece){.text = "", .type = PIECE_NORMAL};
    while (protobuf_reader_next(&reader, &field)) {
        uint32_t bits = (uint32_t)field.value;
        if (field.number == PIECE_TEXT && field.kind == PROTOBUF_BYTES) {
            piece->text = (const char *)field.bytes;
            piece->bytes = field.byte_count;
        } else if (field.number == PIECE_SCORE && field.kind == PROTOBUF_FIXED32) {
            memcpy(&piece->score, &bits, sizeof piece->score);
        } else if (field.number == PIECE_TYPE && field.kind == PROTOBUF_NUMBER) {
            piece->type = field.value;
        }
    }
    return !reader.failed && isfinite(piece->score) && piece->type >= PIECE_NORMAL &&
           piece->type <= PIECE_TYPE_MOST;
}

static enum result add_piece(struct opening *opening, uint32_t id, const struct stored_piece *piece)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    bool special = piece->type == PIECE_CONTROL || piece->type == PIECE_UNKNOWN;
    bool findable = !special && utf8_is_valid(piece->text, piece->bytes);
    opening->scores[id] = piece->score;
    if (piece->bytes > LIMIT_TOKEN_BYTES)
        return RESULT_TOO_LARGE;
    enum result result = vocabulary_set_text(&tokenizer->vocabulary, id, piece->text, piece->bytes,
                                             findable ? VOCABULARY_FINDABLE : 0u);
    if (result || (!special && piece->type != PIECE_USER))
        return result;
    char content[LIMIT_TOKEN_BYTES];
    memcpy(content, piece->text, piece->bytes);
    struct added_token added = {
        .id = id, .content = content, .content_bytes = piece->bytes, .special = special};
    return tokenizer_add_token(tokenizer, &added);
}

static enum result add_pieces(struct opening *opening)
{
    struct protobuf_reader reader = protobuf_reader_open(opening->bytes, opening->byte_count);
    struct protobuf_field field;
    uint32_t id = 0;
    while (protobuf_reader_next(&reader, &field)) {
        struct stored_piece piece;
        if (field.number != MODEL_PIECE || field.kind != PROTOBUF_BYTES)
            continue;
        if (!read_piece(field, &piece))
            return error_set(opening->error, RESULT_CORRUPT, FILE_NAME ": malformed piece %u", id);
        enum result result = add_piece(opening, id, &piece);
        if (result)
            return error_set(opening->error, result, FILE_NAME ": piece %u of %zu bytes (%s)", id,
                             piece.bytes, result_name(result));
        id++;
    }
    if (opening->tokenizer->vocabulary.longest_bytes == 0)
        return error_set(opening->error, RESULT_INVALID, FILE_NAME ": all pieces are empty");
    return vocabulary_index(&opening->tokenizer->vocabulary);
}

/* --- opening ---------------------------------------------------------------------------------- */

static int32_t known(const struct opening *opening, int64_t id)
{
    bool is_piece = id >= 0 && vocabulary_has(&opening->tokenizer->vocabulary, (uint32_t)id,
                                              VOCABULARY_PRESENT);
    return is_piece ? (int32_t)id : -1;
}

static enum result open_tokenizer(struct opening *opening)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    enum result result = read_settings(opening);
    if (!result)
        result = check_settings(opening);
    if (result)
        return result;
    opening->scores = calloc(opening->piece_count, sizeof *opening->scores);
    if (!opening->scores)
        return RESULT_OUT_OF_MEMORY;
    result = tokenizer_begin_pieces(tokenizer, opening->settings.prefix);
    tokenizer->model.byte_fallback = opening->settings.byte_fallback;
    if (!result)
        result = bpe_merge_table_init(&tokenizer->model.merges, opening->piece_count * 2);
    if (!result)
        result = add_pieces(opening);
    if (!result)
        result = tokenizer_show_pieces(tokenizer);
    if (result)
        return result;
    tokenizer->model.unknown_id = known(opening, opening->settings.unknown);
    tokenizer->bos_token = known(opening, opening->settings.bos);
    tokenizer->eos_token = known(opening, opening->settings.eos);
    tokenizer_add_end_token(tokenizer, tokenizer->eos_token);
    result = sentencepiece_merges_build(&tokenizer->vocabulary, opening->scores,
                                        &tokenizer->model.merges);
    return result ? error_set(opening->error, result, FILE_NAME ": too many merges (%s)",
                              result_name(result))
                  : tokenizer_finish(tokenizer);
}

enum result tokenizer_open_model(const void *bytes, size_t byte_count, struct tokenizer **tokenizer,
                                 struct error_text *error)
{
    struct opening opening = {.error = error, .bytes = bytes, .byte_count = byte_count};
    if (byte_count > LIMIT_JSON_FILE_BYTES)
        return error_set(error, RESULT_TOO_LARGE, FILE_NAME ": %zu bytes", byte_count);
    error_set(error, RESULT_OK, FILE_NAME ": out of memory");
    opening.tokenizer = tokenizer_create();
    if (!opening.tokenizer)
        return RESULT_OUT_OF_MEMORY;
    enum result result = open_tokenizer(&opening);
    free(opening.scores);
    if (result)
        tokenizer_close(opening.tokenizer);
    else
        *tokenizer = opening.tokenizer;
    return result;
}
