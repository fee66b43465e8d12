/*
 * Answers in harmony: messages with headers.
 *
 * A message's header names its channel and, if it is a call, the tool; the body follows <|message|>
 * and ends with one of three marks. Two states: in a header, which is collected until its mark
 * comes, and in a body, which is passed on as the kind that its header named. A header is expected
 * after a body's end; text that cannot begin a header is content.
 */
#include "frontend/reply/harmony_parser.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/reply/mark_matcher.h"
#include "frontend/reply/reply_sender.h"

#define HEADER_BYTES (2 * LIMIT_TOOL_NAME_BYTES) /* role, channel, recipient, constraint */

/* The marks from MARK_END on end a body. */
enum harmony_mark { MARK_START, MARK_CHANNEL, MARK_CONSTRAIN, MARK_MESSAGE, MARK_END };

const char *const harmony_marks[HARMONY_MARK_COUNT] = {[MARK_START] = "<|start|>",
                                                       [MARK_CHANNEL] = "<|channel|>",
                                                       [MARK_CONSTRAIN] = "<|constrain|>",
                                                       [MARK_MESSAGE] = "<|message|>",
                                                       [MARK_END] = "<|end|>",
                                                       "<|call|>",
                                                       "<|return|>"};

enum harmony_body { IN_HEADER, IN_TEXT, IN_CALL };

struct harmony_parser {
    bool with_calls;
    bool failed;
    bool has_start;   /* the current header began with <|start|> */
    bool needs_break; /* before the next text of this message, if its kind occurred before */
    bool has_kind[REPLY_REASONING + 1];
    enum harmony_body body;
    enum reply_event_kind kind; /* of a text body */
    struct mark_matcher matcher;
    struct call_writer writer;
    struct reply_sender sender;
    struct text_buffer header; /* in the body of a call: its body too */
    size_t reread_bytes;
    char reread[64]; /* a stack: the last byte is read next */
};

struct harmony_parser *harmony_parser_create(bool with_calls, struct reply_event_sink sink)
{
    struct harmony_parser *parser = calloc(1, sizeof *parser);
    if (!parser)
        return NULL;
    parser->with_calls = with_calls;
    parser->sender.sink = sink;
    parser->sender.text_kind = REPLY_CONTENT;
    mark_matcher_init(&parser->matcher, harmony_marks, HARMONY_MARK_COUNT);
    return parser;
}

void harmony_parser_destroy(struct harmony_parser *parser)
{
    if (!parser)
        return;
    call_writer_fini(&parser->writer);
    reply_sender_fini(&parser->sender);
    text_buffer_fini(&parser->header);
    free(parser);
}

enum harmony_place harmony_parser_place(const struct harmony_parser *parser)
{
    if (parser->body == IN_HEADER)
        return HARMONY_MARKS;
    if (parser->body == IN_CALL)
        return HARMONY_CALL;
    return parser->kind == REPLY_REASONING ? HARMONY_REASONING : HARMONY_CONTENT;
}

uint32_t harmony_parser_count(const struct harmony_parser *parser)
{
    return parser->sender.calls;
}

