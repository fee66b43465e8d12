/*
 * Numbers are read by one table. A field whose sampler is off is checked like any other.
 *
 * A sequence breaker is a text; the worker knows only tokens. It becomes sequences of tokens
 * (proto/dry_breakers.h), as in llama.cpp: each token whose text has the breaker in it, and each
 * token whose text ends with a beginning of the breaker, followed by the tokens of the rest. The rest
 * has few variants, one for each length, so it is tokenized once for each; the vocabulary is walked
 * once for each request with DRY.
 */
#include "frontend/api/generation/sampler_fields.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/request_fields.h"
#include "frontend/base/shared_bytes.h"
#include "frontend/prompt/tokenizer/tokenizer.h"

/* --- numbers --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    double least;
    double most;
    size_t offset; /* in struct sampling_params */
    float initial;
} numbers[] = {
#define PARAM(field) offsetof(struct sampling_params, field)
    {"dynatemp_range", 0, 10, PARAM(dynatemp_range), 0},
    {"dynatemp_exponent", 0, 10, PARAM(dynatemp_exponent), 1},
    {"xtc_probability", 0, 1, PARAM(xtc_probability), 0},
    {"xtc_threshold", 0, 1, PARAM(xtc_threshold), 0.1f},
    {"mirostat_tau", 0, 100, PARAM(mirostat_tau), 5},
    {"mirostat_eta", 0, 1, PARAM(mirostat_eta), 0.1f},
    {"dry_multiplier", 0, 100, PARAM(dry_multiplier), 0},
    {"dry_base", 1, 100, PARAM(dry_base), 1.75f},
#undef PARAM
};

static enum result numbers_read(const cJSON *body, struct sampling_params *sampling,
                                struct api_error *error)
{
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const char *name = numbers[i].name;
        const cJSON *item = request_fields_member(body, name);
        float value = numbers[i].initial;
        if (item && !cJSON_IsNumber(item))
            return api_error_invalid(error, name, "%s must be a number", name);
        if (item &&
            !(item->valuedouble >= numbers[i].least && item->valuedouble <= numbers[i].most))
            return api_error_invalid(error, name, "%s must be between %g and %g", name,
                                     numbers[i].least, numbers[i].most);
        if (item)
            value = (float)item->valuedouble;
        memcpy((char *)sampling + numbers[i].offset, &value, sizeof value);
    }
    return RESULT_OK;
}

static enum result mirostat_read(const cJSON *body, struct sampling_params *sampling,
                                 struct api_error *error)
{
    bool present;
    int64_t version = 0;
    enum result result =
        request_fields_read_integer(body, "mirostat", 0, 2, &present, &version, error);
    if (result == RESULT_OK && version == 1)
        return api_error_invalid(error, "mirostat",
                                 "mirostat must be 0 or 2: version 1 is not supported");
    sampling->mirostat = (uint32_t)version;
    sampling->mirostat_mu = version == 0 ? 0 : 2 * sampling->mirostat_tau;
    return result;
}

/* How far DRY looks back: -1: all tokens; 0: nowhere. */
static enum result context_read(const cJSON *body, struct sampling_params *sampling,
                                struct api_error *error)
{
    bool present;
    int64_t allowed = 2, last = -1;
    enum result result = request_fields_read_integer(
        body, "dry_allowed_length", 0, LIMIT_CONTEXT_TOKENS, &present, &allowed, error);
    if (result == RESULT_OK)
        result = request_fields_read_integer(body, "dry_penalty_last_n", -1, LIMIT_CONTEXT_TOKENS,
                                             &present, &last, error);
    sampling->dry_allowed_length = (uint32_t)allowed;
    sampling->dry_context = last > 0 ? (uint32_t)last : 0;
    if (last == 0)
        sampling->dry_multiplier = 0;
    return result;
}

/* --- sequence breakers ----------------------------------------------------------------------- */

static const char breakers_name[] = "dry_sequence_breakers";

/* A breaker and the tokens of its ends, by how many bytes are left out in front. */
struct breaker {
    const char *text;
    size_t length;
    struct token_list
        rests[LIMIT_DRY_BREAKER_BYTES]; /* [1 .. length - 1]; no ids: not needed yet */
};

struct breaker_set {
    const struct tokenizer *tokenizer;
    struct breaker breakers[LIMIT_DRY_BREAKERS];
    uint32_t count;
    uint32_t *words; /* [LIMIT_DRY_BREAKER_WORDS] */
    uint32_t word_count;
    uint32_t first_word; /* of the sequences of the token being looked at */
    uint32_t equal;      /* their number */
};

static enum result sequence_add(struct breaker_set *set, uint32_t token,
                                const struct token_list *rest, struct api_error *error)
{
    uint32_t tail = rest->count < LIMIT_DRY_BREAKER_TOKENS ? (uint32_t)rest->count
                                                           : LIMIT_DRY_BREAKER_TOKENS - 1;
    for (uint32_t at = set->first_word; at < set->word_count; at += set->words[at] + 1) {
        if (set->words[at] == tail + 1 &&
            (tail == 0 || memcmp(set->words + at + 2, rest->ids, tail * sizeof *rest->ids) == 0))
            return RESULT_OK; /* there already */
    }
    if (set->word_count + 2 + tail > LIMIT_DRY_BREAKER_WORDS || set->equal == LIMIT_DRY_BREAKERS)
        return api_error_invalid(error, breakers_name, "%s occur in too many tokens",
                                 breakers_name);
    set->equal++;
    set->words[set->word_count++] = tail + 1;
    set->words[set->word_count++] = token;
    if (tail > 0)
        memcpy(set->words + set->word_count, rest->ids, tail * sizeof *rest->ids);
    set->word_count += tail;
    return RESULT_OK;
}

