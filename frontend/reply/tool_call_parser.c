/*
 * Tool calls in the text of a model.
 *
 * Outside of calls the parser looks for the marks of those forms that count at this place; all else
 * is text. A mark that opens a call passes the following bytes to the form's reader until it
 * reports the end of the call or that this is no call. Closing marks belong to no reader: like
 * other marks, they are removed if a call precedes them, so a model that forgets one does no harm.
 * Bytes to be read again go onto a short stack that is read before the input; they are never longer
 * than a mark, so time stays linear.
 *
 * The raw text of the current call is kept until the call is complete: text that turns out to be no
 * call is content, byte for byte.
 */
#include "frontend/reply/tool_call_parser.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/reply/argument_type.h"
#include "frontend/reply/call_envelope.h"
#include "frontend/reply/literal_arguments.h"
#include "frontend/reply/reply_sender.h"
#include "frontend/reply/tagged_arguments.h"
#include "frontend/reply/tool_form.h"
#include "proto/must.h"

#define REREAD_BYTES (4 * MARK_BYTES)

struct tool_call_parser {
    const struct tool_form *forms;
    const struct cJSON *tools;
    const struct tool_form *form; /* of the current call; NULL: in text */
    struct mark_matcher marks;
    struct call_envelope envelope;
    struct tagged_arguments tagged;
    struct literal_arguments literal;
    struct call_writer writer;
    struct reply_sender sender;
    struct text_buffer gap; /* white space that waits for text */
    size_t gap_outside;     /* bytes of it before the last call; the rest may belong to the block */
    struct text_buffer raw; /* of the current call */
    bool has_text;          /* other than white space */
    bool has_call;
    bool after_call; /* only white space and closing marks since the last call */
    bool in_block;   /* no closing mark that ends a block since the last call */
    bool is_name_known;
    bool failed;
    size_t reread_bytes;
    char reread[REREAD_BYTES]; /* a stack: the last byte is read next */
};

struct tool_call_parser *tool_call_parser_create(const struct tool_format *format,
                                                 const struct cJSON *tools,
                                                 struct reply_event_sink sink)
{
    const char *patterns[MARK_PATTERNS] = {NULL};
    struct tool_call_parser *parser = calloc(1, sizeof *parser);
    must(!tool_format_is_harmony(format));
    if (!parser)
        return NULL;
    parser->forms = tool_format_forms(format);
    parser->tools = tools;
    parser->sender.sink = sink;
    parser->sender.text_kind = REPLY_CONTENT;
    for (size_t i = 0; parser->forms[i].kind != FORM_END; i++) {
        must(i < MARK_PATTERNS);
        patterns[i] = parser->forms[i].pattern;
    }
    mark_matcher_init(&parser->marks, patterns, MARK_PATTERNS);
    return parser;
}

void tool_call_parser_destroy(struct tool_call_parser *parser)
{
    if (!parser)
        return;
    call_envelope_fini(&parser->envelope);
    tagged_arguments_fini(&parser->tagged);
    literal_arguments_fini(&parser->literal);
    call_writer_fini(&parser->writer);
    reply_sender_fini(&parser->sender);
    text_buffer_fini(&parser->gap);
    text_buffer_fini(&parser->raw);
    free(parser);
}

uint32_t tool_call_parser_count(const struct tool_call_parser *parser)
{
    return parser->sender.calls;
}

bool tool_call_parser_in_call(const struct tool_call_parser *parser)
{
    return parser->form != NULL || parser->marks.held_bytes > 0;
}