bool harmony_parser_failed(const struct harmony_parser *parser)
{
    return parser->failed;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static void text_put(struct harmony_parser *p, const char *bytes, size_t count)
{
    if (count == 0)
        return;
    if (p->needs_break && p->has_kind[p->kind])
        reply_sender_text(&p->sender, p->kind, "\n", 1);
    p->needs_break = false;
    p->has_kind[p->kind] = true;
    reply_sender_text(&p->sender, p->kind, bytes, count);
}

static void text_begin(struct harmony_parser *p, enum reply_event_kind kind)
{
    p->body = IN_TEXT;
    p->kind = kind;
    p->needs_break = true;
}

static void header_begin(struct harmony_parser *p, bool has_start)
{
    p->body = IN_HEADER;
    p->has_start = has_start;
    text_buffer_clear(&p->header);
}

/* The collected header is text. */
static void header_release(struct harmony_parser *p)
{
    text_begin(p, REPLY_CONTENT);
    text_put(p, p->header.bytes, p->header.length);
    text_buffer_clear(&p->header);
}

/* The word after `label` in the header, if `label` stands at the header's beginning or after a
 * blank or a mark; else length 0. */
static const char *header_word(const struct text_buffer *header, const char *label, size_t *length)
{
    const char *at = header->bytes;
    *length = 0;
    while (at && (at = strstr(at, label)) != NULL) {
        const char *word = at + strlen(label);
        if (at == header->bytes || is_blank(at[-1]) || at[-1] == '>' || label[0] == '<') {
            *length = strcspn(word, " \n\r\t<");
            return word;
        }
        at = word;
    }
    return NULL;
}

/* <|message|>: the header is complete and decides the kind of the body. */
static void header_end(struct harmony_parser *p)
{
    static const char functions[] = "functions.";
    size_t length, channel_length;
    const char *recipient = header_word(&p->header, "to=", &length);
    const char *channel = header_word(&p->header, "<|channel|>", &channel_length);
    bool is_analysis = channel_length == 8 && memcmp(channel, "analysis", 8) == 0;
    if (length > sizeof functions - 1 && strncmp(recipient, functions, sizeof functions - 1) == 0) {
        recipient += sizeof functions - 1;
        length -= sizeof functions - 1;
    }
    call_writer_clear(&p->writer);
    if (length > 0 && p->with_calls && p->sender.calls < LIMIT_TOOL_CALLS &&
        call_writer_set_name(&p->writer, recipient, length)) {
        text_buffer_append_text(&p->header, harmony_marks[MARK_MESSAGE]);
        p->body = IN_CALL;
    } else {
        text_begin(p, is_analysis && length == 0 ? REPLY_REASONING : REPLY_CONTENT);
    }
}

/* Without <|start|> a header is a channel, perhaps with a recipient before it. */
static bool header_is_possible(const struct harmony_parser *p)
{
    static const char label[] = "to=";
    if (p->header.length > HEADER_BYTES)
        return false;
    if (p->has_start)
        return true;
    if (p->header.bytes[0] == '<')
        return true; /* a mark: only complete marks get here */
    size_t length = p->header.length < sizeof label - 1 ? p->header.length : sizeof label - 1;
    return memcmp(p->header.bytes, label, length) == 0;
}

static void call_break(struct harmony_parser *p)
{
    if (p->writer.has_begun) {
        call_writer_close(&p->writer);
        reply_sender_call_end(&p->sender, &p->writer);
    }
    header_release(p);
}

/* A call ends with its arguments; text after them is content. */
static void call_end(struct harmony_parser *p)
{
    reply_sender_call_end(&p->sender, &p->writer);
    header_begin(p, false);
}

static void call_byte(struct harmony_parser *p, char byte)
{
    text_buffer_append(&p->header, &byte, 1);
    if (is_blank(byte) && !p->writer.has_begun)
        return;
    if (!call_writer_put(&p->writer, &byte, 1) || p->header.length > LIMIT_TOOL_CALL_BYTES)
        call_break(p);
    else if (p->writer.is_whole)
        call_end(p);
}

static void plain_byte(struct harmony_parser *p, char byte)
{
    if (p->body == IN_TEXT) {
        text_put(p, &byte, 1);
    } else if (p->body == IN_CALL) {
        call_byte(p, byte);
    } else if (!is_blank(byte) || p->header.length > 0 || p->has_start) {
        text_buffer_append(&p->header, &byte, 1);
        if (!p->header.failed && (byte == '<' || !header_is_possible(p)))
            header_release(p);
    }
}

/* A mark that ends a body, or a header that has no <|message|>. */
static void body_end(struct harmony_parser *p)
{
    if (p->body == IN_CALL && !p->writer.has_begun) {
        call_writer_close(&p->writer);
        call_end(p);
    } else if (p->body == IN_CALL) {
        call_break(p);
    } else if (p->body == IN_HEADER && p->header.length > 0) {
        header_release(p);
    }
}

static void mark_found(struct harmony_parser *p, size_t mark)
{
    bool is_header = p->body == IN_HEADER;
    if (is_header && mark == MARK_MESSAGE) {
        header_end(p);
    } else if (is_header && (mark == MARK_CHANNEL || mark == MARK_CONSTRAIN)) {
        text_buffer_append_text(&p->header, harmony_marks[mark]);
    } else if (mark == MARK_MESSAGE || mark == MARK_CONSTRAIN) {
        for (const char *byte = harmony_marks[mark]; *byte; byte++)
            plain_byte(p, *byte); /* no header precedes it: plain text */
    } else {
        body_end(p);
        header_begin(p, mark == MARK_START);
        if (mark == MARK_CHANNEL)
            text_buffer_append_text(&p->header, harmony_marks[mark]);
    }
}

static void byte_push(struct harmony_parser *p, char byte)
{
    enum mark_result result = mark_matcher_push(&p->matcher, ~0u, byte);
    if (result == MARK_MORE)
        return;
    if (result == MARK_FOUND) {
        mark_found(p, p->matcher.found);
    } else {
        for (size_t i = p->matcher.held_bytes; i > 1; i--)
            p->reread[p->reread_bytes++] = p->matcher.held[i - 1];
        plain_byte(p, p->matcher.held[0]);
    }
    mark_matcher_reset(&p->matcher);
}

static void reread_all(struct harmony_parser *p)
{
    while (p->reread_bytes > 0)
        byte_push(p, p->reread[--p->reread_bytes]);
}

static void send_certain(struct harmony_parser *p)
{
    p->failed =
        p->failed || p->header.failed || p->sender.text.failed || p->writer.arguments.failed;
    if (p->failed)
        return;
    if (p->body == IN_CALL)
        reply_sender_call(&p->sender, &p->writer);
    reply_sender_flush(&p->sender, false);
}

void harmony_parser_push(struct harmony_parser *p, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length && !p->failed; i++) {
        byte_push(p, bytes[i]);
        reread_all(p);
        p->failed = p->header.failed;
    }
    send_certain(p);
}

void harmony_parser_finish(struct harmony_parser *p, bool truncated)
{
    if (p->failed)
        return;
    if (p->body == IN_HEADER &&
        (p->has_start || p->header.length > 0 || p->matcher.held_bytes > 1)) {
        text_buffer_append(&p->header, p->matcher.held, p->matcher.held_bytes);
        mark_matcher_reset(&p->matcher); /* an incomplete mark */
    }
    while (p->matcher.held_bytes > 0) {
        for (size_t i = p->matcher.held_bytes; i > 1; i--)
            p->reread[p->reread_bytes++] = p->matcher.held[i - 1];
        plain_byte(p, p->matcher.held[0]);
        mark_matcher_reset(&p->matcher);
        reread_all(p);
    }
    size_t length = 0;
    if (p->body == IN_HEADER && p->header.length > 0)
        (void)header_word(&p->header, "to=", &length);
    if (p->body == IN_HEADER ? length > 0 : p->body == IN_CALL && !truncated)
        body_end(p);
    else if (p->body == IN_CALL && !p->writer.has_begun)
        call_break(p);
    send_certain(p);
}
