/*
 * Reads the JSON of a stage into its steps, by a table of types for each stage.
 *
 * These members have a few hundred bytes, so they are parsed into a tree; the caller has checked
 * their depth (LIMIT_JSON_DEPTH), which bounds the recursion through nested sequences. A type
 * without a row in the table is an error: skipping a stage would silently give wrong tokens.
 * Settings that only move offsets (trim_offsets) are not read.
 */
#include "frontend/prompt/tokenizer/tokenizer_json_stages.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/prompt/tokenizer/pretokenizer_preset.h"
#include "proto/utf8.h"

#define LOWER_BLOCK "\xE2\x96\x81" /* U+2581, SentencePiece's space */

typedef enum result stage_reader(const cJSON *node, struct tokenizer *tokenizer,
                                 struct error_text *error);

struct stage_type {
    const char *name;
    stage_reader *read;
};

static bool is_set(const cJSON *node, const char *name, bool absent)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(node, name);
    return cJSON_IsBool(member) ? cJSON_IsTrue(member) != 0 : absent;
}

static const char *text_of(const cJSON *node, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(node, name));
    return text ? text : "";
}

/* Copies a string of 1..LIMIT_LITERAL_BYTES bytes (0 too, with `may_be_empty`). */
static enum result copy_literal(const char *text, bool may_be_empty, char *out, size_t *out_bytes,
                                struct error_text *error)
{
    size_t bytes = strlen(text);
    if (bytes > LIMIT_LITERAL_BYTES || (bytes == 0 && !may_be_empty))
        return error_set(error, RESULT_INVALID,
                         "tokenizer.json: bad string of %zu bytes in a stage", bytes);
    memcpy(out, text, bytes);
    *out_bytes = bytes;
    return RESULT_OK;
}

static enum result read_node(const cJSON *node, const struct stage_type types[],
                             struct tokenizer *tokenizer, struct error_text *error)
{
    if (cJSON_IsNull(node))
        return RESULT_OK;
    const char *name = text_of(node, "type");
    for (size_t i = 0; types[i].name; i++) {
        if (strcmp(types[i].name, name) == 0)
            return types[i].read(node, tokenizer, error);
    }
    return error_set(error, RESULT_UNSUPPORTED, "tokenizer.json: unknown stage '%.64s'", name);
}

static enum result read_sequence(const cJSON *node, const char *member,
                                 const struct stage_type types[], struct tokenizer *tokenizer,
                                 struct error_text *error)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(node, member);
    if (!cJSON_IsArray(list))
        return error_set(error, RESULT_INVALID, "tokenizer.json: a sequence without '%s'", member);
    const cJSON *element;
    cJSON_ArrayForEach(element, list)
    {
        enum result result = read_node(element, types, tokenizer, error);
        if (result)
            return result;
    }
    return RESULT_OK;
}

static enum result read_nothing(const cJSON *node, struct tokenizer *tokenizer,
                                struct error_text *error)
{
    (void)node;
    (void)tokenizer;
    (void)error;
    return RESULT_OK;
}

static enum result read_stage(struct json_slice json, const struct stage_type types[],
                              struct tokenizer *tokenizer, struct error_text *error)
{
    if (!json.bytes)
        return RESULT_OK;
    /* cJSON does not validate UTF-8; patterns run on text known to be valid. */
    if (!utf8_is_valid(json.bytes, json.count))
        return error_set(error, RESULT_INVALID, "tokenizer.json: a stage is not UTF-8");
    if (memmem(json.bytes, json.count, "\\u0000", 6))
        return error_set(error, RESULT_UNSUPPORTED, "tokenizer.json: NUL in a stage");
    cJSON *root = cJSON_ParseWithLength(json.bytes, json.count);
    if (!root)
        return error_set(error, RESULT_INVALID, "tokenizer.json: malformed stage");
    enum result result = read_node(root, types, tokenizer, error);
    cJSON_Delete(root);
    return result;
}

