/*
 * The model reads one pair and answers "yes" or "no"; its score is the probability of "yes" of
 * these two. The prompt is that of Qwen3-Reranker's model card, and each pair is asked twice, with
 * either word as a forced answer, so that both log-probabilities are exact.
 *
 * A cross-encoder reads the pair between its special tokens, and its vector is the logit.
 *
 * Special tokens stand in the prompt as ids; nothing in a client's text becomes one.
 */
#include "frontend/api/pooling/rerank_request.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/field_table.h"
#include "frontend/api/generation/request_fields.h"

#define DEFAULT_TASK "Given a web search query, retrieve relevant passages that answer the query"
#define JUDGE                                                                                      \
    "system\nJudge whether the Document meets the requirements based on the Query and the "        \
    "Instruct provided. Note that the answer can only be \"yes\" or \"no\"."

static void state_destroy(void *given)
{
    struct rerank_state *state = given;
    cJSON_Delete(state->texts);
    free(state);
}

/* --- prompts --------------------------------------------------------------------------------- */

enum rerank_token { TURN_BEGIN, TURN_END, THINK_BEGIN, THINK_END, WORD_YES, WORD_NO, TOKEN_COUNT };

static const char *const token_texts[TOKEN_COUNT] = {
    [TURN_BEGIN] = "<|im_start|>", [TURN_END] = "<|im_end|>", [THINK_BEGIN] = "<think>",
    [THINK_END] = "</think>",      [WORD_YES] = "yes",        [WORD_NO] = "no"};

static enum result tokens_find(const struct model_assets *assets, int32_t ids[TOKEN_COUNT],
                               struct api_error *error)
{
    if (!assets->reranks)
        return api_error_set(error, RESULT_UNSUPPORTED, 501, "rerank_unsupported",
                             "this model is not served as a reranker: start the server with "
                             "--reranking");
    for (size_t i = 0; i < TOKEN_COUNT; i++) {
        ids[i] = tokenizer_find_token(assets->tokenizer, token_texts[i], strlen(token_texts[i]));
        if (ids[i] < 0)
            return api_error_set(error, RESULT_UNSUPPORTED, 501, "rerank_unsupported",
                                 "the model is no reranker of a known kind: its vocabulary has no "
                                 "token %s",
                                 token_texts[i]);
    }
    return RESULT_OK;
}

/* Ids and texts of the prompt about one pair. NULL: out of memory. */
static cJSON *prompt_make(const int32_t ids[TOKEN_COUNT], const char *task, const char *query,
                          const char *document)
{
    struct text_buffer asked = {0};
    text_buffer_append_text(&asked, "user\n<Instruct>: ");
    text_buffer_append_text(&asked, task);
    text_buffer_append_text(&asked, "\n<Query>: ");
    text_buffer_append_text(&asked, query);
    text_buffer_append_text(&asked, "\n<Document>: ");
    text_buffer_append_text(&asked, document);
    cJSON *list = asked.failed ? NULL : cJSON_CreateArray();
    const struct {
        int32_t id; /* -1: the text */
        const char *text;
    } parts[] = {
        {ids[TURN_BEGIN], NULL}, {-1, JUDGE},         {ids[TURN_END], NULL},    {-1, "\n"},
        {ids[TURN_BEGIN], NULL}, {-1, asked.bytes},   {ids[TURN_END], NULL},    {-1, "\n"},
        {ids[TURN_BEGIN], NULL}, {-1, "assistant\n"}, {ids[THINK_BEGIN], NULL}, {-1, "\n\n"},
        {ids[THINK_END], NULL},  {-1, "\n\n"}};
    bool good = list != NULL;
    for (size_t i = 0; good && i < sizeof parts / sizeof parts[0]; i++)
        good = cJSON_AddItemToArray(list, parts[i].text ? cJSON_CreateString(parts[i].text)
                                                        : cJSON_CreateNumber(parts[i].id));
    text_buffer_fini(&asked);
    if (good)
        return list;
    cJSON_Delete(list);
    return NULL;
}

/* The special tokens of a pair. */
struct pair_marks {
    int32_t first; /* -1: none, like tail */
    uint32_t middle[PAIR_MIDDLE_TOKENS_MAX];
    uint32_t middle_count;
    int32_t tail;
};

static enum result marks_find(const struct model_assets *assets, struct pair_marks *marks,
                              struct generation_request *request, struct api_error *error)
{
    bool segments;
    const struct tokenizer *tokenizer = assets->tokenizer;
    marks->middle_count = tokenizer_pair_middle(tokenizer, marks->middle, &segments);
    marks->first = tokenizer_adds_bos(tokenizer) ? tokenizer_bos_token(tokenizer) : -1;
    marks->tail = tokenizer_tail_token(tokenizer);
    if (marks->middle_count == 0)
        return api_error_set(error, RESULT_UNSUPPORTED, 501, "rerank_unsupported",
                             "tokenizer.json does not say how a pair of texts is written");
    request->separator = segments ? 1 + marks->middle[marks->middle_count - 1] : 0;
    return RESULT_OK;
}

