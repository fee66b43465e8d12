/*
 * Items and events of the Responses API.
 *
 * One item is open at a time; the kind of the next event (reply_event.h) decides whether it
 * continues or another one starts. One table names the kinds and their events, so that all
 * take the same path: item added, part added, deltas, text done, part done, item done. Reasoning is
 * the item's content or, if a summary was asked for, its summary with events of its own. A call has
 * no content part. A call of a built-in tool has no deltas either: its action is an object.
 */
#include "frontend/api/responses/responses_writer.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "frontend/api/responses/response_calls.h"
#include "proto/must.h"

static const struct item_shape {
    const char *type;
    const char *part;        /* type of its one part; NULL: none */
    const char *part_event;  /* after "response.", before ".added" and ".done"; NULL: no part */
    const char *part_index;  /* member with the part's place; NULL: no part */
    const char *delta_event; /* after "response."; NULL: none, and no done event */
    const char *done_event;
    const char *done_member; /* the whole text */
} shapes[] = {
    [RESPONSES_MESSAGE] = {"message", "output_text", "content_part", "content_index",
                           "output_text.delta", "output_text.done", "text"},
    [RESPONSES_REASONING] = {"reasoning", "reasoning_text", "content_part", "content_index",
                             "reasoning_text.delta", "reasoning_text.done", "text"},
    [RESPONSES_SUMMARY] = {"reasoning", "summary_text", "reasoning_summary_part", "summary_index",
                           "reasoning_summary_text.delta", "reasoning_summary_text.done", "text"},
    [RESPONSES_CALL] = {"function_call", NULL, NULL, NULL, "function_call_arguments.delta",
                        "function_call_arguments.done", "arguments"},
    [RESPONSES_CUSTOM_CALL] = {"custom_tool_call", NULL, NULL, NULL, "custom_tool_call_input.delta",
                               "custom_tool_call_input.done", "input"},
    [RESPONSES_LOCAL_SHELL_CALL] = {.type = "local_shell_call"},
    [RESPONSES_SHELL_CALL] = {.type = "shell_call"},
    [RESPONSES_PATCH_CALL] = {.type = "apply_patch_call"},
};

static bool is_call(enum responses_item_kind kind)
{
    return kind >= RESPONSES_CALL;
}

/* --- pieces ---------------------------------------------------------------------------------- */

static void string_write(struct text_buffer *out, const struct text_buffer *text)
{
    text_buffer_append_json_string(out, text->bytes ? text->bytes : "", text->length);
}

static void raw_write(struct text_buffer *out, const struct text_buffer *text)
{
    text_buffer_append(out, text->bytes, text->length);
}

static void item_id_write(const struct responses_writer *writer, struct text_buffer *out)
{
    text_buffer_append_text(out, "\"");
    response_item_id_write(response_item_prefix(shapes[writer->open].type), writer->response_id,
                           RESPONSE_OUTPUT, writer->items.count, out);
    text_buffer_append_text(out, "\"");
}

/* The open item's part; `whole`: with its text, otherwise as it starts. */
static void part_write(const struct responses_writer *writer, bool whole, struct text_buffer *out)
{
    static const struct text_buffer nothing;
    text_buffer_append_format(out, "{\"type\":\"%s\",\"text\":", shapes[writer->open].part);
    string_write(out, whole ? &writer->text : &nothing);
    if (writer->open == RESPONSES_MESSAGE) {
        text_buffer_append_text(out, ",\"annotations\":[],\"logprobs\":[");
        raw_write(out, whole ? &writer->logprobs_all : &nothing);
        text_buffer_append_text(out, "]");
    }
    text_buffer_append_text(out, "}");
}

/* The members of a call. */
static void call_write(const struct responses_writer *writer, bool whole, struct text_buffer *out)
{
    static const struct text_buffer nothing;
    const struct item_shape *shape = &shapes[writer->open];
    text_buffer_append_text(out, ",\"call_id\":");
    string_write(out, &writer->call_id);
    if (!shape->done_member) {
        response_call_action_write((enum response_call_kind)(writer->open - RESPONSES_CALL),
                                   whole ? &writer->text : &nothing, out);
        return;
    }
    text_buffer_append_text(out, ",\"name\":");
    string_write(out, &writer->name);
    if (writer->namespace.length > 0) {
        text_buffer_append_text(out, ",\"namespace\":");
        string_write(out, &writer->namespace);
    }
    text_buffer_append_format(out, ",\"%s\":", shape->done_member);
    string_write(out, whole ? &writer->text : &nothing);
}