/* --- normalizer
 * --------------------------------------------------------------------------------------------- */

static enum result add_normalizer(const struct normalizer_step *step, struct tokenizer *tokenizer,
                                  struct error_text *error)
{
    enum result result = normalizer_add(&tokenizer->normalizer, step);
    return result
               ? error_set(error, result, "more than %u normalizer steps", LIMIT_NORMALIZER_STEPS)
               : RESULT_OK;
}

static enum result read_nfc(const cJSON *node, struct tokenizer *tokenizer,
                            struct error_text *error)
{
    (void)node;
    return add_normalizer(&(struct normalizer_step){.kind = NORMALIZER_FORM_C}, tokenizer, error);
}

static enum result read_prepend(const cJSON *node, struct tokenizer *tokenizer,
                                struct error_text *error)
{
    struct normalizer_step step = {.kind = NORMALIZER_PREPEND};
    enum result result =
        copy_literal(text_of(node, "prepend"), true, step.to, &step.to_bytes, error);
    return result ? result : add_normalizer(&step, tokenizer, error);
}

static enum result read_replace(const cJSON *node, struct tokenizer *tokenizer,
                                struct error_text *error)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(node, "pattern");
    if (strcmp(text_of(pattern, "Regex"), " {2,}") == 0) {
        struct normalizer_step runs = {.kind = NORMALIZER_SPACE_RUNS};
        enum result copied =
            copy_literal(text_of(node, "content"), true, runs.to, &runs.to_bytes, error);
        return copied ? copied : add_normalizer(&runs, tokenizer, error);
    }
    if (!cJSON_GetObjectItemCaseSensitive(pattern, "String"))
        return error_set(error, RESULT_UNSUPPORTED, "tokenizer.json: Replace without a string");
    struct normalizer_step step = {.kind = NORMALIZER_REPLACE};
    enum result result =
        copy_literal(text_of(pattern, "String"), false, step.from, &step.from_bytes, error);
    if (!result)
        result = copy_literal(text_of(node, "content"), true, step.to, &step.to_bytes, error);
    return result ? result : add_normalizer(&step, tokenizer, error);
}

static enum result read_bert(const cJSON *node, struct tokenizer *tokenizer,
                             struct error_text *error)
{
    struct normalizer_step step = {.kind = NORMALIZER_BERT};
    step.bert.cleans = is_set(node, "clean_text", true);
    step.bert.spaces_ideographs = is_set(node, "handle_chinese_chars", true);
    step.bert.lowers = is_set(node, "lowercase", true);
    step.bert.strips_accents = is_set(node, "strip_accents", step.bert.lowers);
    return add_normalizer(&step, tokenizer, error);
}

static enum result read_strip_ends(const cJSON *node, struct tokenizer *tokenizer,
                                   struct error_text *error)
{
    struct normalizer_step step = {.kind = NORMALIZER_STRIP,
                                   .strips_left = is_set(node, "strip_left", true),
                                   .strips_right = is_set(node, "strip_right", true)};
    return add_normalizer(&step, tokenizer, error);
}

static enum result read_precompiled(const cJSON *node, struct tokenizer *tokenizer,
                                    struct error_text *error)
{
    struct normalizer_step step = {.kind = NORMALIZER_CHARACTERS};
    enum result result =
        character_map_open(text_of(node, "precompiled_charsmap"), &step.map, error);
    return result ? result : add_normalizer(&step, tokenizer, error);
}

static stage_reader read_normalizers;
static const struct stage_type normalizer_types[] = {
    {"BertNormalizer", read_bert},     {"NFC", read_nfc},
    {"Precompiled", read_precompiled}, {"Prepend", read_prepend},
    {"Replace", read_replace},         {"Sequence", read_normalizers},
    {"Strip", read_strip_ends},        {NULL, NULL}};

