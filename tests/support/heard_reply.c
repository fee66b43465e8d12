/*
 * Joins text and arguments. Asserts that calls arrive one after the other with consecutive numbers,
 * and that every piece is valid UTF-8 and not empty.
 */
#include "tests/support/heard_reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/utf8.h"

static struct heard_call *open_call(struct heard_reply *heard)
{
    if (heard->call_count == 0 || heard->calls[heard->call_count - 1].ended)
        return NULL;
    return &heard->calls[heard->call_count - 1];
}

static void hear(void *context, const struct reply_event *event)
{
    struct heard_reply *heard = context;
    struct heard_call *call = open_call(heard);
    if (event->kind != REPLY_CALL_END) {
        assert_true(event->length > 0);
        assert_true(utf8_is_valid(event->bytes, event->length));
    }
    switch (event->kind) {
    case REPLY_CONTENT:
    case REPLY_REASONING:
        assert_null(call);
        text_buffer_append(event->kind == REPLY_CONTENT ? &heard->content : &heard->reasoning,
                           event->bytes, event->length);
        return;
    case REPLY_CALL_BEGIN:
        assert_null(call);
        assert_int_equal(event->call, heard->call_count);
        assert_true(heard->call_count < HEARD_CALLS);
        call = &heard->calls[heard->call_count++];
        text_buffer_clear(&call->arguments);
        call->ended = false;
        snprintf(call->name, sizeof call->name, "%.*s", (int)event->length, event->bytes);
        snprintf(call->id, sizeof call->id, "%s", event->id ? event->id : "");
        return;
    default: break;
    }
    assert_non_null(call);
    assert_int_equal(event->call, heard->call_count - 1);
    text_buffer_append(&call->arguments, event->bytes, event->length);
    call->ended = event->kind == REPLY_CALL_END;
}

struct reply_event_sink heard_reply_sink(struct heard_reply *heard)
{
    return (struct reply_event_sink){heard, hear};
}

void heard_reply_clear(struct heard_reply *heard)
{
    text_buffer_clear(&heard->content);
    text_buffer_clear(&heard->reasoning);
    heard->call_count = 0;
}

void heard_reply_fini(struct heard_reply *heard)
{
    text_buffer_fini(&heard->content);
    text_buffer_fini(&heard->reasoning);
    for (size_t i = 0; i < HEARD_CALLS; i++)
        text_buffer_fini(&heard->calls[i].arguments);
}

const char *heard_text(const struct text_buffer *buffer)
{
    return buffer->bytes ? buffer->bytes : "";
}

static bool text_agrees(const char *title, const char *what, const char *one, const char *other)
{
    if (strcmp(one, other) == 0)
        return true;
    print_error("%s: %s is\n  %s\nand not\n  %s\n", title, what, one, other);
    return false;
}

bool heard_reply_agrees(const char *title, const struct heard_reply *one,
                        const struct heard_reply *other)
{
    bool agrees =
        text_agrees(title, "content", heard_text(&one->content), heard_text(&other->content)) &&
        text_agrees(title, "reasoning", heard_text(&one->reasoning), heard_text(&other->reasoning));
    if (one->call_count != other->call_count) {
        print_error("%s: %zu calls and not %zu\n", title, one->call_count, other->call_count);
        return false;
    }
    for (size_t i = 0; agrees && i < one->call_count; i++) {
        const struct heard_call *a = &one->calls[i], *b = &other->calls[i];
        agrees =
            text_agrees(title, "a name", a->name, b->name) &&
            text_agrees(title, "an id", a->id, b->id) &&
            text_agrees(title, "arguments", heard_text(&a->arguments), heard_text(&b->arguments)) &&
            text_agrees(title, "an end", a->ended ? "there" : "not there",
                        b->ended ? "there" : "not there");
    }
    return agrees;
}