/* The open item as it starts (status "in_progress") or as it is. */
static void item_write(const struct responses_writer *writer, const char *status,
                       struct text_buffer *out)
{
    bool whole = strcmp(status, "in_progress") != 0;
    const struct item_shape *shape = &shapes[writer->open];
    text_buffer_append_text(out, "{\"id\":");
    item_id_write(writer, out);
    text_buffer_append_format(out, ",\"type\":\"%s\",\"status\":\"%s\"", shape->type, status);
    if (is_call(writer->open)) {
        call_write(writer, whole, out);
    } else {
        static const char *const before[] = {
            [RESPONSES_MESSAGE] = ",\"role\":\"assistant\",\"content\":[",
            [RESPONSES_REASONING] = ",\"summary\":[],\"encrypted_content\":null,\"content\":[",
            [RESPONSES_SUMMARY] = ",\"encrypted_content\":null,\"content\":[],\"summary\":["};
        text_buffer_append_text(out, before[writer->open]);
        if (whole)
            part_write(writer, true, out);
        text_buffer_append_text(out, "]");
    }
    text_buffer_append_text(out, "}");
}

/* --- events ---------------------------------------------------------------------------------- */

/* `kind`: "response." or ""; the event's type is `kind` and `name`. */
static void event_begin(struct responses_writer *writer, const char *kind, const char *name)
{
    struct text_buffer *out = writer->out;
    uint64_t number = writer->sequence++;
    writer->event_start = out->length;
    if (writer->numbers_lines) {
        text_buffer_append_text(out, "id: ");
        text_buffer_append_whole(out, number, 1);
        text_buffer_append_text(out, "\n");
    }
    text_buffer_append_text(out, "event: ");
    text_buffer_append_text(out, kind);
    text_buffer_append_text(out, name);
    text_buffer_append_text(out, "\ndata: {\"type\":\"");
    text_buffer_append_text(out, kind);
    text_buffer_append_text(out, name);
    text_buffer_append_text(out, "\",\"sequence_number\":");
    text_buffer_append_whole(out, number, 1);
}

static void event_open(struct responses_writer *writer, const char *name)
{
    event_begin(writer, "response.", name);
}

static void event_close(struct responses_writer *writer)
{
    text_buffer_append_text(writer->out, "}\n\n");
    if (writer->sequence <= writer->first_sequence)
        text_buffer_cut(writer->out, writer->event_start);
}

/* Adds a step to the record's script. */
static void step_add(struct responses_writer *writer, const struct response_step *step)
{
    if (writer->record)
        response_record_add_step(writer->record, step);
}

/* Starts an event about the open item: all common members. */
static void item_event_open(struct responses_writer *writer, const char *name)
{
    event_open(writer, name);
    text_buffer_append_text(writer->out, ",\"item_id\":");
    item_id_write(writer, writer->out);
    text_buffer_append_text(writer->out, ",\"output_index\":");
    text_buffer_append_whole(writer->out, writer->items.count, 1);
    if (shapes[writer->open].part) {
        text_buffer_append_text(writer->out, ",\"");
        text_buffer_append_text(writer->out, shapes[writer->open].part_index);
        text_buffer_append_text(writer->out, "\":0");
    }
}

static void item_event(struct responses_writer *writer, const char *name, const char *status)
{
    event_open(writer, name);
    text_buffer_append_format(writer->out, ",\"output_index\":%zu,\"item\":", writer->items.count);
    item_write(writer, status, writer->out);
    event_close(writer);
}

/* `status`: the item's. */
static void part_event(struct responses_writer *writer, const char *status)
{
    const struct item_shape *shape = &shapes[writer->open];
    bool whole = strcmp(status, "in_progress") != 0;
    char name[32];
    if (!shape->part)
        return;
    snprintf(name, sizeof name, "%s.%s", shape->part_event, whole ? "done" : "added");
    item_event_open(writer, name);
    text_buffer_append_text(writer->out, ",\"part\":");
    part_write(writer, whole, writer->out);
    if (writer->open == RESPONSES_SUMMARY && strcmp(status, "incomplete") == 0)
        text_buffer_append_text(writer->out, ",\"status\":\"incomplete\"");
    event_close(writer);
}

