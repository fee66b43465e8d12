/*
 * Turns parser events (reply_event.h) into deltas or a message.
 *
 * Consecutive pieces of one kind that arrive with one token become one delta. Deltas wait in one
 * buffer, separated by line breaks, which JSON text written here never contains. Reasoning is
 * written under two names, because clients know either. A call's id is the model's if it has one,
 * otherwise made from the reply's id, so that it is unique.
 */
#include "frontend/api/chat/chat_choice.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/prepared_generation.h"
#include "frontend/reply/token_log.h"
#include "proto/must.h"

struct chat_choice {
    bool stream;
    uint32_t index;
    const char *id; /* the reply's, without its prefix */
    struct answer *answer;
    enum answer_end ended;
    struct token_log *log; /* NULL: no log-probabilities */
    bool hides_reasoning;
    bool shows_ids;
    struct text_buffer ids; /* of tokens, separated by commas, not written yet */
    /* Streaming. */
    enum reply_event_kind piece_kind; /* of the text in `piece`; 0: none */
    uint32_t piece_call;
    struct text_buffer piece;
    struct text_buffer deltas;
    size_t deltas_taken;
    /* Not streaming. */
    struct text_buffer content;
    struct text_buffer reasoning;
    struct text_buffer calls;     /* objects, separated by commas */
    struct text_buffer arguments; /* of the current call */
    bool call_open;
};

/* "call_<the reply's digits><choice><call>" */
static void write_call_id(const struct chat_choice *choice, const struct reply_event *event,
                          struct text_buffer *out)
{
    if (event->id) {
        text_buffer_append_json_string(out, event->id, strlen(event->id));
        return;
    }
    text_buffer_append_format(out, "\"call_%s%02x%02x\"", choice->id, choice->index, event->call);
}

static void write_name(const struct reply_event *event, struct text_buffer *out)
{
    text_buffer_append_text(out, ",\"type\":\"function\",\"function\":{\"name\":");
    text_buffer_append_json_string(out, event->bytes, event->length);
    text_buffer_append_text(out, ",\"arguments\":");
}

static void write_string(const struct text_buffer *text, struct text_buffer *out)
{
    text_buffer_append_json_string(out, text->bytes ? text->bytes : "", text->length);
}

/* --- deltas ---------------------------------------------------------------------------------- */

static void piece_end(struct chat_choice *choice)
{
    struct text_buffer *out = &choice->deltas;
    if (choice->piece_kind == REPLY_CONTENT) {
        text_buffer_append_text(out, "{\"content\":");
        write_string(&choice->piece, out);
        text_buffer_append_text(out, "}\n");
    } else if (choice->piece_kind == REPLY_REASONING) {
        text_buffer_append_text(out, "{\"reasoning_content\":");
        write_string(&choice->piece, out);
        text_buffer_append_text(out, ",\"reasoning\":");
        write_string(&choice->piece, out);
        text_buffer_append_text(out, "}\n");
    } else if (choice->piece_kind == REPLY_CALL_ARGUMENTS) {
        text_buffer_append_format(
            out, "{\"tool_calls\":[{\"index\":%u,\"function\":{\"arguments\":", choice->piece_call);
        write_string(&choice->piece, out);
        text_buffer_append_text(out, "}}]}\n");
    }
    choice->piece_kind = 0;
    text_buffer_clear(&choice->piece);
}

static void delta_add(struct chat_choice *choice, const struct reply_event *event)
{
    if (event->kind != choice->piece_kind || event->call != choice->piece_call)
        piece_end(choice);
    if (event->kind == REPLY_CALL_BEGIN) {
        struct text_buffer *out = &choice->deltas;
        text_buffer_append_format(out, "{\"tool_calls\":[{\"index\":%u,\"id\":", event->call);
        write_call_id(choice, event, out);
        write_name(event, out);
        text_buffer_append_text(out, "\"\"}}]}\n");
    } else if (event->kind != REPLY_CALL_END && event->length > 0) {
        choice->piece_kind = event->kind;
        choice->piece_call = event->call;
        text_buffer_append(&choice->piece, event->bytes, event->length);
    }
}

bool chat_choice_take_delta(struct chat_choice *choice, const char **json, size_t *length)
{
    struct text_buffer *deltas = &choice->deltas;
    if (choice->deltas_taken == deltas->length) {
        text_buffer_clear(deltas);
        choice->deltas_taken = 0;
        return false;
    }
    *json = deltas->bytes + choice->deltas_taken;
    const char *end = memchr(*json, '\n', deltas->length - choice->deltas_taken);
    *length = (size_t)(end - *json);
    choice->deltas_taken += *length + 1;
    return true;
}

/* --- a message ------------------------------------------------------------------------------- */

static void call_end(struct chat_choice *choice)
{
    if (!choice->call_open)
        return;
    choice->call_open = false;
    write_string(&choice->arguments, &choice->calls);
    text_buffer_append_text(&choice->calls, "}}");
    text_buffer_clear(&choice->arguments);
}

static void message_add(struct chat_choice *choice, const struct reply_event *event)
{
    switch (event->kind) {
    case REPLY_CONTENT: text_buffer_append(&choice->content, event->bytes, event->length); break;
    case REPLY_REASONING:
        text_buffer_append(&choice->reasoning, event->bytes, event->length);
        break;
    case REPLY_CALL_BEGIN:
        call_end(choice);
        text_buffer_append_text(&choice->calls,
                                choice->calls.length > 0 ? ",{\"id\":" : "{\"id\":");
        write_call_id(choice, event, &choice->calls);
        write_name(event, &choice->calls);
        choice->call_open = true;
        break;
    case REPLY_CALL_ARGUMENTS:
        text_buffer_append(&choice->arguments, event->bytes, event->length);
        break;
    case REPLY_CALL_END: call_end(choice); break;
    }
}