bool tool_call_parser_failed(const struct tool_call_parser *parser)
{
    return parser->failed;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static void reread(struct tool_call_parser *p, const char *bytes, size_t count)
{
    must(count <= REREAD_BYTES - p->reread_bytes);
    while (count > 0)
        p->reread[p->reread_bytes++] = bytes[--count];
}

/* --- text ------------------------------------------------------------------------------------- */

/* White space next to calls counts only between texts. */
static void text_put(struct tool_call_parser *p, const char *bytes, size_t count)
{
    if (p->has_text || !p->has_call)
        reply_sender_text(&p->sender, REPLY_CONTENT, p->gap.bytes, p->gap.length);
    text_buffer_clear(&p->gap);
    reply_sender_text(&p->sender, REPLY_CONTENT, bytes, count);
    p->has_text = true;
    p->after_call = false;
    p->in_block = false;
}

static void text_byte(struct tool_call_parser *p, char byte)
{
    if (is_blank(byte))
        text_buffer_append(&p->gap, &byte, 1);
    else
        text_put(p, &byte, 1);
}

/* The forms, as bits, whose marks may begin here. */
static uint32_t forms_here(const struct tool_call_parser *p)
{
    uint32_t here = 0;
    for (size_t i = 0; p->forms[i].kind != FORM_END; i++) {
        enum tool_form_place place = p->forms[i].place;
        bool counts = place == FORM_AT_START   ? !p->has_text && !p->has_call
                      : place == FORM_IN_BLOCK ? p->in_block
                                               : place == FORM_ANYWHERE || p->after_call;
        bool has_room = p->sender.calls < LIMIT_TOOL_CALLS;
        if (counts && (has_room || p->forms[i].kind == FORM_CLOSING))
            here |= (uint32_t)1 << i;
    }
    return here;
}

/* --- calls ------------------------------------------------------------------------------------ */

static void call_end(struct tool_call_parser *p)
{
    reply_sender_call_end(&p->sender, &p->writer);
    p->form = NULL;
    p->has_call = true;
    p->after_call = true;
    p->in_block = true;
    p->gap_outside = p->gap.length;
    text_buffer_clear(&p->raw);
}

static void call_break(struct tool_call_parser *p)
{
    if (p->writer.name[0] && p->writer.has_begun) {
        call_writer_close(&p->writer);
        reply_sender_call_end(&p->sender, &p->writer);
    }
    p->form = NULL;
    text_put(p, p->raw.bytes, p->raw.length);
    text_buffer_clear(&p->raw);
}

/* Kimi's id contains the name: functions.get_weather:0 */
static bool name_from_id(struct call_writer *writer)
{
    static const char prefix[] = "functions.";
    const char *begin = writer->id;
    if (strncmp(begin, prefix, sizeof prefix - 1) == 0)
        begin += sizeof prefix - 1;
    size_t length = strlen(begin), digits = 0;
    while (digits < length && begin[length - digits - 1] >= '0' &&
           begin[length - digits - 1] <= '9')
        digits++;
    if (digits > 0 && length > digits + 1 && begin[length - digits - 1] == ':')
        length -= digits + 1;
    return call_writer_set_name(writer, begin, length);
}

/* Decides, once the name is known, whether a call of it is allowed. */
static bool name_is_allowed(struct tool_call_parser *p)
{
    if (p->is_name_known || !p->writer.name[0])
        return true;
    p->is_name_known = true;
    if (!p->form->offered_only || tool_list_find(p->tools, p->writer.name))
        return true;
    p->writer.name[0] = '\0'; /* never announced */
    return false;
}

/* The mark of a form is complete. */
static void call_begin(struct tool_call_parser *p, const struct tool_form *form)
{
    const struct mark_trial *trial = &p->marks.trials[p->marks.found];
    const char *held = p->marks.held;
    call_writer_clear(&p->writer);
    p->form = form;
    p->is_name_known = false;
    text_buffer_append(&p->raw, held, p->marks.held_bytes - p->marks.unread);
    bool is_good = true;
    if (trial->id.end > 0)
        (void)call_writer_set_id(&p->writer, held + trial->id.begin,
                                 (size_t)(trial->id.end - trial->id.begin));
    if (trial->name.end > 0)
        is_good = call_writer_set_name(&p->writer, held + trial->name.begin,
                                       (size_t)(trial->name.end - trial->name.begin));
    else if (form->name_in_id)
        is_good = name_from_id(&p->writer);
    if (!is_good || !name_is_allowed(p)) {
        call_break(p);
        return;
    }
    switch (form->kind) {
    case FORM_ENVELOPE: call_envelope_begin(&p->envelope, form->place == FORM_AT_START); break;
    case FORM_OBJECT: (void)call_writer_put_text(&p->writer, "{"); break;
    case FORM_TAGGED:
        tagged_arguments_begin(&p->tagged, form->tagged, tool_list_find(p->tools, p->writer.name));
        break;
    default: literal_arguments_begin(&p->literal, form->literal); break;
    }
}

static enum call_step object_push(struct call_writer *writer, char byte, size_t *unread)
{
    bool is_good = call_writer_put(writer, &byte, 1);
    *unread = !is_good;
    return !is_good ? CALL_BROKEN : writer->is_whole ? CALL_DONE : CALL_MORE;
}

static void call_push(struct tool_call_parser *p, char byte)
{
    enum call_step step;
    size_t unread = 0;
    text_buffer_append(&p->raw, &byte, 1);
    switch (p->form->kind) {
    case FORM_ENVELOPE: step = call_envelope_push(&p->envelope, &p->writer, byte, &unread); break;
    case FORM_OBJECT: step = object_push(&p->writer, byte, &unread); break;
    case FORM_TAGGED: step = tagged_arguments_push(&p->tagged, &p->writer, byte, &unread); break;
    default: step = literal_arguments_push(&p->literal, &p->writer, byte, &unread); break;
    }
    if (p->raw.failed)
        return;
    reread(p, p->raw.bytes + p->raw.length - unread, unread);
    p->raw.length -= unread;
    if (step == CALL_BROKEN || !name_is_allowed(p) || p->raw.length > LIMIT_TOOL_CALL_BYTES)
        call_break(p);
    else if (step == CALL_DONE)
        call_end(p);
}

/* --- the stream ------------------------------------------------------------------------------- */

static void mark_found(struct tool_call_parser *p)
{
    const struct tool_form *form = &p->forms[p->marks.found];
    reread(p, p->marks.held + p->marks.held_bytes - p->marks.unread, p->marks.unread);
    if (p->after_call && (form->kind == FORM_CLOSING || form->place == FORM_IN_BLOCK))
        p->gap.length = p->gap_outside;
    if (form->kind == FORM_CLOSING)
        p->in_block = p->in_block && !form->closes_block;
    else
        call_begin(p, form);
    mark_matcher_reset(&p->marks);
}

static void mark_missed(struct tool_call_parser *p)
{
    reread(p, p->marks.held + 1, p->marks.held_bytes - 1);
    text_byte(p, p->marks.held[0]);
    mark_matcher_reset(&p->marks);
}

static void byte_push(struct tool_call_parser *p, char byte)
{
    if (p->form) {
        call_push(p, byte);
        return;
    }
    if (p->marks.held_bytes == 0 && is_blank(byte)) {
        text_byte(p, byte); /* no mark begins with blanks */
        return;
    }
    uint32_t here = p->marks.held_bytes == 0 ? forms_here(p) : 0;
    enum mark_result result = mark_matcher_push(&p->marks, here, byte);
    if (result == MARK_FOUND)
        mark_found(p);
    else if (result == MARK_NONE)
        mark_missed(p);
}

static void reread_all(struct tool_call_parser *p)
{
    while (p->reread_bytes > 0)
        byte_push(p, p->reread[--p->reread_bytes]);
}

/* Sends the certain part. */
static void send_certain(struct tool_call_parser *p)
{
    p->failed = p->failed || p->raw.failed || p->gap.failed || p->sender.text.failed ||
                p->writer.arguments.failed;
    if (p->failed)
        return;
    if (p->form)
        reply_sender_call(&p->sender, &p->writer);
    reply_sender_flush(&p->sender, false);
}

void tool_call_parser_push(struct tool_call_parser *p, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length && !p->failed; i++) {
        byte_push(p, bytes[i]);
        reread_all(p);
    }
    send_certain(p);
}