void responses_writer_tell(struct responses_writer *writer, const char *name,
                           struct response_record *record, enum response_status status)
{
    event_open(writer, name);
    text_buffer_append_text(writer->out, ",\"response\":");
    if (response_status_is_final(status))
        response_record_write(record, writer->out);
    else
        response_record_write_unfinished(record, status, writer->out);
    event_close(writer);
}

static void delta_event(struct responses_writer *writer, const char *bytes, size_t length)
{
    item_event_open(writer, shapes[writer->open].delta_event);
    text_buffer_append_text(writer->out, ",\"delta\":");
    text_buffer_append_json_string(writer->out, bytes, length);
    if (writer->open == RESPONSES_MESSAGE) {
        text_buffer_append_text(writer->out, ",\"logprobs\":[");
        raw_write(writer->out, &writer->logprobs_new);
        text_buffer_append_text(writer->out, "]");
    }
    event_close(writer);
}

static void done_event(struct responses_writer *writer)
{
    if (!shapes[writer->open].done_event)
        return;
    item_event_open(writer, shapes[writer->open].done_event);
    text_buffer_append_format(writer->out, ",\"%s\":", shapes[writer->open].done_member);
    string_write(writer->out, &writer->text);
    if (writer->open == RESPONSES_MESSAGE) {
        text_buffer_append_text(writer->out, ",\"logprobs\":[");
        raw_write(writer->out, &writer->logprobs_all);
        text_buffer_append_text(writer->out, "]");
    } else if (writer->open == RESPONSES_CALL) {
        text_buffer_append_text(writer->out, ",\"name\":");
        string_write(writer->out, &writer->name);
    }
    event_close(writer);
}

/* --- items ----------------------------------------------------------------------------------- */

void responses_writer_close(struct responses_writer *writer, const char *status)
{
    if (writer->open == RESPONSES_NO_ITEM)
        return;
    if (writer->stream) {
        done_event(writer);
        part_event(writer, status);
        item_event(writer, "output_item.done", status);
    }
    response_items_begin(&writer->items);
    item_write(writer, status, &writer->items.text);
    response_items_end(&writer->items, NULL);
    writer->open = RESPONSES_NO_ITEM;
    text_buffer_clear(&writer->text);
    text_buffer_clear(&writer->logprobs_all);
}

static void item_open(struct responses_writer *writer, enum responses_item_kind kind)
{
    if (writer->open == kind && !is_call(kind))
        return;
    responses_writer_close(writer, "completed");
    writer->open = kind;
    if (!writer->stream)
        return;
    item_event(writer, "output_item.added", "in_progress");
    part_event(writer, "in_progress");
}

/* Opens a call; its id is set. `label`: response_calls.h. */
static void call_open(struct responses_writer *writer, const char *label, size_t label_bytes)
{
    struct response_call_label shown = response_call_label_read(label, label_bytes);
    text_buffer_clear(&writer->name);
    text_buffer_clear(&writer->namespace);
    text_buffer_append(&writer->name, shown.name, shown.name_bytes);
    if (shown.namespace_bytes > 0)
        text_buffer_append(&writer->namespace, shown.namespace, shown.namespace_bytes);
    writer->input = (struct call_input){0};
    item_open(writer, (enum responses_item_kind)(RESPONSES_CALL + (int)shown.kind));
}

static void call_begin(struct responses_writer *writer, const struct reply_event *event)
{
    responses_writer_close(writer, "completed");
    text_buffer_clear(&writer->name);
    text_buffer_clear(&writer->call_id);
    text_buffer_append(&writer->name, event->bytes, event->length);
    if (event->id)
        text_buffer_append_text(&writer->call_id, event->id);
    else
        text_buffer_append_format(&writer->call_id, "call_%s%04u",
                                  writer->response_id + strlen(RESPONSE_ID_PREFIX), event->call);
    const char *label = writer->name.failed ? NULL
                                            : cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
                                                  writer->labels, writer->name.bytes));
    struct response_step step = {.kind = STEP_CALL_BEGIN,
                                 .text = label ? label : event->bytes,
                                 .text_bytes = label ? strlen(label) : event->length,
                                 .more = writer->call_id.bytes,
                                 .more_bytes = writer->call_id.length};
    call_open(writer, step.text, step.text_bytes);
    step_add(writer, &step);
}