static enum result read_normalizers(const cJSON *node, struct tokenizer *tokenizer,
                                    struct error_text *error)
{
    return read_sequence(node, "normalizers", normalizer_types, tokenizer, error);
}

enum result tokenizer_json_normalizer(struct json_slice json, struct tokenizer *tokenizer,
                                      struct error_text *error)
{
    return read_stage(json, normalizer_types, tokenizer, error);
}

/* --- pre_tokenizer
 * ------------------------------------------------------------------------------------------ */

static enum result add_split(struct pretokenizer_step step, struct tokenizer *tokenizer,
                             struct error_text *error)
{
    enum result result = pretokenizer_add(&tokenizer->pretokenizer, step);
    return result ? error_set(error, result, "more than %u pre-tokenizer steps",
                              LIMIT_PRETOKENIZER_STEPS)
                  : RESULT_OK;
}

static enum result add_regex(const char *regex, enum split_behavior behavior, bool invert,
                             struct tokenizer *tokenizer, struct error_text *error)
{
    return pretokenizer_add_pattern(&tokenizer->pretokenizer, regex, strlen(regex), behavior,
                                    invert, error);
}

static enum result read_behavior(const cJSON *node, enum split_behavior *behavior,
                                 struct error_text *error)
{
    static const char *const names[] = {
        [SPLIT_REMOVED] = "Removed",
        [SPLIT_ISOLATED] = "Isolated",
        [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *name = text_of(node, "behavior");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0) {
            *behavior = (enum split_behavior)i;
            return RESULT_OK;
        }
    }
    return error_set(error, RESULT_INVALID, "tokenizer.json: behavior '%.64s'", name);
}

static enum result read_split(const cJSON *node, struct tokenizer *tokenizer,
                              struct error_text *error)
{
    struct pretokenizer_step step = {.kind = PRETOKENIZER_LITERAL,
                                     .invert = is_set(node, "invert", false)};
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(node, "pattern");
    enum result result = read_behavior(node, &step.behavior, error);
    if (result)
        return result;
    if (cJSON_GetObjectItemCaseSensitive(pattern, "Regex"))
        return add_regex(text_of(pattern, "Regex"), step.behavior, step.invert, tokenizer, error);
    result =
        copy_literal(text_of(pattern, "String"), false, step.literal, &step.literal_bytes, error);
    return result ? result : add_split(step, tokenizer, error);
}

static enum result read_digits(const cJSON *node, struct tokenizer *tokenizer,
                               struct error_text *error)
{
    bool single = is_set(node, "individual_digits", false);
    return add_regex(single ? "\\p{N}" : "\\p{N}+", SPLIT_ISOLATED, false, tokenizer, error);
}

static enum result read_punctuation(const cJSON *node, struct tokenizer *tokenizer,
                                    struct error_text *error)
{
    enum split_behavior behavior = SPLIT_ISOLATED;
    if (cJSON_GetObjectItemCaseSensitive(node, "behavior")) {
        enum result result = read_behavior(node, &behavior, error);
        if (result)
            return result;
    }
    return add_regex("[\\p{P}$+<=>^`|~]", behavior, false, tokenizer, error);
}

static enum result read_whitespace_split(const cJSON *node, struct tokenizer *tokenizer,
                                         struct error_text *error)
{
    (void)node;
    return add_regex("\\s", SPLIT_REMOVED, false, tokenizer, error);
}

static enum result read_metaspace(const cJSON *node, struct tokenizer *tokenizer,
                                  struct error_text *error)
{
    struct pretokenizer_step step = {.kind = PRETOKENIZER_SPACES, .prefix = PREFIX_ALWAYS};
    const char *scheme = text_of(node, "prepend_scheme");
    if (strcmp(scheme, "first") == 0)
        step.prefix = PREFIX_FIRST;
    if (strcmp(scheme, "never") == 0 || !is_set(node, "add_prefix_space", true))
        step.prefix = PREFIX_NEVER;
    enum result result =
        copy_literal(text_of(node, "replacement"), false, step.literal, &step.literal_bytes, error);
    if (!result)
        result = add_split(step, tokenizer, error);
    if (result || !is_set(node, "split", true))
        return result;
    step.kind = PRETOKENIZER_LITERAL;
    step.behavior = SPLIT_MERGED_WITH_NEXT;
    return add_split(step, tokenizer, error);
}