/* Marks still held at the end are text; a closing mark may be incomplete. */
static void held_release(struct tool_call_parser *p)
{
    while (!p->form && p->marks.held_bytes > 0) {
        uint32_t alive = mark_matcher_alive(&p->marks), closing = 0;
        for (size_t i = 0; p->forms[i].kind != FORM_END; i++)
            closing |= p->forms[i].kind == FORM_CLOSING ? (uint32_t)1 << i : 0;
        if (p->after_call && (alive & closing) != 0) {
            mark_matcher_reset(&p->marks);
            return;
        }
        mark_missed(p);
        reread_all(p);
    }
}

void tool_call_parser_finish(struct tool_call_parser *p, bool truncated)
{
    if (p->failed)
        return;
    held_release(p);
    if (p->form) {
        bool only_end_lacks = p->form->kind == FORM_TAGGED && !truncated && !p->tagged.in_value &&
                              p->tagged.inside.held_bytes == 0;
        if (only_end_lacks)
            call_writer_close(&p->writer);
        if (p->writer.name[0] && p->writer.is_whole)
            call_end(p);
        else if (!(truncated && p->writer.name[0] && p->writer.has_begun))
            call_break(p);
    }
    if (!p->form && !p->after_call)
        reply_sender_text(&p->sender, REPLY_CONTENT, p->gap.bytes, p->gap.length);
    send_certain(p);
}