/* Ids and texts of a pair. NULL: out of memory. */
static cJSON *pair_make(const struct pair_marks *marks, const char *query, const char *document)
{
    cJSON *list = cJSON_CreateArray();
    bool good = list != NULL;
    if (marks->first >= 0)
        good = good && cJSON_AddItemToArray(list, cJSON_CreateNumber(marks->first));
    good = good && cJSON_AddItemToArray(list, cJSON_CreateString(query));
    for (uint32_t i = 0; i < marks->middle_count; i++)
        good = good && cJSON_AddItemToArray(list, cJSON_CreateNumber(marks->middle[i]));
    good = good && cJSON_AddItemToArray(list, cJSON_CreateString(document));
    if (marks->tail >= 0)
        good = good && cJSON_AddItemToArray(list, cJSON_CreateNumber(marks->tail));
    if (good)
        return list;
    cJSON_Delete(list);
    return NULL;
}

static void scores_ask(struct generation_request *request)
{
    request->pools = true;
    request->choices = 1;
    request->ignore_end = true;
}

static void words_ask(const int32_t ids[TOKEN_COUNT], struct generation_request *request)
{
    request->choices = 2;
    request->first_tokens[0] = (uint32_t)ids[WORD_YES];
    request->first_tokens[1] = (uint32_t)ids[WORD_NO];
    request->first_token_count = 2;
    request->logprobs = true;
}