static enum result read_byte_level(const cJSON *node, struct tokenizer *tokenizer,
                                   struct error_text *error)
{
    enum result result = RESULT_OK;
    tokenizer->model.by_bytes = true;
    if (is_set(node, "add_prefix_space", true)) {
        struct pretokenizer_step step = {.kind = PRETOKENIZER_SPACES,
                                         .prefix = PREFIX_ALWAYS,
                                         .literal = " ",
                                         .literal_bytes = 1};
        result = add_split(step, tokenizer, error);
    }
    if (!result && is_set(node, "use_regex", true))
        result = add_regex(pretokenizer_gpt2_regex, SPLIT_ISOLATED, false, tokenizer, error);
    return result;
}

static enum result read_words(const cJSON *node, struct tokenizer *tokenizer,
                              struct error_text *error)
{
    (void)node;
    return add_split((struct pretokenizer_step){.kind = PRETOKENIZER_WORDS}, tokenizer, error);
}

static stage_reader read_pretokenizers;
static const struct stage_type pretokenizer_types[] = {{"BertPreTokenizer", read_words},
                                                       {"ByteLevel", read_byte_level},
                                                       {"Digits", read_digits},
                                                       {"Metaspace", read_metaspace},
                                                       {"Punctuation", read_punctuation},
                                                       {"Sequence", read_pretokenizers},
                                                       {"Split", read_split},
                                                       {"WhitespaceSplit", read_whitespace_split},
                                                       {NULL, NULL}};

static enum result read_pretokenizers(const cJSON *node, struct tokenizer *tokenizer,
                                      struct error_text *error)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(node, "pretokenizers");
    const cJSON *element;
    cJSON_ArrayForEach(element, list)
    {
        /* A step after ByteLevel would see the byte alphabet, not the text. */
        if (tokenizer->model.by_bytes)
            return error_set(error, RESULT_UNSUPPORTED,
                             "tokenizer.json: a pre-tokenizer after ByteLevel");
        enum result result = read_node(element, pretokenizer_types, tokenizer, error);
        if (result)
            return result;
    }
    return RESULT_OK;
}

enum result tokenizer_json_pretokenizer(struct json_slice json, struct tokenizer *tokenizer,
                                        struct error_text *error)
{
    return read_stage(json, pretokenizer_types, tokenizer, error);
}

/* --- decoder
 * ------------------------------------------------------------------------------------------------
 */

static enum result read_shown_spaces(const cJSON *node, struct tokenizer *tokenizer,
                                     struct error_text *error)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(node, "pattern");
    if (strcmp(text_of(pattern, "String"), LOWER_BLOCK) != 0 ||
        strcmp(text_of(node, "content"), " ") != 0)
        return error_set(error, RESULT_UNSUPPORTED,
                         "tokenizer.json: decoder replaces another string");
    tokenizer->shows_spaces = true;
    return RESULT_OK;
}

static enum result read_strip(const cJSON *node, struct tokenizer *tokenizer,
                              struct error_text *error)
{
    const cJSON *start = cJSON_GetObjectItemCaseSensitive(node, "start");
    const cJSON *stop = cJSON_GetObjectItemCaseSensitive(node, "stop");
    if (strcmp(text_of(node, "content"), " ") != 0 || cJSON_GetNumberValue(start) > 1 ||
        cJSON_GetNumberValue(stop) > 0)
        return error_set(error, RESULT_UNSUPPORTED,
                         "tokenizer.json: decoder strips more than one space in front");
    tokenizer->strips_space = cJSON_GetNumberValue(start) == 1;
    return RESULT_OK;
}

