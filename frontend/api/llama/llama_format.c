/*
 * One object for each prompt, streamed as events or whole; a list if there are several prompts.
 *
 * A stream has an event for each token and a last one with everything else; it has no "[DONE]".
 * `response_fields` is applied to the finished object: "a/b" takes member b of a.
 */
#include "frontend/api/llama/llama_format.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/generation_share.h"
#include "frontend/api/llama/llama_choice.h"
#include "frontend/api/llama/llama_settings.h"
#include "frontend/reply/reply_text.h"
#include "proto/must.h"

struct api_reply {
    bool stream;
    struct llama_state state;    /* own copies of its lists */
    struct text_buffer model;    /* JSON */
    struct text_buffer settings; /* JSON */
    uint32_t choice_count;
    struct llama_choice choices[]; /* [choice_count] */
};

static struct api_reply *create(const struct reply_config *config)
{
    const struct prepared_generation *prepared = config->prepared;
    const struct generation_request *request = &prepared->request;
    const struct llama_state *state = request->own.state;
    const char *model = reply_config_model(config);
    uint32_t count = generation_share_answers(prepared);
    struct api_reply *reply = must_alloc(1, sizeof *reply + count * sizeof reply->choices[0]);
    reply->stream = request->stream;
    reply->state = *state;
    reply->state.stops = NULL;
    reply->state.fields = cJSON_Duplicate(state->fields, true);
    must(reply->state.fields || !state->fields);
    reply->choice_count = count;
    text_buffer_append_json_string(&reply->model, model, strlen(model));
    llama_settings_write(request, state, &reply->settings);
    for (uint32_t i = 0; i < count; i++) {
        struct llama_choice *choice = &reply->choices[i];
        const struct token_list *prompt = generation_share_prompt(prepared, i);
        llama_choice_init(choice, config->assets->tokenizer, request, &reply->state);
        reply_text_write_all(config->assets->tokenizer, prompt, &choice->prompt);
        choice->prompt_tokens = (uint32_t)prompt->count;
    }
    return reply;
}

static void destroy(struct api_reply *reply)
{
    for (uint32_t i = 0; i < reply->choice_count; i++)
        llama_choice_fini(&reply->choices[i]);
    cJSON_Delete(reply->state.fields);
    text_buffer_fini(&reply->model);
    text_buffer_fini(&reply->settings);
    free(reply);
}

/* --- writing --------------------------------------------------------------------------------- */

static void append_all(const struct text_buffer *from, struct text_buffer *out)
{
    out->failed |= from->failed;
    if (from->length > 0)
        text_buffer_append(out, from->bytes, from->length);
}

static void append_string(const struct text_buffer *from, struct text_buffer *out)
{
    out->failed |= from->failed;
    text_buffer_append_json_string(out, from->bytes ? from->bytes : "", from->length);
}

/* {"index":0,"content":"…","tokens":[…],"id_slot":-1,"stop":false,"tokens_predicted":1,
 * "tokens_evaluated":4 */
static void object_open(struct llama_choice *choice, uint32_t index, bool with_tokens, bool stop,
                        struct text_buffer *out)
{
    text_buffer_append_format(out, "{\"index\":%u,\"content\":", index);
    append_string(&choice->text, out);
    text_buffer_append_text(out, ",\"tokens\":[");
    if (with_tokens)
        append_all(&choice->ids, out);
    text_buffer_append_format(out,
                              "],\"id_slot\":-1,\"stop\":%s,\"tokens_predicted\":%u,"
                              "\"tokens_evaluated\":%u",
                              stop ? "true" : "false",
                              choice->state->n_predict == 0 ? 0 : choice->tokens,
                              choice->prompt_tokens);
    if (choice->probs.length > 0) {
        text_buffer_append_text(out, ",\"completion_probabilities\":[");
        append_all(&choice->probs, out);
        text_buffer_append_text(out, "]");
    }
    text_buffer_clear(&choice->text);
    text_buffer_clear(&choice->ids);
    text_buffer_clear(&choice->probs);
}

static void timings_write(const struct llama_choice *choice, struct text_buffer *out)
{
    text_buffer_append_text(out, ",\"timings\":");
    answer_timings_write(&choice->timings, choice->prompt_tokens, choice->cached_tokens, out);
}

static void final_write(struct api_reply *reply, uint32_t index, struct text_buffer *out)
{
    struct llama_choice *choice = &reply->choices[index];
    const char *word = stop_matcher_string(&choice->stops);
    object_open(choice, index, !reply->stream && reply->state.return_tokens, true, out);
    text_buffer_append_text(out, ",\"model\":");
    append_all(&reply->model, out);
    text_buffer_append_text(out, ",\"generation_settings\":");
    append_all(&reply->settings, out);
    text_buffer_append_text(out, ",\"prompt\":");
    append_string(&choice->prompt, out);
    text_buffer_append_format(out,
                              ",\"has_new_line\":%s,\"truncated\":%s,\"stop_type\":\"%s\","
                              "\"stopping_word\":",
                              choice->has_new_line ? "true" : "false",
                              choice->context_full ? "true" : "false",
                              llama_choice_stop_name(choice));
    text_buffer_append_json_string(out, word ? word : "", word ? strlen(word) : 0);
    text_buffer_append_format(out, ",\"tokens_cached\":%u", choice->cached_tokens);
    timings_write(choice, out);
    text_buffer_append_text(out, "}");
}

