/*
 * The slow part of a request, as one pure function: parse, render, tokenize, check against the
 * context.
 *
 * The template gets the variables of Hugging Face's apply_chat_template (messages, tools,
 * add_generation_prompt, bos_token, eos_token). Only the template's own text and these two tokens
 * may become special tokens, so that no message can end a turn or speak as another role. Image
 * placeholders replace the template's markers before the text becomes tokens (image_prepare.h), and
 * images are decoded last, when the rest is known to be valid.
 */
#include "frontend/api/generation/generation_prepare.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/context_error.h"
#include "frontend/api/generation/final_message.h"
#include "frontend/api/generation/forced_prepare.h"
#include "frontend/api/generation/grammar_prepare.h"
#include "frontend/api/generation/image_prepare.h"
#include "frontend/api/generation/prompt_truncate.h"
#include "frontend/api/generation/raw_prompts.h"
#include "frontend/api/generation/request_fields.h"
#include "frontend/assets/vision_assets.h"
#include "frontend/prompt/generic_tools.h"
#include "proto/hf_config.h"

static enum result cancelled_error(struct api_error *error)
{
    return api_error_set(error, RESULT_CANCELLED, 503, NULL, "the request was cancelled");
}

/* Adds the request's own variables. They never replace existing ones: bos_token and eos_token are
 * trusted. */
static bool variables_add_own(cJSON *variables, const struct generation_request *request)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, request->template_variables)
    {
        if (cJSON_GetObjectItemCaseSensitive(variables, item->string))
            continue;
        cJSON *copy = cJSON_Duplicate(item, true);
        if (!cJSON_AddItemToObject(variables, item->string, copy)) {
            cJSON_Delete(copy);
            return false;
        }
    }
    return true;
}

/* Adds the template variables that switch thinking, unless the client set them. */
static bool variables_add_thinking(cJSON *variables, const struct generation_request *request)
{
    static const char *const names[] = {"enable_thinking", "thinking"};
    for (size_t i = 0; request->thinking != THINKING_UNSET && i < 2; i++) {
        if (!cJSON_GetObjectItemCaseSensitive(variables, names[i]) &&
            !cJSON_AddBoolToObject(variables, names[i], request->thinking == THINKING_ON))
            return false;
    }
    return true;
}

/* The template knows no tools: the messages describe them. */
static bool tools_are_generic(const struct model_assets *assets)
{
    return assets->formats.tools && tool_format_is_generic(assets->formats.tools);
}

/* The template's variables. Messages and tools are referenced, not copied. */
static cJSON *template_variables(const struct model_assets *assets,
                                 const struct generation_request *request)
{
    bool has_tools =
        request->tools && request->tool_choice != TOOL_CHOICE_NONE && !tools_are_generic(assets);
    bool opens_answer = !request->continue_final_message && !request->no_generation_prompt;
    cJSON *variables = cJSON_CreateObject();
    if (!variables)
        return NULL;
    if (!cJSON_AddItemReferenceToObject(variables, "messages", request->messages) ||
        !cJSON_AddBoolToObject(variables, "add_generation_prompt", opens_answer) ||
        !(has_tools ? cJSON_AddItemReferenceToObject(variables, "tools", request->tools)
                    : cJSON_AddNullToObject(variables, "tools") != NULL) ||
        !cJSON_AddStringToObject(variables, "bos_token", assets->bos_text) ||
        !cJSON_AddStringToObject(variables, "eos_token", assets->eos_text) ||
        !variables_add_own(variables, request) || !variables_add_thinking(variables, request)) {
        cJSON_Delete(variables);
        return NULL;
    }
    return variables;
}

