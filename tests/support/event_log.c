/*
 * Joins and compares the events of an answer, and checks the rules of reply_event.h: no empty text,
 * whole characters, calls numbered in order and one at a time.
 */
#include "tests/support/event_log.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/utf8_stream.h"
#include "proto/must.h"

/* Bytes that are whole characters come through a decoder as they are. */
static void check_text(const char *bytes, size_t length)
{
    struct utf8_stream stream = {0};
    struct text_buffer out = {0};
    utf8_stream_push(&stream, bytes, length, &out);
    must(stream.pending_bytes == 0 && out.length == length &&
         (length == 0 || memcmp(out.bytes, bytes, length) == 0));
    text_buffer_fini(&out);
}

static struct event_log_entry *add_entry(struct event_log *log, enum reply_event_kind kind)
{
    if (log->count == log->capacity) {
        log->capacity = log->capacity ? 2 * log->capacity : 8;
        log->entries = realloc(log->entries, log->capacity * sizeof *log->entries);
        must(log->entries);
    }
    struct event_log_entry *entry = &log->entries[log->count++];
    *entry = (struct event_log_entry){.kind = kind};
    return entry;
}

static void log_call(struct event_log *log, const struct reply_event *event)
{
    struct event_log_entry *last = log->count ? &log->entries[log->count - 1] : NULL;
    if (event->kind == REPLY_CALL_BEGIN) {
        must(event->call == log->calls && event->length > 0);
        log->calls++;
        last = add_entry(log, REPLY_CALL_BEGIN);
        last->name = strndup(event->bytes, event->length);
        last->id = event->id ? strdup(event->id) : NULL;
        return;
    }
    must(last && last->kind == REPLY_CALL_BEGIN && !last->ended && event->call + 1 == log->calls);
    if (event->kind == REPLY_CALL_END)
        last->ended = true;
    else
        text_buffer_append(&last->text, event->bytes, event->length);
}

static void log_event(void *context, const struct reply_event *event)
{
    struct event_log *log = context;
    check_text(event->bytes, event->length);
    log->bytes += event->length;
    if (event->kind != REPLY_CONTENT && event->kind != REPLY_REASONING) {
        log_call(log, event);
        return;
    }
    must(event->length > 0);
    struct event_log_entry *last = log->count ? &log->entries[log->count - 1] : NULL;
    must(!last || last->kind != REPLY_CALL_BEGIN || last->ended);
    if (!last || last->kind != event->kind)
        last = add_entry(log, event->kind);
    text_buffer_append(&last->text, event->bytes, event->length);
}

struct reply_event_sink event_log_sink(struct event_log *log)
{
    return (struct reply_event_sink){log, log_event};
}

void event_log_fini(struct event_log *log)
{
    for (size_t i = 0; i < log->count; i++) {
        free(log->entries[i].name);
        free(log->entries[i].id);
        text_buffer_fini(&log->entries[i].text);
    }
    free(log->entries);
    *log = (struct event_log){0};
}

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static const char *text_of(const struct event_log_entry *entry)
{
    return entry->text.bytes ? entry->text.bytes : "";
}

bool event_log_equal(const struct event_log *a, const struct event_log *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct event_log_entry *x = &a->entries[i];
        const struct event_log_entry *y = &b->entries[i];
        if (x->kind != y->kind || x->ended != y->ended || !same(x->name, y->name) ||
            !same(x->id, y->id) || x->text.length != y->text.length ||
            (x->text.length && memcmp(x->text.bytes, y->text.bytes, x->text.length) != 0))
            return false;
    }
    return true;
}

static bool same_json(const char *a, const char *b)
{
    cJSON *left = cJSON_Parse(a);
    cJSON *right = cJSON_Parse(b);
    bool equal = left && right && cJSON_Compare(left, right, true);
    cJSON_Delete(left);
    cJSON_Delete(right);
    return equal;
}

static bool entry_matches(const struct event_log_entry *entry, const cJSON *event)
{
    const char *words[4] = {0};
    for (int i = 0; i < 4; i++)
        words[i] = cJSON_GetStringValue(cJSON_GetArrayItem(event, i));
    if (entry->kind != REPLY_CALL_BEGIN)
        return same(words[0], entry->kind == REPLY_CONTENT ? "content" : "reasoning") &&
               same(words[1], text_of(entry));
    return same(words[0], entry->ended ? "call" : "cut call") && same(words[1], entry->name) &&
           (entry->ended ? same_json(words[2], text_of(entry)) : same(words[2], text_of(entry))) &&
           (!words[3] || same(words[3], entry->id));
}

bool event_log_matches(const struct event_log *log, const cJSON *events, const char *name)
{
    bool matches = log->count == (size_t)cJSON_GetArraySize(events);
    for (size_t i = 0; matches && i < log->count; i++)
        matches = entry_matches(&log->entries[i], cJSON_GetArrayItem(events, (int)i));
    if (matches)
        return true;
    char *expected = cJSON_Print(events);
    fprintf(stderr, "%s:\nexpected %s\ngot\n", name, expected);
    free(expected);
    for (size_t i = 0; i < log->count; i++) {
        const struct event_log_entry *entry = &log->entries[i];
        fprintf(stderr, "  %d%s %s %s [%s]\n", (int)entry->kind, entry->ended ? " ended" : "",
                entry->name ? entry->name : "", entry->id ? entry->id : "", text_of(entry));
    }
    return false;
}