/* `queries`: one text for all documents, or as many texts. */
static enum result pairs_make(const struct parse_context *context, const cJSON *queries,
                              const char *task, struct generation_request *request,
                              struct api_error *error)
{
    struct rerank_state *state = request->own.state;
    int32_t ids[TOKEN_COUNT];
    struct pair_marks marks;
    state->classifies = context->assets->classifies;
    enum result result = state->classifies ? marks_find(context->assets, &marks, request, error)
                                           : tokens_find(context->assets, ids, error);
    if (result != RESULT_OK)
        return result;
    cJSON *prompts = cJSON_CreateArray();
    const cJSON *query = cJSON_IsArray(queries) ? queries->child : queries;
    bool good = prompts != NULL;
    for (const cJSON *text = state->texts->child; good && text; text = text->next) {
        cJSON *prompt = state->classifies
                            ? pair_make(&marks, query->valuestring, text->valuestring)
                            : prompt_make(ids, task, query->valuestring, text->valuestring);
        good = cJSON_AddItemToArray(prompts, prompt);
        if (cJSON_IsArray(queries) && query->next)
            query = query->next;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(request->body, "prompts");
    if (!good || !cJSON_AddItemToObject(request->body, "prompts", prompts)) {
        cJSON_Delete(prompts);
        return api_error_memory(error);
    }
    request->prompts = prompts;
    request->prompts_mixed = true;
    if (state->classifies)
        scores_ask(request);
    else
        words_ask(ids, request);
    request->max_new_tokens = 1;
    request->sampling = sampling_params_default();
    request->thinking_budget = THINKING_BUDGET_NONE;
    return RESULT_OK;
}

/* --- fields ---------------------------------------------------------------------------------- */

/* Copies a text, a list of texts, or a list of {"text": …}. */
static enum result texts_take(const cJSON *given, const char *name, cJSON **texts,
                              struct api_error *error)
{
    const cJSON *item = cJSON_IsArray(given) ? given->child : given;
    uint32_t count = 0;
    *texts = cJSON_CreateArray();
    for (; item; item = cJSON_IsArray(given) ? item->next : NULL) {
        const cJSON *text =
            cJSON_IsObject(item) ? cJSON_GetObjectItemCaseSensitive(item, "text") : item;
        if (!cJSON_IsString(text))
            return api_error_invalid(error, name, "%s must be texts", name);
        if (++count > LIMIT_PROMPTS)
            return api_error_invalid(error, name, "more than %u texts", LIMIT_PROMPTS);
        if (!cJSON_AddItemToArray(*texts, cJSON_CreateString(text->valuestring)))
            return api_error_memory(error);
    }
    return count > 0 ? RESULT_OK : api_error_invalid(error, name, "%s must not be empty", name);
}

/* True or false; `usual` if absent. */
static enum result flag_read(const cJSON *body, const char *name, bool usual, bool *value,
                             struct api_error *error)
{
    enum result result = request_fields_read_bool(body, name, name, value, error);
    if (result == RESULT_OK && !request_fields_member(body, name))
        *value = usual;
    return result;
}

static enum result task_read(const cJSON *body, const char **task, struct api_error *error)
{
    static const char *const names[] = {"instruction", "instruct"};
    *task = NULL;
    for (size_t i = 0; i < 2 && !*task; i++) {
        enum result result = request_fields_read_string(body, names[i], 8192, task, error);
        if (result != RESULT_OK)
            return result;
    }
    if (!*task)
        *task = DEFAULT_TASK;
    return RESULT_OK;
}

static enum result rerank_read(const struct parse_context *context,
                               struct generation_request *request, struct api_error *error)
{
    const cJSON *body = request->body;
    struct rerank_state *state = request->own.state;
    const cJSON *query = request_fields_member(body, "query");
    const char *task;
    bool present, ignored;
    int64_t top_n = 0;
    if (!cJSON_IsString(query))
        return api_error_invalid(error, "query", "query must be a string");
    state->tei = cJSON_GetObjectItemCaseSensitive(body, "texts") != NULL;
    const char *name = state->tei ? "texts" : "documents";
    const cJSON *documents = cJSON_GetObjectItemCaseSensitive(body, name);
    if (!cJSON_IsArray(documents))
        return api_error_invalid(error, name, "%s must be a list of texts", name);
    enum result result = texts_take(documents, name, &state->texts, error);
    if (result == RESULT_OK)
        result = request_fields_read_integer(body, "top_n", 1, 1u << 20, &present, &top_n, error);
    state->top_n = (uint32_t)top_n;
    if (result == RESULT_OK)
        result = flag_read(body, state->tei ? "return_text" : "return_documents", !state->tei,
                           &state->return_documents, error);
    if (result == RESULT_OK)
        result = flag_read(body, "raw_scores", false, &state->raw, error);
    if (result == RESULT_OK)
        result = flag_read(body, "truncate", false, &ignored, error);
    if (result == RESULT_OK)
        result = task_read(body, &task, error);
    return result == RESULT_OK ? pairs_make(context, query, task, request, error) : result;
}

/* `text_1` and `text_2`: one text and several, or as many of each. */
static enum result score_read(const struct parse_context *context,
                              struct generation_request *request, struct api_error *error)
{
    const cJSON *body = request->body;
    struct rerank_state *state = request->own.state;
    const cJSON *first = request_fields_member(body, "text_1");
    const cJSON *second = request_fields_member(body, "text_2");
    cJSON *queries = NULL;
    const char *task;
    state->scores = true;
    enum result result = first ? texts_take(first, "text_1", &queries, error)
                               : api_error_invalid(error, "text_1", "text_1 is missing");
    if (result == RESULT_OK)
        result = second ? texts_take(second, "text_2", &state->texts, error)
                        : api_error_invalid(error, "text_2", "text_2 is missing");
    if (result == RESULT_OK && queries->child->next &&
        cJSON_GetArraySize(queries) != cJSON_GetArraySize(state->texts))
        result =
            api_error_invalid(error, "text_2", "text_1 must be one text, or as many as text_2");
    if (result == RESULT_OK)
        result = task_read(body, &task, error);
    if (result == RESULT_OK)
        result = pairs_make(context, queries, task, request, error);
    cJSON_Delete(queries);
    return result;
}

static const char *const rerank_fields[] = {
    "model",       "query",      "documents", "texts",       "top_n",    "return_documents",
    "return_text", "raw_scores", "truncate",  "instruction", "instruct", NULL};
static const char *const score_fields[] = {"model",       "text_1",   "text_2",
                                           "instruction", "instruct", NULL};

static enum result body_parse(const struct parse_context *context, bool scores, const char *json,
                              size_t json_bytes, struct generation_request *request,
                              struct api_error *error)
{
    struct rerank_state *state = calloc(1, sizeof *state);
    *request = (struct generation_request){0};
    if (!state)
        return api_error_memory(error);
    request->own = (struct format_state){.state = state, .destroy = state_destroy};
    enum result result = request_fields_read_body(json, json_bytes, &request->body, error);
    if (result == RESULT_OK)
        result = request_fields_check_model(request->body, context->assets, error);
    if (result == RESULT_OK)
        result = field_watch_check(context->fields, request->body,
                                   scores ? score_fields : rerank_fields, error);
    if (result == RESULT_OK)
        result =
            scores ? score_read(context, request, error) : rerank_read(context, request, error);
    if (result != RESULT_OK)
        generation_request_fini(request);
    return result;
}

enum result rerank_request_parse(const struct parse_context *context, const char *json,
                                 size_t json_bytes, struct generation_request *request,
                                 struct api_error *error)
{
    return body_parse(context, false, json, json_bytes, request, error);
}

enum result rerank_request_parse_score(const struct parse_context *context, const char *json,
                                       size_t json_bytes, struct generation_request *request,
                                       struct api_error *error)
{
    return body_parse(context, true, json, json_bytes, request, error);
}