enum result generation_prepare_render(const struct parse_context *context,
                                      const struct generation_request *request, int64_t now_unix_s,
                                      struct chat_prompt *prompt, struct api_error *error)
{
    static const char *const trusted[] = {"bos_token", "eos_token", NULL};
    const struct model_assets *assets = context->assets;
    if (!assets->chat_template)
        return api_error_invalid(error, "messages", "the model has no chat template");
    bool has_tools = request->tools && request->tool_choice != TOOL_CHOICE_NONE;
    if (tools_are_generic(assets) &&
        generic_tools_apply(request->messages, has_tools ? request->tools : NULL) != RESULT_OK)
        return api_error_memory(error);
    if (call_form_apply(&assets->call_form, request->messages) != RESULT_OK)
        return api_error_memory(error);
    enum result result = RESULT_OK;
    if (request->continue_final_message)
        result = final_message_check(request->messages, error);
    if (result != RESULT_OK)
        return result;
    if (assets->vision && image_form_apply(&assets->vision->form, request->messages) != RESULT_OK)
        return api_error_memory(error);
    cJSON *variables = template_variables(assets, request);
    if (!variables)
        return api_error_memory(error);
    struct error_text words, retry_words;
    result = chat_template_render(assets->chat_template, variables, trusted, now_unix_s,
                                  context->cancelled, prompt, &words);
    if (result == RESULT_INVALID && call_form_fill_content(request->messages)) {
        chat_prompt_fini(prompt);
        result = chat_template_render(assets->chat_template, variables, trusted, now_unix_s,
                                      context->cancelled, prompt, &retry_words);
    }
    cJSON_Delete(variables);
    if (result == RESULT_OUT_OF_MEMORY)
        return api_error_memory(error);
    if (result == RESULT_CANCELLED)
        return cancelled_error(error);
    if (result != RESULT_OK) {
        (void)api_error_invalid(error, "messages", "the chat template refused: %s", words.text);
        error->code = result == RESULT_TOO_LARGE ? "template_too_expensive" : NULL;
        return RESULT_INVALID;
    }
    if (request->continue_final_message)
        return final_message_cut(request->messages, prompt, error);
    return RESULT_OK;
}

/* If the template writes bos itself, the tokenizer must not add a second one. */
static bool needs_bos(const struct model_assets *assets, const struct chat_prompt *prompt)
{
    size_t length = strlen(assets->bos_text);
    return tokenizer_adds_bos(assets->tokenizer) && tokenizer_bos_token(assets->tokenizer) >= 0 &&
           !(length > 0 && prompt->text_bytes >= length &&
             memcmp(prompt->text, assets->bos_text, length) == 0);
}

/* Puts the bos token into an empty list. */
static enum result prompt_begin(const struct model_assets *assets, struct token_list *tokens)
{
    tokens->ids = malloc(16 * sizeof *tokens->ids);
    if (!tokens->ids)
        return RESULT_OUT_OF_MEMORY;
    tokens->capacity = 16;
    tokens->ids[tokens->count++] = (uint32_t)tokenizer_bos_token(assets->tokenizer);
    return RESULT_OK;
}

/* Encodes fewer than `bound` tokens. Tokens beyond it are counted for the error. */
static enum result prompt_encode(const struct parse_context *context,
                                 const struct chat_prompt *prompt, uint32_t bound,
                                 struct token_list *tokens, struct api_error *error)
{
    const struct model_assets *assets = context->assets;
    enum result result = RESULT_OK;
    if (needs_bos(assets, prompt))
        result = prompt_begin(assets, tokens);
    if (result == RESULT_OK)
        result = tokenizer_encode(assets->tokenizer, prompt->spans, prompt->span_count,
                                  LIMIT_CONTEXT_TOKENS, context->cancelled, tokens);
    if (result == RESULT_CANCELLED)
        return cancelled_error(error);
    if (result == RESULT_OUT_OF_MEMORY)
        return api_error_memory(error);
    if (result == RESULT_TOO_LARGE || tokens->count >= bound)
        return context_error_set(error, "messages",
                                 &(struct context_overflow){.prompt_tokens = tokens->count,
                                                            .most_tokens = bound,
                                                            .at_least = result != RESULT_OK});
    if (result != RESULT_OK)
        return api_error_invalid(error, "messages", "the tokenizer cannot split this text");
    if (tokens->count == 0)
        return api_error_invalid(error, "messages", "the rendered prompt is empty");
    return RESULT_OK;
}

/* `answers` false: the prompt is only inspected, and may be longer than the context. */
static enum result messages_encode(const struct parse_context *context, bool answers,
                                   int64_t now_unix_s, struct prepared_generation *prepared,
                                   struct api_error *error)
{
    const struct model_assets *assets = context->assets;
    struct chat_prompt prompt = {0};
    struct image_work *work = NULL;
    uint32_t bound = answers ? assets->context_tokens : LIMIT_CONTEXT_TOKENS;
    enum result result = image_prepare_read(context, &prepared->request, bound, &work, error);
    if (result == RESULT_OK)
        result = generation_prepare_render(context, &prepared->request, now_unix_s, &prompt, error);
    if (result == RESULT_OK && work)
        result = image_prepare_expand(work, &prompt, error);
    if (result == RESULT_OK)
        result = prompt_encode(context, &prompt, bound, &prepared->prompt, error);
    if (result == RESULT_OK && work)
        result = image_prepare_find(work, &prepared->prompt, error);
    if (result == RESULT_OK)
        result = forced_prepare(assets, &prompt, prepared, error);
    if (result == RESULT_OK && work && answers)
        result = image_prepare_decode(work, &prepared->images, error);
    image_prepare_end(work);
    chat_prompt_fini(&prompt);
    return result;
}

