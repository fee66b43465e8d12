/*
 * The JSON object in which most models wrap a call.
 *
 * The envelope's own level is parsed here, so that the arguments can be streamed while they are
 * written: keys and short values are collected and decoded, arguments go straight to the writer,
 * other members are checked and dropped. A missing last brace is tolerated: once the arguments are
 * whole and the next byte cannot continue the object, the call ends.
 */
#include "frontend/reply/call_envelope.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

/* Of a key, a name or an id, quotes included; an escape lengthens a byte at most sixfold. */
#define ENVELOPE_TEXT_BYTES (6 * LIMIT_TOOL_NAME_BYTES + 2)

enum envelope_state { KEY_OR_END, KEY, KEY_TEXT, COLON, VALUE, VALUE_TEXT, AFTER };
enum envelope_member { OTHER, NAME, ARGUMENTS, ID, FUNCTION };

static const struct {
    const char *key;
    enum envelope_member member;
} members[] = {
    {"name", NAME},  {"tool_name", NAME},       {"function", FUNCTION},
    {"id", ID},      {"tool_call_id", ID},      {"arguments", ARGUMENTS},
    {"type", OTHER}, {"parameters", ARGUMENTS},
};

void call_envelope_begin(struct call_envelope *e, bool known_only)
{
    struct text_buffer text = e->text;
    text_buffer_clear(&text);
    *e = (struct call_envelope){.state = KEY_OR_END, .known_only = known_only, .text = text};
}