/* The member that "a/b" names; NULL: there is none. */
static const cJSON *member_find(const cJSON *object, const char *path)
{
    char name[64];
    const char *slash;
    while ((slash = strchr(path, '/')) != NULL) {
        size_t length = (size_t)(slash - path);
        if (length >= sizeof name)
            return NULL;
        memcpy(name, path, length);
        name[length] = '\0';
        object = cJSON_GetObjectItemCaseSensitive(object, name);
        path = slash + 1;
    }
    return cJSON_GetObjectItemCaseSensitive(object, path);
}

/* Writes the finished object, or the members of it that the request names. */
static void result_write(struct api_reply *reply, uint32_t index, struct text_buffer *out)
{
    if (!reply->state.fields) {
        final_write(reply, index, out);
        return;
    }
    struct text_buffer whole = {0};
    final_write(reply, index, &whole);
    cJSON *object = whole.failed ? NULL : cJSON_ParseWithLength(whole.bytes, whole.length);
    const cJSON *path;
    const char *comma = "";
    out->failed |= !object;
    text_buffer_append_text(out, "{");
    cJSON_ArrayForEach(path, reply->state.fields)
    {
        const cJSON *member = member_find(object, path->valuestring);
        char *text = member ? cJSON_PrintUnformatted(member) : NULL;
        if (text) {
            text_buffer_append_text(out, comma);
            text_buffer_append_json_string(out, path->valuestring, strlen(path->valuestring));
            text_buffer_append_text(out, ":");
            text_buffer_append_text(out, text);
            comma = ",";
        }
        cJSON_free(text);
    }
    text_buffer_append_text(out, "}");
    cJSON_Delete(object);
    text_buffer_fini(&whole);
}

/* --- the format ------------------------------------------------------------------------------ */

static void begin(struct api_reply *reply, struct text_buffer *out)
{
    (void)reply;
    (void)out;
}

static bool token(struct api_reply *reply, uint32_t index, const struct reply_token *token,
                  struct text_buffer *out)
{
    struct llama_choice *choice = &reply->choices[index];
    bool ended = llama_choice_push(choice, token);
    if (!reply->stream || choice->ids.length == 0)
        return ended;
    text_buffer_append_text(out, "data: ");
    object_open(choice, index, true, false, out);
    if (reply->state.per_token_times)
        timings_write(choice, out);
    text_buffer_append_text(out, "}\n\n");
    return ended;
}

static void choice_end(struct api_reply *reply, uint32_t index, enum finish_reason finish,
                       struct cached_prompt cached, struct text_buffer *out)
{
    struct llama_choice *choice = &reply->choices[index];
    choice->cached_tokens = cached.tokens;
    llama_choice_end(choice, finish);
    if (!reply->stream)
        return;
    text_buffer_append_text(out, "data: ");
    result_write(reply, index, out);
    text_buffer_append_text(out, "\n\n");
}

static void end(struct api_reply *reply, struct text_buffer *out)
{
    if (reply->stream)
        return;
    bool several = reply->choice_count > 1;
    text_buffer_append_text(out, several ? "[" : "");
    for (uint32_t i = 0; i < reply->choice_count; i++) {
        text_buffer_append_text(out, i > 0 ? "," : "");
        result_write(reply, i, out);
    }
    text_buffer_append_text(out, several ? "]" : "");
}

static void fail(struct api_reply *reply, const struct api_error *error, struct text_buffer *out)
{
    must(reply->stream);
    api_error_write_event(error, out);
}

static void fail_early(const struct reply_refusal *refusal, struct text_buffer *out)
{
    api_error_write_event(refusal->error, out);
}

const struct api_format llama_completion_format = {.id_prefix = "cmpl-",
                                                   .prompt_field = "prompt",
                                                   .parse = llama_request_parse,
                                                   .reply_create = create,
                                                   .reply_destroy = destroy,
                                                   .reply_begin = begin,
                                                   .reply_token = token,
                                                   .reply_choice_end = choice_end,
                                                   .reply_end = end,
                                                   .reply_fail = fail,
                                                   .reply_fail_early = fail_early};

const struct api_format llama_infill_format = {.id_prefix = "infill-",
                                               .prompt_field = "prompt",
                                               .parse = llama_request_parse_infill,
                                               .reply_create = create,
                                               .reply_destroy = destroy,
                                               .reply_begin = begin,
                                               .reply_token = token,
                                               .reply_choice_end = choice_end,
                                               .reply_end = end,
                                               .reply_fail = fail,
                                               .reply_fail_early = fail_early};