/* The same; if the prompt is too long and the request says so, without the oldest turns. Rendering
 * changes messages, so each attempt begins with the client's. Messages with images are not left
 * out. */
static enum result messages_encode_short(const struct parse_context *context, bool answers,
                                         int64_t now_unix_s, struct prepared_generation *prepared,
                                         struct api_error *error)
{
    struct generation_request *request = &prepared->request;
    cJSON *body = request->body, *kept = NULL;
    bool truncates = answers && request->truncates && request->images.count == 0;
    uint32_t most = generation_prepare_max_tokens(context->assets);
    enum result result = RESULT_OK;
    for (uint32_t i = 0; i < LIMIT_TRUNCATIONS; i++) {
        if (truncates && !(kept = cJSON_Duplicate(request->messages, true)))
            return api_error_memory(error);
        result = messages_encode(context, answers, now_unix_s, prepared, error);
        uint32_t asked = request->max_new_tokens > 0 ? request->max_new_tokens : 1;
        bool fits = result == RESULT_OK && prepared->prompt.count + asked <= most;
        if (!truncates || fits || i + 1 == LIMIT_TRUNCATIONS ||
            (result != RESULT_OK && result != RESULT_CONTEXT_EXCEEDED))
            break;
        struct context_overflow overflow = {.prompt_tokens = prepared->prompt.count,
                                            .most_tokens = most};
        if (result != RESULT_OK)
            overflow.prompt_tokens = error->overflow.prompt_tokens;
        if (asked >= most || !prompt_truncate(kept, &overflow, asked))
            break;
        cJSON_ReplaceItemInObjectCaseSensitive(body, "messages", kept);
        request->messages = kept;
        kept = NULL;
        token_list_fini(&prepared->prompt);
        prepared->prompt = (struct token_list){0};
        free(prepared->forced.ids);
        prepared->forced = (struct forced_tokens){0};
    }
    cJSON_Delete(kept);
    return result;
}

/* RESULT_CONTEXT_EXCEEDED, a 400, if the prompt and the requested answer exceed the operator's
 * limit on a sequence (--max-kv-size). */
static enum result check_bound(const struct model_assets *assets,
                               const struct prepared_generation *prepared, struct api_error *error)
{
    uint32_t asked = prepared->request.max_new_tokens > 0 ? prepared->request.max_new_tokens : 1;
    size_t longest = prepared->prompt.count;
    for (uint32_t i = 0; i < prepared->more_prompt_count; i++) {
        if (prepared->more_prompts[i].count > longest)
            longest = prepared->more_prompts[i].count;
    }
    if (assets->max_kv_tokens == 0 || longest + asked <= assets->max_kv_tokens)
        return RESULT_OK;
    return context_error_set(
        error, prepared->request.prompts ? "prompt" : "messages",
        &(struct context_overflow){.prompt_tokens = longest,
                                   .answer_tokens = longest < assets->max_kv_tokens ? asked : 0,
                                   .most_tokens = assets->max_kv_tokens,
                                   .option = "--max-kv-size"});
}

/* Bounds the log-probabilities of the prompts, all answers together. */
static enum result check_scores(const struct prepared_generation *prepared, struct api_error *error)
{
    const struct generation_request *request = &prepared->request;
    if (!request->scores_prompt)
        return RESULT_OK;
    if (image_set_count(prepared->images) > 0)
        return api_error_invalid(error, "prompt_logprobs",
                                 "prompt_logprobs and images cannot be combined");
    uint64_t tokens = prepared->prompt.count;
    for (uint32_t i = 0; i < prepared->more_prompt_count; i++)
        tokens += prepared->more_prompts[i].count;
    uint64_t answers = request->prompts && request->choices > 1 ? request->choices : 1;
    uint64_t scores = tokens * answers * (1 + request->top_prompt_logprobs);
    if (scores <= LIMIT_PROMPT_SCORES)
        return RESULT_OK;
    return api_error_invalid(error, request->prompt_logprobs ? "prompt_logprobs" : "echo",
                             "%llu log-probabilities of prompt tokens are more than %u: ask for "
                             "fewer alternatives or shorter prompts",
                             (unsigned long long)scores, LIMIT_PROMPT_SCORES);
}