static enum result read_metaspace_decoder(const cJSON *node, struct tokenizer *tokenizer,
                                          struct error_text *error)
{
    if (strcmp(text_of(node, "replacement"), LOWER_BLOCK) != 0)
        return error_set(error, RESULT_UNSUPPORTED,
                         "tokenizer.json: decoder replaces another string");
    tokenizer->shows_spaces = true;
    tokenizer->strips_space = strcmp(text_of(node, "prepend_scheme"), "never") != 0 &&
                              is_set(node, "add_prefix_space", true);
    return RESULT_OK;
}

static enum result read_word_decoder(const cJSON *node, struct tokenizer *tokenizer,
                                     struct error_text *error)
{
    (void)node;
    return tokenizer->words.used ? RESULT_OK
                                 : error_set(error, RESULT_UNSUPPORTED,
                                             "tokenizer.json: decoder WordPiece of another model");
}

static stage_reader read_decoders;
static const struct stage_type decoder_types[] = {{"ByteFallback", read_nothing},
                                                  {"ByteLevel", read_nothing},
                                                  {"Fuse", read_nothing},
                                                  {"Metaspace", read_metaspace_decoder},
                                                  {"Replace", read_shown_spaces},
                                                  {"Sequence", read_decoders},
                                                  {"Strip", read_strip},
                                                  {"WordPiece", read_word_decoder},
                                                  {NULL, NULL}};

static enum result read_decoders(const cJSON *node, struct tokenizer *tokenizer,
                                 struct error_text *error)
{
    return read_sequence(node, "decoders", decoder_types, tokenizer, error);
}

enum result tokenizer_json_decoder(struct json_slice json, struct tokenizer *tokenizer,
                                   struct error_text *error)
{
    return read_stage(json, decoder_types, tokenizer, error);
}

/* --- post_processor
 * ----------------------------------------------------------------------------------------- */

/* The id of the special token in an item of a template; -1: it is none. */
static int32_t special_of(const cJSON *node, const cJSON *item, const struct tokenizer *tokenizer)
{
    const char *name = text_of(cJSON_GetObjectItemCaseSensitive(item, "SpecialToken"), "id");
    const cJSON *tokens = cJSON_GetObjectItemCaseSensitive(node, "special_tokens");
    const cJSON *token = cJSON_GetObjectItemCaseSensitive(tokens, name);
    const cJSON *id = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(token, "ids"), 0);
    double value = cJSON_GetNumberValue(id);
    bool known = name[0] && value >= 0 && value < tokenizer->vocabulary.token_count;
    return known ? (int32_t)value : -1;
}

/* The text that an item stands for, 'A' or 'B', or 0, and its type. */
static char sequence_of(const cJSON *item, double *type)
{
    const cJSON *special = cJSON_GetObjectItemCaseSensitive(item, "SpecialToken");
    const cJSON *sequence = cJSON_GetObjectItemCaseSensitive(item, "Sequence");
    *type = cJSON_GetNumberValue(
        cJSON_GetObjectItemCaseSensitive(special ? special : sequence, "type_id"));
    return text_of(sequence, "id")[0];
}

/* Pairs of the form bos A middle B tail, of which B and its tail may have type 1; others are not
 * supported. */
