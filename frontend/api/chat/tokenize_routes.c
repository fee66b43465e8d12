/*
 * Each route reads its body, asks the tokenizer or the template, and writes JSON. A chat is read by
 * the reader of chat completions, so the same fields are refused.
 */
#include "frontend/api/chat/tokenize_routes.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/chat/chat_format.h"
#include "frontend/api/generation/generation_prepare.h"
#include "frontend/api/generation/request_fields.h"
#include "frontend/base/utf8_stream.h"

/* The text of some bytes as a JSON string. */
static void text_write(const char *bytes, size_t count, struct text_buffer *out)
{
    struct utf8_stream utf8 = {0};
    struct text_buffer valid = {0};
    utf8_stream_push(&utf8, bytes, count, &valid);
    utf8_stream_finish(&utf8, &valid);
    text_buffer_append_json_string(out, valid.bytes ? valid.bytes : "", valid.length);
    text_buffer_fini(&valid);
}

static void ids_write(const struct token_list *tokens, struct text_buffer *out)
{
    text_buffer_append_text(out, "[");
    for (size_t i = 0; i < tokens->count; i++)
        text_buffer_append_format(out, i > 0 ? ",%u" : "%u", tokens->ids[i]);
    text_buffer_append_text(out, "]");
}

/* --- tokenize -------------------------------------------------------------------------------- */

struct tokenize_options {
    bool adds_bos;
    bool parses_special;
    bool with_strings;
    bool with_pieces;
};

/* Returns `usual` if the field is absent. */
static enum result flag_read(const cJSON *body, const char *name, bool usual, bool *value,
                             struct api_error *error)
{
    enum result result = request_fields_read_bool(body, name, name, value, error);
    if (result == RESULT_OK && !request_fields_member(body, name))
        *value = usual;
    return result;
}