/* The tokens of the breaker without its first `skipped` bytes. */
static enum result rest_encode(const struct breaker_set *set, struct breaker *breaker,
                               size_t skipped, struct api_error *error)
{
    const struct prompt_span span = {.text = breaker->text + skipped,
                                     .text_bytes = breaker->length - skipped};
    struct token_list *rest = &breaker->rests[skipped];
    if (rest->count > 0)
        return RESULT_OK;
    enum result result =
        tokenizer_encode(set->tokenizer, &span, 1, LIMIT_CONTEXT_TOKENS, NULL, rest);
    if (result == RESULT_OK && rest->count > 0)
        return RESULT_OK;
    if (result == RESULT_OUT_OF_MEMORY)
        return api_error_memory(error);
    return api_error_invalid(error, breakers_name, "%s: the tokenizer refuses a part of one",
                             breakers_name);
}

/* Adds the sequences of one token and one breaker. */
static enum result token_match(struct breaker_set *set, struct breaker *breaker, uint32_t token,
                               const char *bytes, size_t length, struct api_error *error)
{
    static const struct token_list nothing = {0};
    if (length >= breaker->length && memmem(bytes, length, breaker->text, breaker->length))
        return sequence_add(set, token, &nothing, error);
    size_t from = length >= breaker->length ? length - breaker->length + 1 : 0;
    for (; from < length; from++) {
        size_t known = length - from; /* bytes of the breaker at the token's end */
        if (memcmp(bytes + from, breaker->text, known) != 0)
            continue;
        enum result result = rest_encode(set, breaker, known, error);
        if (result == RESULT_OK)
            result = sequence_add(set, token, &breaker->rests[known], error);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

static enum result vocabulary_walk(struct breaker_set *set, struct api_error *error)
{
    uint32_t vocab_tokens = tokenizer_vocab_tokens(set->tokenizer);
    for (uint32_t token = 0; token < vocab_tokens; token++) {
        const char *bytes;
        size_t length;
        tokenizer_token_bytes(set->tokenizer, token, &bytes, &length);
        set->first_word = set->word_count;
        set->equal = 0;
        for (uint32_t i = 0; i < set->count && length > 0; i++) {
            enum result result = token_match(set, &set->breakers[i], token, bytes, length, error);
            if (result != RESULT_OK)
                return result;
        }
    }
    return RESULT_OK;
}

static enum result breaker_add(struct breaker_set *set, const char *text, struct api_error *error)
{
    size_t length = text ? strlen(text) : 0;
    if (length < 1 || length > LIMIT_DRY_BREAKER_BYTES)
        return api_error_invalid(error, breakers_name, "%s must have strings of 1 to %u bytes",
                                 breakers_name, LIMIT_DRY_BREAKER_BYTES);
    if (set->count == LIMIT_DRY_BREAKERS)
        return api_error_invalid(error, breakers_name, "%s must be a list of 1 to %u strings",
                                 breakers_name, LIMIT_DRY_BREAKERS);
    set->breakers[set->count++] = (struct breaker){.text = text, .length = length};
    return RESULT_OK;
}

static enum result breakers_collect(const cJSON *body, struct breaker_set *set,
                                    struct api_error *error)
{
    static const char *const initial[] = {"\n", ":", "\"", "*"};
    const cJSON *list = request_fields_member(body, breakers_name);
    enum result result = RESULT_OK;
    for (size_t i = 0; !list && i < sizeof initial / sizeof initial[0]; i++)
        result = result == RESULT_OK ? breaker_add(set, initial[i], error) : result;
    if (list && (!cJSON_IsArray(list) || !list->child))
        return api_error_invalid(error, breakers_name, "%s must be a list of 1 to %u strings",
                                 breakers_name, LIMIT_DRY_BREAKERS);
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        result = breaker_add(set, cJSON_GetStringValue(item), error);
        if (result != RESULT_OK)
            return result;
    }
    return result;
}

static enum result breakers_read(const cJSON *body, const struct tokenizer *tokenizer,
                                 struct generation_request *request, struct api_error *error)
{
    struct breaker_set *set = calloc(1, sizeof *set);
    if (!set)
        return api_error_memory(error);
    set->tokenizer = tokenizer;
    enum result result = breakers_collect(body, set, error);
    if (result != RESULT_OK || !sampling_params_has_dry(&request->sampling))
        goto out;
    set->words = malloc(LIMIT_DRY_BREAKER_WORDS * sizeof *set->words);
    result = set->words ? vocabulary_walk(set, error) : api_error_memory(error);
    if (result != RESULT_OK || set->word_count == 0)
        goto out;
    request->dry_breakers = shared_bytes_create(set->words, set->word_count * sizeof *set->words);
    if (!request->dry_breakers)
        result = api_error_memory(error);
out:
    for (uint32_t i = 0; i < set->count; i++)
        for (uint32_t k = 0; k < LIMIT_DRY_BREAKER_BYTES; k++)
            token_list_fini(&set->breakers[i].rests[k]);
    free(set->words);
    free(set);
    return result;
}

enum result sampler_fields_read(const cJSON *body, const struct tokenizer *tokenizer,
                                struct generation_request *request, struct api_error *error)
{
    enum result result = numbers_read(body, &request->sampling, error);
    if (result == RESULT_OK)
        result = mirostat_read(body, &request->sampling, error);
    if (result == RESULT_OK)
        result = context_read(body, &request->sampling, error);
    return result == RESULT_OK ? breakers_read(body, tokenizer, request, error) : result;
}
