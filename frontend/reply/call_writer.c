/*
 * Arguments of one call, from any of the readers.
 *
 * All bytes pass one json_value_scanner, so that the arguments are valid JSON by construction and
 * can be closed wherever a reader gives up.
 */
#include "frontend/reply/call_writer.h"

#include <string.h>

#include "frontend/base/utf8_stream.h"

void call_writer_clear(struct call_writer *writer)
{
    text_buffer_clear(&writer->arguments);
    writer->json = (struct json_value_scanner){0};
    writer->name[0] = '\0';
    writer->id[0] = '\0';
    writer->has_begun = false;
    writer->is_whole = false;
}

void call_writer_fini(struct call_writer *writer)
{
    text_buffer_fini(&writer->arguments);
}

static bool set_text(char *target, const char *text, size_t length)
{
    if (length == 0 || length > LIMIT_TOOL_NAME_BYTES)
        return false;
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    }
    memcpy(target, text, length);
    target[length] = '\0';
    return true;
}

bool call_writer_set_name(struct call_writer *writer, const char *text, size_t length)
{
    return set_text(writer->name, text, length);
}

bool call_writer_set_id(struct call_writer *writer, const char *text, size_t length)
{
    return set_text(writer->id, text, length);
}

bool call_writer_put(struct call_writer *writer, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (writer->is_whole || (!writer->has_begun && bytes[i] != '{'))
            return false;
        enum json_scan scan = json_value_scanner_push(&writer->json, bytes[i], &writer->arguments);
        if (scan == JSON_SCAN_BROKEN)
            return false;
        writer->has_begun = true;
        writer->is_whole = scan == JSON_SCAN_DONE;
    }
    return true;
}

bool call_writer_put_text(struct call_writer *writer, const char *text)
{
    return call_writer_put(writer, text, strlen(text));
}

void call_writer_put_quoted(struct call_writer *writer, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == '"' || bytes[i] == '\\')
            (void)call_writer_put(writer, "\\", 1);
        (void)call_writer_put(writer, bytes + i, 1); /* the scanner escapes control characters */
    }
}

bool call_writer_put_key(struct call_writer *writer, const char *key, size_t length)
{
    /* A first member follows the object's brace without a comma. */
    if (!json_value_scanner_is_fresh(&writer->json) && !call_writer_put(writer, ",", 1))
        return false;
    if (!call_writer_put(writer, "\"", 1))
        return false;
    call_writer_put_quoted(writer, key, length);
    return call_writer_put_text(writer, "\":");
}

void call_writer_close(struct call_writer *writer)
{
    if (writer->is_whole)
        return;
    if (!writer->has_begun)
        (void)call_writer_put(writer, "{", 1);
    /* A character is sent only when it is complete. */
    writer->arguments.length = utf8_whole_bytes(writer->arguments.bytes, writer->arguments.length);
    json_value_scanner_close(&writer->json, &writer->arguments);
    writer->is_whole = true;
}