void call_envelope_fini(struct call_envelope *e)
{
    text_buffer_fini(&e->text);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The decoded JSON string in `text`; NULL if it is not one. The caller frees it. */
static char *text_decode(const struct text_buffer *text)
{
    cJSON *value = text->failed ? NULL : cJSON_ParseWithLength(text->bytes, text->length);
    char *decoded = cJSON_IsString(value) ? value->valuestring : NULL;
    if (decoded)
        value->valuestring = NULL;
    cJSON_Delete(value);
    return decoded;
}

/* A call needs no more than {} and perhaps a name. */
static enum call_step envelope_end(struct call_envelope *e, struct call_writer *writer)
{
    if (e->is_wrapped) {
        e->is_wrapped = false;
        e->state = AFTER;
        return CALL_MORE;
    }
    if (!writer->name[0])
        return CALL_BROKEN;
    call_writer_close(writer);
    return CALL_DONE;
}

static enum call_step key_end(struct call_envelope *e)
{
    char *key = text_decode(&e->text);
    size_t m = 0;
    while (key && m < sizeof members / sizeof members[0] && strcmp(key, members[m].key) != 0)
        m++;
    bool is_known = key && m < sizeof members / sizeof members[0];
    free(key);
    if (e->known_only && !is_known)
        return CALL_BROKEN;
    e->known_only = false;
    e->member = (uint8_t)(is_known ? members[m].member : OTHER);
    e->state = COLON;
    return CALL_MORE;
}

/* Arguments that came as a string with JSON in it. */
static bool arguments_from_text(struct call_writer *writer, const char *text)
{
    struct text_buffer json = {0};
    bool is_object = json_value_scanner_read(text, strlen(text), &json) && !json.failed &&
                     json.bytes[0] == '{' && call_writer_put(writer, json.bytes, json.length);
    text_buffer_fini(&json);
    return is_object;
}

/* A collected value is complete. */
static enum call_step value_end(struct call_envelope *e, struct call_writer *writer)
{
    e->state = AFTER;
    if (e->member == OTHER)
        return CALL_MORE;
    if (e->member == ARGUMENTS && e->text.length == 4 && e->text.bytes[0] == 'n') {
        (void)call_writer_put_text(writer, "{}");
        return CALL_MORE;
    }
    char *text = text_decode(&e->text);
    bool is_good = text != NULL;
    if (is_good && e->member == ARGUMENTS)
        is_good = arguments_from_text(writer, text);
    else if (is_good && e->member == ID && !writer->has_begun)
        (void)call_writer_set_id(writer, text, strlen(text));
    else if (is_good && e->member != ID)
        is_good = !writer->name[0] && call_writer_set_name(writer, text, strlen(text));
    free(text);
    return is_good ? CALL_MORE : CALL_BROKEN;
}

static enum call_step value_begin(struct call_envelope *e, char byte)
{
    if (e->member == FUNCTION && byte == '{') {
        if (e->is_wrapped)
            return CALL_BROKEN;
        e->is_wrapped = true;
        e->state = KEY_OR_END;
        return CALL_MORE;
    }
    if (e->member == ID && byte != '"')
        e->member = OTHER; /* a number or null: no id */
    if (e->member == ARGUMENTS) {
        if (e->has_arguments)
            return CALL_BROKEN;
        e->has_arguments = true;
    }
    bool is_direct = e->member == ARGUMENTS && byte == '{';
    if (!is_direct && e->member != OTHER && byte != '"' && !(e->member == ARGUMENTS && byte == 'n'))
        return CALL_BROKEN;
    e->state = VALUE_TEXT;
    e->scanner = (struct json_value_scanner){0};
    text_buffer_clear(&e->text);
    return CALL_MORE;
}

/* One byte of the current value. */
static enum call_step value_push(struct call_envelope *e, struct call_writer *writer, char byte,
                                 bool is_first, size_t *unread)
{
    if (e->member == ARGUMENTS && (is_first ? byte == '{' : e->text.length == 0)) {
        if (!call_writer_put(writer, &byte, 1))
            return CALL_BROKEN;
        if (writer->is_whole)
            e->state = AFTER;
        return CALL_MORE;
    }
    struct text_buffer *out = e->member == OTHER ? NULL : &e->text;
    enum json_scan scan = json_value_scanner_push(&e->scanner, byte, out);
    if (scan == JSON_SCAN_BROKEN ||
        (e->member != ARGUMENTS && e->text.length > ENVELOPE_TEXT_BYTES))
        return CALL_BROKEN;
    if (scan == JSON_SCAN_MORE)
        return CALL_MORE;
    *unread = scan == JSON_SCAN_ENDED;
    return value_end(e, writer);
}

static enum call_step key_push(struct call_envelope *e, char byte)
{
    if (e->state != KEY_TEXT) {
        if (byte != '"')
            return CALL_BROKEN;
        e->scanner = (struct json_value_scanner){0};
        text_buffer_clear(&e->text);
        e->state = KEY_TEXT;
    }
    enum json_scan scan = json_value_scanner_push(&e->scanner, byte, &e->text);
    if (e->text.length > ENVELOPE_TEXT_BYTES)
        return CALL_BROKEN;
    return scan == JSON_SCAN_DONE ? key_end(e) : CALL_MORE;
}

static enum call_step after_push(struct call_envelope *e, struct call_writer *writer, char byte,
                                 size_t *unread)
{
    if (byte == ',') {
        e->state = KEY;
        return CALL_MORE;
    }
    if (byte == '}')
        return envelope_end(e, writer);
    if (!writer->name[0] || !writer->is_whole)
        return CALL_BROKEN;
    *unread = 1; /* the missing brace */
    return CALL_DONE;
}

enum call_step call_envelope_push(struct call_envelope *e, struct call_writer *writer, char byte,
                                  size_t *unread)
{
    enum call_step step;
    *unread = 0;
    if (e->state == VALUE_TEXT)
        step = value_push(e, writer, byte, false, unread);
    else if (e->state == KEY_TEXT)
        step = key_push(e, byte);
    else if (is_blank(byte))
        return CALL_MORE;
    else if (e->state == AFTER)
        step = after_push(e, writer, byte, unread);
    else if (e->state == COLON) {
        e->state = VALUE;
        step = byte == ':' ? CALL_MORE : CALL_BROKEN;
    } else if (e->state == VALUE) {
        step = value_begin(e, byte);
        if (step == CALL_MORE && e->state == VALUE_TEXT)
            step = value_push(e, writer, byte, true, unread);
    } else if (e->state == KEY_OR_END && byte == '}') {
        step = envelope_end(e, writer);
    } else {
        step = key_push(e, byte);
    }
    if (step == CALL_BROKEN)
        *unread = 1;
    return step;
}