/* Names the prompt and sends the error as the API does. */
static void overflow_adapt(const struct api_format *format,
                           const struct generation_request *request, struct api_error *error)
{
    if (format->prompt_field && strcmp(error->param, "messages") == 0)
        snprintf(error->param, sizeof error->param, "%s", format->prompt_field);
    error->in_stream = request->stream && format->reply_refuse;
}

/* Forces the first token of the first answer; generation_share.c does it for the others. */
static enum result first_token_force(struct prepared_generation *prepared, struct api_error *error)
{
    if (prepared->request.first_token_count == 0)
        return RESULT_OK;
    prepared->forced.ids = malloc(sizeof *prepared->forced.ids);
    if (!prepared->forced.ids)
        return api_error_memory(error);
    prepared->forced.ids[0] = prepared->request.first_tokens[0];
    prepared->forced.prefix_count = 1;
    return RESULT_OK;
}

/* A model gives either text or vectors. */
static enum result check_pooling(const struct model_assets *assets,
                                 const struct prepared_generation *prepared,
                                 struct api_error *error)
{
    bool pools = assets->pooling != POOLING_OFF;
    if (pools == prepared->request.pools)
        return RESULT_OK;
    if (pools && hf_config_is_encoder(assets->family))
        return api_error_set(error, RESULT_UNSUPPORTED, 400, "generation_unsupported",
                             "this model is an encoder: it gives embeddings and generates no text");
    if (pools)
        return api_error_set(error, RESULT_UNSUPPORTED, 501, "generation_unsupported",
                             "this model is served for embeddings and generates no text; --pooling "
                             "off serves text");
    return api_error_set(error, RESULT_UNSUPPORTED, 501, "embeddings_unsupported",
                         "this model is served for text: start the server with --pooling");
}

/* A model of speech answers no text, and no other model transcribes. */
static enum result check_speech(const struct api_format *format, const struct model_assets *assets,
                                struct api_error *error)
{
    if ((assets->speech != NULL) == (format->prepare != NULL))
        return RESULT_OK;
    return assets->speech
               ? api_error_set(error, RESULT_UNSUPPORTED, 400, "generation_unsupported",
                               "this model transcribes speech: use /v1/audio/transcriptions")
               : api_error_set(error, RESULT_UNSUPPORTED, 400, "transcription_unsupported",
                               "this model transcribes no speech");
}

enum result generation_prepare(const struct api_format *format, const struct parse_context *context,
                               const char *body, size_t body_bytes, int64_t now_unix_s,
                               struct prepared_generation *prepared, struct api_error *error)
{
    *prepared = (struct prepared_generation){0};
    const struct model_assets *assets = context->assets;
    bool answers = format->reply_create != NULL;
    enum result result = format->parse(context, body, body_bytes, &prepared->request, error);
    if (result == RESULT_OK)
        result = request_fields_take_adapter(prepared->request.body, assets,
                                             &prepared->request.adapter, error);
    if (result == RESULT_OK && answers)
        result = check_pooling(assets, prepared, error);
    if (result == RESULT_OK && answers)
        result = grammar_prepare(context, &prepared->request, error);
    if (result == RESULT_OK && answers)
        result = check_speech(format, assets, error);
    if (result == RESULT_OK && format->prepare)
        result = format->prepare(context, prepared, error);
    else if (result == RESULT_OK)
        result = prepared->request.prompts
                     ? raw_prompts_encode(context, prepared, error)
                     : messages_encode_short(context, answers, now_unix_s, prepared, error);
    if (result == RESULT_OK)
        result = first_token_force(prepared, error);
    if (result == RESULT_OK && answers)
        result = check_bound(assets, prepared, error);
    if (result == RESULT_OK && answers)
        result = check_scores(prepared, error);
    if (result == RESULT_CONTEXT_EXCEEDED)
        overflow_adapt(format, &prepared->request, error);
    if (result != RESULT_OK) {
        prepared_generation_fini(prepared);
        return result;
    }
    if (answers && !format->prepare)
        prepared->max_new_tokens =
            prepared_generation_room(generation_prepare_max_tokens(assets), prepared->prompt.count,
                                     prepared->request.max_new_tokens);
    if (format->keep)
        format->keep(context, body, body_bytes, now_unix_s, &prepared->request);
    return RESULT_OK;
}

uint32_t generation_prepare_max_tokens(const struct model_assets *assets)
{
    uint32_t bound = assets->max_kv_tokens;
    return bound > 0 && bound < assets->context_tokens ? bound : assets->context_tokens;
}
