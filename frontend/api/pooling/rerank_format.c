/*
 * Answer 2 i has the log-probability of "yes" for document i, answer 2 i + 1 that of "no"; answer i
 * of a cross-encoder has the logit of document i as its vector. Results
 * are in descending order of their scores, equal ones by index; scores of /score are in the order
 * of the pairs.
 */
#include "frontend/api/pooling/rerank_format.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/generation_share.h"
#include "frontend/api/pooling/rerank_request.h"
#include "proto/must.h"

struct rerank_result {
    uint32_t index;
    double logits[2]; /* up to a constant: yes, no; of a cross-encoder its logit and 0 */
    double score;
    const cJSON *text;
};

struct api_reply {
    struct rerank_state state; /* own copy of the texts */
    struct text_buffer model;  /* JSON */
    int64_t created_unix_s;
    char id[64];
    uint64_t prompt_tokens;
    uint32_t count;
    struct rerank_result results[]; /* [count] */
};

static struct api_reply *create(const struct reply_config *config)
{
    const struct rerank_state *state = config->prepared->request.own.state;
    const char *model = reply_config_model(config);
    uint32_t each = state->classifies ? 1 : 2;
    uint32_t count = generation_share_answers(config->prepared) / each;
    struct api_reply *reply = must_alloc(1, sizeof *reply + count * sizeof reply->results[0]);
    reply->state = *state;
    must(reply->state.texts = cJSON_Duplicate(state->texts, true));
    reply->created_unix_s = config->created_unix_s;
    must(strlen(config->id) < sizeof reply->id);
    strcpy(reply->id, config->id);
    text_buffer_append_json_string(&reply->model, model, strlen(model));
    reply->count = count;
    const cJSON *text = reply->state.texts->child;
    for (uint32_t i = 0; i < count; i++, text = text->next) {
        reply->results[i] = (struct rerank_result){.index = i, .text = text};
        reply->prompt_tokens += generation_share_prompt(config->prepared, each * i)->count;
    }
    return reply;
}

static void destroy(struct api_reply *reply)
{
    cJSON_Delete(reply->state.texts);
    text_buffer_fini(&reply->model);
    free(reply);
}

static void begin(struct api_reply *reply, struct text_buffer *out)
{
    (void)reply;
    (void)out;
}

static bool token(struct api_reply *reply, uint32_t answer, const struct reply_token *token,
                  struct text_buffer *out)
{
    (void)out;
    if (!reply->state.classifies)
        reply->results[answer / 2].logits[answer % 2] = (double)token->logprob;
    else if (token->vector_count > 0)
        reply->results[answer].logits[0] = (double)token->vector[0];
    return false;
}

static void choice_end(struct api_reply *reply, uint32_t answer, enum finish_reason finish,
                       struct cached_prompt cached, struct text_buffer *out)
{
    (void)reply;
    (void)answer;
    (void)finish;
    (void)cached;
    (void)out;
}

/* The probability of "yes" of both; 0.5 if neither has any. */
static void score_compute(struct rerank_result *result, bool raw)
{
    double yes = result->logits[0], no = result->logits[1];
    double difference = yes == no ? 0 : yes - no;
    if (!isfinite(difference))
        difference = difference > 0 ? 1e4 : -1e4;
    result->score = raw ? difference : 1 / (1 + exp(-difference));
}

static int by_score(const void *one, const void *other)
{
    const struct rerank_result *a = one, *b = other;
    if (a->score != b->score)
        return a->score < b->score ? 1 : -1;
    return a->index < b->index ? -1 : 1;
}

static void text_append(const cJSON *text, struct text_buffer *out)
{
    text_buffer_append_json_string(out, text->valuestring, strlen(text->valuestring));
}

static void result_write(const struct api_reply *reply, const struct rerank_result *result,
                         struct text_buffer *out)
{
    text_buffer_append_format(out, "{\"index\":%u,", result->index);
    if (reply->state.scores) {
        text_buffer_append_format(out, "\"object\":\"score\",\"score\":%.9g}", result->score);
        return;
    }
    text_buffer_append_format(out, "\"%s\":%.9g", reply->state.tei ? "score" : "relevance_score",
                              result->score);
    if (reply->state.return_documents) {
        text_buffer_append_text(out, reply->state.tei ? ",\"text\":" : ",\"document\":{\"text\":");
        text_append(result->text, out);
        text_buffer_append_text(out, reply->state.tei ? "" : "}");
    }
    text_buffer_append_text(out, "}");
}

static void usage_write(const struct api_reply *reply, struct text_buffer *out)
{
    text_buffer_append_format(out, "\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu}",
                              (unsigned long long)reply->prompt_tokens,
                              (unsigned long long)reply->prompt_tokens);
}

static void end(struct api_reply *reply, struct text_buffer *out)
{
    const struct rerank_state *state = &reply->state;
    uint32_t shown = state->top_n > 0 && state->top_n < reply->count ? state->top_n : reply->count;
    for (uint32_t i = 0; i < reply->count; i++)
        score_compute(&reply->results[i], state->raw);
    if (!state->scores)
        qsort(reply->results, reply->count, sizeof reply->results[0], by_score);
    if (!state->tei) {
        text_buffer_append_format(out, "{\"id\":\"%s\",\"object\":\"list\",\"created\":%lld,",
                                  reply->id, (long long)reply->created_unix_s);
        text_buffer_append_text(out, "\"model\":");
        text_buffer_append(out, reply->model.bytes, reply->model.length);
        text_buffer_append_text(out, state->scores ? ",\"data\":" : ",\"results\":");
    }
    text_buffer_append_text(out, "[");
    for (uint32_t i = 0; i < shown; i++) {
        text_buffer_append_text(out, i > 0 ? "," : "");
        result_write(reply, &reply->results[i], out);
    }
    text_buffer_append_text(out, "]");
    if (state->tei)
        return;
    text_buffer_append_text(out, ",");
    usage_write(reply, out);
    text_buffer_append_text(out, "}");
}

const struct api_format rerank_format = {.id_prefix = "rerank-",
                                         .prompt_field = "documents",
                                         .parse = rerank_request_parse,
                                         .reply_create = create,
                                         .reply_destroy = destroy,
                                         .reply_begin = begin,
                                         .reply_token = token,
                                         .reply_choice_end = choice_end,
                                         .reply_end = end};

const struct api_format score_format = {.id_prefix = "score-",
                                        .prompt_field = "text_2",
                                        .parse = rerank_request_parse_score,
                                        .reply_create = create,
                                        .reply_destroy = destroy,
                                        .reply_begin = begin,
                                        .reply_token = token,
                                        .reply_choice_end = choice_end,
                                        .reply_end = end};