/* Adds those of the next delta to the message's. */
static void logprobs_keep(struct responses_writer *writer)
{
    if (writer->logprobs_new.length == 0)
        return;
    if (writer->logprobs_all.length > 0)
        text_buffer_append_text(&writer->logprobs_all, ",");
    raw_write(&writer->logprobs_all, &writer->logprobs_new);
}

/* Moves final log-probabilities to the next delta and to the message. */
static void logprobs_take(struct responses_writer *writer)
{
    text_buffer_clear(&writer->logprobs_new);
    if (writer->log && token_log_write(writer->log, &writer->logprobs_new) > 0)
        logprobs_keep(writer);
}

static void token_log_add(struct responses_writer *writer)
{
    const struct reply_token *token = writer->token;
    if (token)
        token_log_push(writer->log, (struct token_logprob){token->id, token->logprob},
                       token->alternatives, token->alternative_count);
}

/* Drops log-probabilities of earlier reasoning or calls when a message starts. */
static void log_renew(struct responses_writer *writer)
{
    token_log_destroy(writer->log);
    writer->log = token_log_create(writer->tokenizer);
    token_log_add(writer);
    token_log_set_mixed(writer->log); /* its first token may also have marks and white space */
    writer->loose = false;
}

void responses_writer_set_token(struct responses_writer *writer, const struct reply_token *token)
{
    writer->token = token;
    if (writer->log && token && !token->is_stop)
        token_log_add(writer);
}

void responses_writer_end_tokens(struct responses_writer *writer, bool cut)
{
    if (!writer->log || writer->open != RESPONSES_MESSAGE)
        return;
    token_log_end(writer->log, cut);
    logprobs_take(writer);
    if (writer->logprobs_new.length > 0)
        step_add(writer, &(struct response_step){.kind = STEP_LOGPROBS,
                                                 .more = writer->logprobs_new.bytes,
                                                 .more_bytes = writer->logprobs_new.length});
}

/* Adds text to the open item and its log-probabilities, already in logprobs_new, to the event. */
static void text_put(struct responses_writer *writer, const char *bytes, size_t length)
{
    size_t before = writer->text.length;
    bool is_custom = writer->open == RESPONSES_CUSTOM_CALL;
    if (is_custom)
        call_input_push(&writer->input, bytes, length, &writer->text);
    else
        text_buffer_append(&writer->text, bytes, length);
    size_t added = writer->text.length - before;
    if (writer->stream && shapes[writer->open].delta_event && (added > 0 || !is_custom) &&
        !writer->text.failed)
        delta_event(writer, writer->text.bytes + before, added);
}

static void text_add(struct responses_writer *writer, const struct reply_event *event)
{
    static const enum response_step_kind kinds[] = {[RESPONSES_MESSAGE] = STEP_CONTENT,
                                                    [RESPONSES_REASONING] = STEP_REASONING,
                                                    [RESPONSES_SUMMARY] = STEP_REASONING};
    static char mark[] = "s";
    static const struct text_buffer summary_mark = {.bytes = mark, .length = 1}, none;
    bool shows = writer->log && writer->open == RESPONSES_MESSAGE;
    const struct text_buffer *more = writer->open == RESPONSES_SUMMARY ? &summary_mark : &none;
    if (shows) {
        if (writer->loose)
            log_renew(writer);
        token_log_show(writer->log, event->length);
        logprobs_take(writer);
        more = &writer->logprobs_new;
    } else {
        writer->loose = true;
    }
    text_put(writer, event->bytes, event->length);
    step_add(writer, &(struct response_step){.kind = is_call(writer->open) ? STEP_ARGUMENTS
                                                                           : kinds[writer->open],
                                             .text = event->bytes,
                                             .text_bytes = event->length,
                                             .more = more->bytes,
                                             .more_bytes = more->length});
}

