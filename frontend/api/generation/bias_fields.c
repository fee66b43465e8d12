/*
 * Every form ends in bias_add(), which keeps one entry for each token: backends apply a token's bias
 * once.
 */
#include "frontend/api/generation/bias_fields.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/request_fields.h"
#include "frontend/prompt/tokenizer/tokenizer.h"

static const char field[] = "logit_bias";

static enum result bias_add(struct generation_request *request, uint32_t token, float bias,
                            struct api_error *error)
{
    uint32_t at = 0;
    while (at < request->logit_bias_count && request->logit_bias[at].token != token)
        at++;
    if (at == LIMIT_LOGIT_BIAS)
        return api_error_invalid(error, field, "more than %u biases", LIMIT_LOGIT_BIAS);
    if (at == request->logit_bias_count)
        request->logit_bias[request->logit_bias_count++] =
            (struct logit_bias_entry){.token = token};
    struct logit_bias_entry *entry = &request->logit_bias[at];
    entry->bias = fminf(entry->bias + bias, 100);
    if (isfinite(entry->bias) && entry->bias < -100)
        entry->bias = -100;
    return RESULT_OK;
}

/* False: neither a number in range nor false. */
static bool bias_value(const cJSON *item, float *bias)
{
    *bias = cJSON_IsNumber(item) ? (float)item->valuedouble : -INFINITY;
    return cJSON_IsFalse(item) ||
           (cJSON_IsNumber(item) && item->valuedouble >= -100 && item->valuedouble <= 100);
}

static enum result text_add(const struct tokenizer *tokenizer, const char *text, float bias,
                            struct generation_request *request, struct api_error *error)
{
    const struct prompt_span span = {.text = text, .text_bytes = strlen(text)};
    struct token_list tokens = {0};
    enum result result = tokenizer_encode(tokenizer, &span, 1, LIMIT_LOGIT_BIAS, NULL, &tokens);
    if (result != RESULT_OK || tokens.count == 0) {
        token_list_fini(&tokens);
        return api_error_invalid(error, field,
                                 "'%.40s' is neither a token id nor a text of 1 to "
                                 "%u tokens",
                                 text, LIMIT_LOGIT_BIAS);
    }
    for (size_t i = 0; i < tokens.count && result == RESULT_OK; i++)
        result = bias_add(request, tokens.ids[i], bias, error);
    token_list_fini(&tokens);
    return result;
}

/* A name that is a number is an id, any other a text. */
static enum result named_add(const struct tokenizer *tokenizer, const char *name, float bias,
                             struct generation_request *request, struct api_error *error)
{
    uint32_t vocab_tokens = tokenizer_vocab_tokens(tokenizer);
    size_t digits = strspn(name, "0123456789");
    bool is_negative = name[0] == '-' && name[1] && !name[1 + strspn(name + 1, "0123456789")];
    if ((digits == 0 || name[digits]) && !is_negative)
        return text_add(tokenizer, name, bias, request, error);
    unsigned long long token = strtoull(name, NULL, 10);
    if (is_negative || digits > 18 || token >= vocab_tokens)
        return api_error_invalid(error, field, "'%.40s' is not a token id below %u", name,
                                 vocab_tokens);
    return bias_add(request, (uint32_t)token, bias, error);
}

static bool id_value(const cJSON *item, uint32_t vocab_tokens, uint32_t *id)
{
    double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(value >= 0 && value < vocab_tokens && floor(value) == value))
        return false;
    *id = (uint32_t)value;
    return true;
}

static enum result pair_add(const struct tokenizer *tokenizer, const cJSON *pair,
                            struct generation_request *request, struct api_error *error)
{
    const cJSON *what = cJSON_IsArray(pair) ? pair->child : NULL;
    const cJSON *value = what ? what->next : NULL;
    uint32_t id = 0;
    float bias;
    if (!value || value->next || !bias_value(value, &bias) ||
        !(cJSON_IsString(what) || id_value(what, tokenizer_vocab_tokens(tokenizer), &id)))
        return api_error_invalid(error, field,
                                 "a list of biases has pairs [token id or text, bias], where a "
                                 "bias is a number between -100 and 100, or false");
    return cJSON_IsString(what) ? text_add(tokenizer, what->valuestring, bias, request, error)
                                : bias_add(request, id, bias, error);
}

static enum result suppressed_read(const cJSON *list, const struct tokenizer *tokenizer,
                                   struct generation_request *request, struct api_error *error)
{
    static const char name[] = "suppress_tokens";
    const cJSON *item;
    uint32_t id;
    if (list && !cJSON_IsArray(list))
        return api_error_invalid(error, name, "%s must be a list of token ids", name);
    cJSON_ArrayForEach(item, list)
    {
        if (!id_value(item, tokenizer_vocab_tokens(tokenizer), &id))
            return api_error_invalid(error, name, "%s must be a list of token ids", name);
        enum result result = bias_add(request, id, -INFINITY, error);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

enum result bias_fields_read(const cJSON *body, const struct tokenizer *tokenizer,
                             struct generation_request *request, struct api_error *error)
{
    const cJSON *biases = request_fields_member(body, field), *item;
    const cJSON *suppressed = request_fields_member(body, "suppress_tokens");
    if (!biases && !suppressed)
        return RESULT_OK;
    if (biases && !cJSON_IsObject(biases) && !cJSON_IsArray(biases))
        return api_error_invalid(error, field, "logit_bias must be an object or a list of pairs");
    request->logit_bias = calloc(LIMIT_LOGIT_BIAS, sizeof *request->logit_bias);
    if (!request->logit_bias)
        return api_error_memory(error);
    cJSON_ArrayForEach(item, biases)
    {
        float bias;
        if (cJSON_IsObject(biases) && !bias_value(item, &bias))
            return api_error_invalid(error, field,
                                     "a bias must be a number between -100 and 100, or false");
        enum result result = cJSON_IsObject(biases)
                                 ? named_add(tokenizer, item->string, bias, request, error)
                                 : pair_add(tokenizer, item, request, error);
        if (result != RESULT_OK)
            return result;
    }
    return suppressed_read(suppressed, tokenizer, request, error);
}