static enum result options_read(const cJSON *body, bool is_content,
                                struct tokenize_options *options, struct api_error *error)
{
    const struct {
        const char *name;
        bool usual;
        bool *value;
    } fields[] = {
        {is_content ? "add_special" : "add_special_tokens", !is_content, &options->adds_bos},
        {"parse_special", true, &options->parses_special},
        {"return_token_strs", false, &options->with_strings},
        {"with_pieces", false, &options->with_pieces},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        enum result result =
            flag_read(body, fields[i].name, fields[i].usual, fields[i].value, error);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

static enum result text_tokenize(const struct parse_context *context, const char *text,
                                 const struct tokenize_options *options, struct token_list *tokens,
                                 const char *param, struct api_error *error)
{
    const struct model_assets *assets = context->assets;
    int32_t bos = tokenizer_bos_token(assets->tokenizer);
    if (options->adds_bos && tokenizer_adds_bos(assets->tokenizer) && bos >= 0) {
        tokens->ids = malloc(sizeof *tokens->ids);
        if (!tokens->ids)
            return api_error_memory(error);
        tokens->capacity = tokens->count = 1;
        tokens->ids[0] = (uint32_t)bos;
    }
    struct prompt_span span = {
        .text = text, .text_bytes = strlen(text), .trusted = options->parses_special};
    enum result result = tokenizer_encode(assets->tokenizer, &span, 1, LIMIT_CONTEXT_TOKENS,
                                          context->cancelled, tokens);
    if (result == RESULT_CANCELLED)
        return api_error_set(error, result, 503, NULL, "the request was cancelled");
    if (result == RESULT_OUT_OF_MEMORY)
        return api_error_memory(error);
    if (result != RESULT_OK)
        return api_error_invalid(error, param, "the text has more than %u tokens",
                                 LIMIT_CONTEXT_TOKENS);
    return RESULT_OK;
}

/* The reply in vLLM's shape. */
static void counted_write(const struct model_assets *assets, const struct token_list *tokens,
                          bool with_strings, struct text_buffer *out)
{
    text_buffer_append_format(out, "{\"count\":%zu,\"max_model_len\":%u,\"tokens\":", tokens->count,
                              assets->context_tokens);
    ids_write(tokens, out);
    text_buffer_append_text(out, ",\"token_strs\":");
    text_buffer_append_text(out, with_strings ? "[" : "null");
    for (size_t i = 0; with_strings && i < tokens->count; i++) {
        const char *bytes;
        size_t count;
        tokenizer_token_bytes(assets->tokenizer, tokens->ids[i], &bytes, &count);
        text_buffer_append_text(out, i > 0 ? "," : "");
        text_write(bytes, count, out);
    }
    text_buffer_append_text(out, with_strings ? "]}" : "}");
}

/* llama.cpp's shape: a piece that is not valid text is a list of its bytes. */
static void piece_write(const char *bytes, size_t count, struct text_buffer *out)
{
    struct utf8_stream utf8 = {0};
    struct text_buffer valid = {0};
    utf8_stream_push(&utf8, bytes, count, &valid);
    bool is_text = utf8.pending_bytes == 0 && valid.length == count &&
                   (count == 0 || memcmp(valid.bytes, bytes, count) == 0);
    text_buffer_fini(&valid);
    if (is_text) {
        text_buffer_append_json_string(out, bytes, count);
        return;
    }
    text_buffer_append_text(out, "[");
    for (size_t i = 0; i < count; i++)
        text_buffer_append_format(out, i > 0 ? ",%u" : "%u", (unsigned)(unsigned char)bytes[i]);
    text_buffer_append_text(out, "]");
}

static void pieces_write(const struct model_assets *assets, const struct token_list *tokens,
                         bool with_pieces, struct text_buffer *out)
{
    text_buffer_append_text(out, "{\"tokens\":");
    if (!with_pieces)
        ids_write(tokens, out);
    for (size_t i = 0; with_pieces && i < tokens->count; i++) {
        const char *bytes;
        size_t count;
        tokenizer_token_bytes(assets->tokenizer, tokens->ids[i], &bytes, &count);
        text_buffer_append_format(out, "%s{\"id\":%u,\"piece\":", i > 0 ? "," : "[",
                                  tokens->ids[i]);
        piece_write(bytes, count, out);
        text_buffer_append_text(out, "}");
    }
    if (with_pieces)
        text_buffer_append_text(out, tokens->count > 0 ? "]" : "[]");
    text_buffer_append_text(out, "}");
}

static enum result text_answer(const struct parse_context *context, const cJSON *body,
                               struct text_buffer *reply, struct api_error *error)
{
    const struct model_assets *assets = context->assets;
    struct tokenize_options options;
    struct token_list tokens = {0};
    bool is_content = request_fields_member(body, "content") != NULL;
    const char *name = is_content ? "content" : "prompt";
    const cJSON *text = request_fields_member(body, name);
    if (!cJSON_IsString(text))
        return api_error_invalid(error, name,
                                 "a body needs a string 'prompt' or 'content', or "
                                 "'messages'");
    enum result result = options_read(body, is_content, &options, error);
    if (result == RESULT_OK)
        result = text_tokenize(context, text->valuestring, &options, &tokens, name, error);
    if (result == RESULT_OK && is_content)
        pieces_write(assets, &tokens, options.with_pieces, reply);
    else if (result == RESULT_OK)
        counted_write(assets, &tokens, options.with_strings, reply);
    token_list_fini(&tokens);
    return result;
}

enum result tokenize_routes_tokenize(const struct parse_context *context, const char *json,
                                     size_t json_bytes, int64_t now_unix_s,
                                     struct text_buffer *reply, struct api_error *error)
{
    cJSON *body;
    bool with_strings = false;
    enum result result = request_fields_read_body(json, json_bytes, &body, error);
    if (result != RESULT_OK)
        return result;
    result = request_fields_check_model(body, context->assets, error);
    bool is_chat = request_fields_member(body, "messages") != NULL;
    if (result == RESULT_OK && !is_chat)
        result = text_answer(context, body, reply, error);
    if (result == RESULT_OK && is_chat)
        result = flag_read(body, "return_token_strs", false, &with_strings, error);
    cJSON_Delete(body);
    if (result != RESULT_OK || !is_chat)
        return result;
    const struct api_format counting = {.parse = chat_format.parse};
    struct prepared_generation prepared;
    result = generation_prepare(&counting, context, json, json_bytes, now_unix_s, &prepared, error);
    if (result != RESULT_OK)
        return result;
    counted_write(context->assets, &prepared.prompt, with_strings, reply);
    prepared_generation_fini(&prepared);
    return RESULT_OK;
}

/* --- detokenize, apply-template -------------------------------------------------------------- */

static enum result tokens_decode(const struct model_assets *assets, const cJSON *body,
                                 struct text_buffer *text, struct api_error *error)
{
    const cJSON *tokens = request_fields_member(body, "tokens");
    uint32_t vocab_tokens = tokenizer_vocab_tokens(assets->tokenizer);
    if (!cJSON_IsArray(tokens))
        return api_error_invalid(error, "tokens", "tokens must be a list of token ids");
    bool at_start = true;
    const cJSON *item;
    cJSON_ArrayForEach(item, tokens)
    {
        const char *bytes;
        size_t count;
        double id = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (!(id >= 0 && id < vocab_tokens && floor(id) == id))
            return api_error_invalid(error, "tokens", "a token id must be an integer below %u",
                                     vocab_tokens);
        tokenizer_token_bytes(assets->tokenizer, (uint32_t)id, &bytes, &count);
        bool artefact =
            at_start && count > 0 && bytes[0] == ' ' && tokenizer_strips_space(assets->tokenizer);
        if (!tokenizer_is_special(assets->tokenizer, (uint32_t)id) && count > 0)
            at_start = false;
        text_buffer_append(text, bytes + artefact, count - artefact);
    }
    return RESULT_OK;
}

enum result tokenize_routes_detokenize(const struct parse_context *context, const char *json,
                                       size_t json_bytes, int64_t now_unix_s,
                                       struct text_buffer *reply, struct api_error *error)
{
    (void)now_unix_s;
    cJSON *body;
    struct text_buffer text = {0};
    enum result result = request_fields_read_body(json, json_bytes, &body, error);
    if (result != RESULT_OK)
        return result;
    result = request_fields_check_model(body, context->assets, error);
    if (result == RESULT_OK)
        result = tokens_decode(context->assets, body, &text, error);
    if (result == RESULT_OK && text.failed)
        result = api_error_memory(error);
    if (result == RESULT_OK) {
        text_buffer_append_text(reply, "{\"prompt\":");
        text_write(text.bytes ? text.bytes : "", text.length, reply);
        text_buffer_append_text(reply, ",\"content\":");
        text_write(text.bytes ? text.bytes : "", text.length, reply);
        text_buffer_append_text(reply, "}");
    }
    text_buffer_fini(&text);
    cJSON_Delete(body);
    return result;
}

enum result tokenize_routes_apply_template(const struct parse_context *context, const char *json,
                                           size_t json_bytes, int64_t now_unix_s,
                                           struct text_buffer *reply, struct api_error *error)
{
    struct generation_request request;
    struct chat_prompt prompt = {0};
    enum result result = chat_format.parse(context, json, json_bytes, &request, error);
    if (result != RESULT_OK)
        return result;
    result = generation_prepare_render(context, &request, now_unix_s, &prompt, error);
    if (result == RESULT_OK) {
        text_buffer_append_text(reply, "{\"prompt\":");
        text_write(prompt.text, prompt.text_bytes, reply);
        text_buffer_append_text(reply, "}");
    }
    chat_prompt_fini(&prompt);
    generation_request_fini(&request);
    return result;
}