void responses_writer_take(void *context, const struct reply_event *event)
{
    struct responses_writer *writer = context;
    switch (event->kind) {
    case REPLY_CONTENT:
        item_open(writer, RESPONSES_MESSAGE);
        text_add(writer, event);
        break;
    case REPLY_REASONING:
        item_open(writer, writer->summarizes ? RESPONSES_SUMMARY : RESPONSES_REASONING);
        text_add(writer, event);
        break;
    case REPLY_CALL_BEGIN: call_begin(writer, event); break;
    case REPLY_CALL_ARGUMENTS:
        must(is_call(writer->open));
        text_add(writer, event);
        break;
    case REPLY_CALL_END:
        responses_writer_close(writer, "completed");
        step_add(writer, &(struct response_step){.kind = STEP_CALL_END});
        break;
    }
}

/* --- repeating ------------------------------------------------------------------------------- */

static void text_repeat(struct responses_writer *writer, enum responses_item_kind kind,
                        const struct response_step *step)
{
    item_open(writer, kind);
    text_buffer_clear(&writer->logprobs_new);
    if (kind == RESPONSES_MESSAGE && step->more_bytes > 0)
        text_buffer_append(&writer->logprobs_new, step->more, step->more_bytes);
    logprobs_keep(writer);
    text_put(writer, step->text ? step->text : "", step->text_bytes);
}

static void call_repeat(struct responses_writer *writer, const struct response_step *step)
{
    responses_writer_close(writer, "completed");
    text_buffer_clear(&writer->call_id);
    text_buffer_append(&writer->call_id, step->more ? step->more : "", step->more_bytes);
    call_open(writer, step->text ? step->text : "", step->text_bytes);
}

bool responses_writer_repeat(struct responses_writer *writer, const struct response_step *step)
{
    must(!writer->record);
    switch (step->kind) {
    case STEP_CONTENT: text_repeat(writer, RESPONSES_MESSAGE, step); return true;
    case STEP_REASONING:
        text_repeat(writer, step->more_bytes > 0 ? RESPONSES_SUMMARY : RESPONSES_REASONING, step);
        return true;
    case STEP_CALL_BEGIN: call_repeat(writer, step); return true;
    case STEP_ARGUMENTS:
        if (!is_call(writer->open))
            return false;
        text_put(writer, step->text ? step->text : "", step->text_bytes);
        return true;
    case STEP_CALL_END:
        if (!is_call(writer->open))
            return false;
        responses_writer_close(writer, "completed");
        return true;
    case STEP_LOGPROBS:
        text_buffer_clear(&writer->logprobs_new);
        text_buffer_append(&writer->logprobs_new, step->more ? step->more : "", step->more_bytes);
        logprobs_keep(writer);
        return true;
    default: return false;
    }
}

/* --- errors and the end --------------------------------------------------------------------- */

void responses_writer_tell_error(struct responses_writer *writer, const char *code,
                                 const char *message, size_t message_bytes)
{
    struct text_buffer *out = writer->out;
    event_begin(writer, "", "error");
    text_buffer_append_text(out, ",\"code\":");
    if (code)
        text_buffer_append_json_string(out, code, strlen(code));
    else
        text_buffer_append_text(out, "null");
    text_buffer_append_text(out, ",\"message\":");
    text_buffer_append_json_string(out, message, message_bytes);
    text_buffer_append_text(out, ",\"param\":null");
    event_close(writer);
}

void responses_writer_end_empty(struct responses_writer *writer)
{
    if (writer->open == RESPONSES_NO_ITEM && writer->items.count == 0)
        item_open(writer, RESPONSES_MESSAGE);
}

void responses_writer_init(struct responses_writer *writer, const char *response_id, bool stream,
                           const struct tokenizer *tokenizer)
{
    *writer = (struct responses_writer){
        .response_id = response_id, .stream = stream, .tokenizer = tokenizer};
    if (tokenizer)
        writer->log = token_log_create(tokenizer);
}

void responses_writer_fini(struct responses_writer *writer)
{
    response_items_fini(&writer->items);
    text_buffer_fini(&writer->text);
    text_buffer_fini(&writer->name);
    text_buffer_fini(&writer->namespace);
    text_buffer_fini(&writer->call_id);
    text_buffer_fini(&writer->logprobs_all);
    text_buffer_fini(&writer->logprobs_new);
    token_log_destroy(writer->log);
}
