/*
 * Calls in a syntax like XML, but nothing in a value is escaped, and the first closing tag ends it.
 *
 * Two sets of marks: those between values (the next value begins, the call ends), and those that
 * end a value. Models forget closing tags, so a value also ends where the end of the call, or the
 * beginning of the next value on a new line, follows.
 */
#include "frontend/reply/tagged_arguments.h"

#include <string.h>

#include "frontend/reply/argument_type.h"

void tagged_arguments_begin(struct tagged_arguments *t, const struct tagged_syntax *syntax,
                            const struct cJSON *tool)
{
    t->syntax = syntax;
    t->tool = tool;
    t->in_value = false;
    const char *inside[sizeof syntax->values / sizeof *syntax->values +
                       sizeof syntax->call_ends / sizeof *syntax->call_ends];
    size_t count = 0;
    while (count < TAGGED_VALUE_KINDS && syntax->values[count]) {
        inside[count] = syntax->values[count];
        count++;
    }
    t->value_patterns = count;
    for (size_t i = 0;
         i < sizeof syntax->call_ends / sizeof *syntax->call_ends && syntax->call_ends[i]; i++)
        inside[count++] = syntax->call_ends[i];
    mark_matcher_init(&t->inside, inside, count);
    mark_matcher_init(&t->ends, syntax->ends, sizeof syntax->ends / sizeof *syntax->ends);
}

void tagged_arguments_fini(struct tagged_arguments *t)
{
    text_buffer_fini(&t->value);
}

static enum call_step value_begin(struct tagged_arguments *t, struct call_writer *writer,
                                  size_t pattern, const char *key, size_t key_length)
{
    char name[LIMIT_TOOL_NAME_BYTES + 1];
    memcpy(name, key, key_length);
    name[key_length] = '\0';
    t->in_value = true;
    t->is_first = true;
    t->has_line_break = false;
    t->types = pattern == TAGGED_BY_SCHEMA ? argument_type_find(t->tool, name)
               : pattern == TAGGED_STRING  ? ARGUMENT_STRING
                                           : 0;
    t->is_text = t->types == ARGUMENT_STRING;
    text_buffer_clear(&t->value);
    if (!call_writer_put_key(writer, key, key_length) ||
        (t->is_text && !call_writer_put_text(writer, "\"")))
        return CALL_BROKEN;
    return CALL_MORE;
}

static void value_put(struct tagged_arguments *t, struct call_writer *writer, char byte)
{
    if (t->is_text)
        call_writer_put_quoted(writer, &byte, 1);
    else
        text_buffer_append(&t->value, &byte, 1);
}

/* A byte that belongs to the value. */
static void value_byte(struct tagged_arguments *t, struct call_writer *writer, char byte)
{
    bool is_break = byte == '\n' && t->syntax->line_breaks;
    bool was_first = t->is_first;
    t->is_first = false;
    if (is_break && was_first)
        return;
    if (t->has_line_break)
        value_put(t, writer, '\n');
    t->has_line_break = is_break;
    if (!is_break)
        value_put(t, writer, byte);
}

static enum call_step value_end(struct tagged_arguments *t, struct call_writer *writer)
{
    t->in_value = false;
    if (t->is_text)
        return call_writer_put_text(writer, "\"") ? CALL_MORE : CALL_BROKEN;
    struct text_buffer json = {0};
    argument_type_write(t->types, t->value.bytes ? t->value.bytes : "", t->value.length, &json);
    bool is_good =
        !json.failed && !t->value.failed && call_writer_put(writer, json.bytes, json.length);
    text_buffer_fini(&json);
    return is_good ? CALL_MORE : CALL_BROKEN;
}

static enum call_step value_push(struct tagged_arguments *t, struct call_writer *writer, char byte,
                                 size_t *unread)
{
    enum mark_result result = mark_matcher_push(&t->ends, ~0u, byte);
    if (result == MARK_MORE)
        return CALL_MORE;
    if (result == MARK_NONE) {
        value_byte(t, writer, t->ends.held[0]);
        *unread = t->ends.held_bytes - 1;
        mark_matcher_reset(&t->ends);
        return CALL_MORE;
    }
    /* A mark other than the value's own closing tag is read again. */
    *unread = t->ends.found == 0 ? 0 : t->ends.held_bytes;
    mark_matcher_reset(&t->ends);
    return value_end(t, writer);
}

enum call_step tagged_arguments_push(struct tagged_arguments *t, struct call_writer *writer,
                                     char byte, size_t *unread)
{
    *unread = 0;
    if (t->in_value)
        return value_push(t, writer, byte, unread);
    if (!writer->has_begun)
        (void)call_writer_put_text(writer, "{");
    bool is_blank = byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
    if (is_blank && t->inside.held_bytes == 0)
        return CALL_MORE;
    enum mark_result result = mark_matcher_push(&t->inside, ~0u, byte);
    if (result == MARK_MORE)
        return CALL_MORE;
    *unread = result == MARK_FOUND ? t->inside.unread : t->inside.held_bytes;
    enum call_step step = CALL_BROKEN;
    if (result == MARK_FOUND && t->inside.found < t->value_patterns) {
        struct mark_span key = t->inside.trials[t->inside.found].name;
        step = value_begin(t, writer, t->inside.found, t->inside.held + key.begin,
                           (size_t)(key.end - key.begin));
    } else if (result == MARK_FOUND) {
        call_writer_close(writer);
        step = CALL_DONE;
    }
    mark_matcher_reset(&t->inside);
    return step;
}