void chat_choice_write_message(struct chat_choice *choice, struct text_buffer *out)
{
    call_end(choice);
    text_buffer_append_text(out, "{\"role\":\"assistant\",\"content\":");
    if (choice->calls.length > 0 && choice->content.length == 0)
        text_buffer_append_text(out, "null");
    else
        write_string(&choice->content, out);
    if (choice->reasoning.length > 0) {
        text_buffer_append_text(out, ",\"reasoning_content\":");
        write_string(&choice->reasoning, out);
        text_buffer_append_text(out, ",\"reasoning\":");
        write_string(&choice->reasoning, out);
    }
    if (choice->calls.length > 0) {
        text_buffer_append_text(out, ",\"tool_calls\":[");
        text_buffer_append(out, choice->calls.bytes, choice->calls.length);
        text_buffer_append_text(out, "]");
    }
    text_buffer_append_text(out, ",\"refusal\":null}");
}

/* --- tokens ---------------------------------------------------------------------------------- */

static void on_event(void *context, const struct reply_event *event)
{
    struct chat_choice *choice = context;
    if (choice->log && event->kind == REPLY_CONTENT)
        token_log_show(choice->log, event->length);
    else if (choice->log)
        token_log_set_mixed(choice->log);
    if (choice->hides_reasoning && event->kind == REPLY_REASONING)
        return;
    if (choice->stream)
        delta_add(choice, event);
    else
        message_add(choice, event);
}

struct chat_choice *chat_choice_create(const struct reply_config *config, uint32_t index)
{
    const struct generation_request *request = &config->prepared->request;
    struct chat_choice *choice = must_alloc(1, sizeof *choice);
    const char *dash = strrchr(config->id, '-');
    choice->stream = request->stream;
    choice->index = index;
    choice->id = must_strdup(dash ? dash + 1 : config->id);
    choice->answer = answer_create(config, index, &(struct reply_event_sink){choice, on_event});
    choice->hides_reasoning = request->hide_reasoning;
    choice->shows_ids = request->return_token_ids;
    if (request->logprobs)
        choice->log = token_log_create(config->assets->tokenizer);
    return choice;
}

void chat_choice_destroy(struct chat_choice *choice)
{
    if (!choice)
        return;
    free((char *)(uintptr_t)choice->id);
    answer_destroy(choice->answer);
    token_log_destroy(choice->log);
    text_buffer_fini(&choice->ids);
    text_buffer_fini(&choice->piece);
    text_buffer_fini(&choice->deltas);
    text_buffer_fini(&choice->content);
    text_buffer_fini(&choice->reasoning);
    text_buffer_fini(&choice->calls);
    text_buffer_fini(&choice->arguments);
    free(choice);
}

bool chat_choice_push(struct chat_choice *choice, const struct reply_token *token)
{
    if (choice->log && !token->is_stop)
        token_log_push(choice->log, (struct token_logprob){token->id, token->logprob},
                       token->alternatives, token->alternative_count);
    if (choice->shows_ids) {
        text_buffer_append_text(&choice->ids, choice->ids.length > 0 ? "," : "");
        text_buffer_append_whole(&choice->ids, token->id, 1);
    }
    bool stopped = answer_push(choice->answer, token);
    piece_end(choice);
    return stopped;
}

void chat_choice_write_token_ids(struct chat_choice *choice, struct text_buffer *out)
{
    if (!choice->shows_ids)
        return;
    text_buffer_append_text(out, ",\"token_ids\":[");
    text_buffer_append(out, choice->ids.bytes, choice->ids.length);
    text_buffer_append_text(out, "]");
    text_buffer_clear(&choice->ids);
}

void chat_choice_write_stop_reason(const struct chat_choice *choice, struct text_buffer *out)
{
    answer_write_stop_reason(choice->answer, out);
}

void chat_choice_finish(struct chat_choice *choice, enum finish_reason finish,
                        struct cached_prompt cached)
{
    choice->ended = answer_finish(choice->answer, finish, cached);
    piece_end(choice);
    if (choice->log)
        token_log_end(choice->log, choice->ended == ANSWER_STOP_STRING);
}

void chat_choice_write_logprobs(struct chat_choice *choice, struct text_buffer *out)
{
    size_t before = out->length;
    if (!choice->log) {
        text_buffer_append_text(out, "null");
        return;
    }
    text_buffer_append_text(out, "{\"content\":[");
    if (token_log_write(choice->log, out) > 0 || !choice->stream) {
        text_buffer_append_text(out, "],\"refusal\":null}");
        return;
    }
    if (!out->failed)
        out->length = before;
    text_buffer_append_text(out, "null");
}

const char *chat_choice_finish_name(const struct chat_choice *choice)
{
    switch (choice->ended) {
    case ANSWER_LENGTH: return "length";
    case ANSWER_TOOL_CALLS: return "tool_calls";
    default: return "stop";
    }
}

const struct answer_usage *chat_choice_usage(const struct chat_choice *choice)
{
    return answer_usage(choice->answer);
}