static void read_pair(const cJSON *node, struct tokenizer *tokenizer)
{
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(node, "pair");
    int count = cJSON_GetArraySize(items);
    uint32_t middle = count < 5 ? 0 : (uint32_t)count - 4;
    double types[2];
    if (middle == 0 || middle > PAIR_MIDDLE_TOKENS_MAX || tokenizer->bos_token < 0 ||
        special_of(node, cJSON_GetArrayItem(items, 0), tokenizer) != tokenizer->bos_token ||
        special_of(node, cJSON_GetArrayItem(items, count - 1), tokenizer) !=
            tokenizer->tail_token ||
        sequence_of(cJSON_GetArrayItem(items, 1), &types[0]) != 'A' ||
        sequence_of(cJSON_GetArrayItem(items, count - 2), &types[1]) != 'B')
        return;
    bool segments = types[1] == 1;
    for (int i = 0; i < count; i++) {
        double type;
        sequence_of(cJSON_GetArrayItem(items, i), &type);
        if (type != (segments && i >= count - 2 ? 1 : 0))
            return;
    }
    for (uint32_t i = 0; i < middle; i++) {
        int32_t id = special_of(node, cJSON_GetArrayItem(items, 2 + (int)i), tokenizer);
        if (id < 0)
            return;
        tokenizer->pair_middle[i] = (uint32_t)id;
    }
    tokenizer->pair_middle_count = middle;
    tokenizer->pair_segments = segments;
}

static enum result read_template(const cJSON *node, struct tokenizer *tokenizer,
                                 struct error_text *error)
{
    (void)error;
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(node, "single");
    int count = cJSON_GetArraySize(items);
    int32_t first = special_of(node, cJSON_GetArrayItem(items, 0), tokenizer);
    if (first >= 0) {
        tokenizer->bos_token = first;
        tokenizer->adds_bos = true;
    }
    if (count > 1)
        tokenizer->tail_token = special_of(node, cJSON_GetArrayItem(items, count - 1), tokenizer);
    read_pair(node, tokenizer);
    return RESULT_OK;
}

/* The id in ["[SEP]", 102]; -1: it is none. */
static int32_t named_id(const cJSON *node, const char *name, const struct tokenizer *tokenizer)
{
    const cJSON *pair = cJSON_GetObjectItemCaseSensitive(node, name);
    double value = cJSON_GetNumberValue(cJSON_GetArrayItem(pair, 1));
    return value >= 0 && value < tokenizer->vocabulary.token_count ? (int32_t)value : -1;
}

static enum result read_ends(const cJSON *node, uint32_t middle, bool segments,
                             struct tokenizer *tokenizer, struct error_text *error)
{
    int32_t first = named_id(node, "cls", tokenizer), last = named_id(node, "sep", tokenizer);
    if (first < 0 || last < 0)
        return error_set(error, RESULT_INVALID,
                         "tokenizer.json: post_processor without cls or sep");
    tokenizer->bos_token = first;
    tokenizer->adds_bos = true;
    tokenizer->tail_token = last;
    for (uint32_t i = 0; i < middle; i++)
        tokenizer->pair_middle[i] = (uint32_t)last;
    tokenizer->pair_middle_count = middle;
    tokenizer->pair_segments = segments;
    return RESULT_OK;
}

static enum result read_bert_ends(const cJSON *node, struct tokenizer *tokenizer,
                                  struct error_text *error)
{
    return read_ends(node, 1, true, tokenizer, error);
}

static enum result read_roberta_ends(const cJSON *node, struct tokenizer *tokenizer,
                                     struct error_text *error)
{
    return read_ends(node, 2, false, tokenizer, error);
}

static stage_reader read_post_processors;
static const struct stage_type post_processor_types[] = {
    {"BertProcessing", read_bert_ends},       {"ByteLevel", read_nothing},
    {"RobertaProcessing", read_roberta_ends}, {"Sequence", read_post_processors},
    {"TemplateProcessing", read_template},    {NULL, NULL}};

static enum result read_post_processors(const cJSON *node, struct tokenizer *tokenizer,
                                        struct error_text *error)
{
    return read_sequence(node, "processors", post_processor_types, tokenizer, error);
}

enum result tokenizer_json_post_processor(struct json_slice json, struct tokenizer *tokenizer,
                                          struct error_text *error)
{
    return read_stage(json, post_processor_types, tokenizer, error);
}
