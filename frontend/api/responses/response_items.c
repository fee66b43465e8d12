/*
 * Items as one text with a table of their start and end.
 *
 * A client's items may have ids or not. Those without get one when they are shown, because the
 * response's id is not known while its request is read.
 */
#include "frontend/api/responses/response_items.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *type;
    const char *prefix;
} prefixes[] = {
    {"message", "msg_"},          {"reasoning", "rs_"},
    {"function_call", "fc_"},     {"function_call_output", "fco_"},
    {"custom_tool_call", "ctc_"}, {"custom_tool_call_output", "ctco_"},
    {"local_shell_call", "lsh_"}, {"local_shell_call_output", "lsho_"},
    {"shell_call", "sh_"},        {"shell_call_output", "sho_"},
    {"apply_patch_call", "apc_"}, {"apply_patch_call_output", "apco_"},
};

static const char other_prefix[] = "item_";

const char *response_item_prefix(const char *type)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strcmp(prefixes[i].type, type) == 0)
            return prefixes[i].prefix;
    }
    return other_prefix;
}

const char *response_item_prefix_known(const char *prefix)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strcmp(prefixes[i].prefix, prefix) == 0)
            return prefixes[i].prefix;
    }
    return strcmp(other_prefix, prefix) == 0 ? other_prefix : NULL;
}

void response_items_fini(struct response_items *items)
{
    text_buffer_fini(&items->text);
    free(items->spans);
    *items = (struct response_items){0};
}

void response_items_begin(struct response_items *items)
{
    if (items->count == items->capacity) {
        size_t capacity = items->capacity ? 2 * items->capacity : 4;
        struct response_item_span *grown = realloc(items->spans, capacity * sizeof *grown);
        if (!grown) {
            items->text.failed = true;
            return;
        }
        items->spans = grown;
        items->capacity = capacity;
    }
    if (items->count > 0)
        text_buffer_append(&items->text, ",", 1);
    items->spans[items->count] = (struct response_item_span){.start = items->text.length};
}

void response_items_end(struct response_items *items, const char *prefix)
{
    if (items->text.failed)
        return;
    struct response_item_span *span = &items->spans[items->count++];
    span->bytes = items->text.length - span->start;
    span->prefix = prefix;
}

size_t response_items_bytes(const struct response_items *items)
{
    return items->text.capacity + items->capacity * sizeof items->spans[0];
}

/* --- ids ------------------------------------------------------------------------------------- */

void response_item_id_write(const char *prefix, const char *response_id,
                            enum response_item_side side, size_t index, struct text_buffer *out)
{
    text_buffer_append_text(out, prefix);
    text_buffer_append_text(out, response_id + strlen(RESPONSE_ID_PREFIX));
    text_buffer_append_text(out, side == RESPONSE_INPUT ? "i" : "o");
    text_buffer_append_whole(out, index, 4);
}

bool response_item_id_read(const char *id, char response_id[RESPONSE_ID_BYTES],
                           enum response_item_side *side, size_t *index)
{
    const char *digits = strchr(id, '_');
    if (!digits)
        return false;
    digits++;
    size_t bytes = strspn(digits, "0123456789abcdef");
    const char *mark = digits + bytes;
    size_t places = *mark ? strspn(mark + 1, "0123456789") : 0;
    if ((*mark != 'i' && *mark != 'o') || places == 0 || places > 9 || mark[1 + places] != '\0' ||
        bytes + sizeof RESPONSE_ID_PREFIX > RESPONSE_ID_BYTES)
        return false;
    snprintf(response_id, RESPONSE_ID_BYTES, RESPONSE_ID_PREFIX "%.*s", (int)bytes, digits);
    *side = *mark == 'i' ? RESPONSE_INPUT : RESPONSE_OUTPUT;
    *index = strtoul(mark + 1, NULL, 10);
    return true;
}

void response_items_write_id(const struct response_items *items, size_t index,
                             const char *response_id, enum response_item_side side,
                             struct text_buffer *out)
{
    static const char before[] = "{\"id\":\"";
    const struct response_item_span *span = &items->spans[index];
    const char *id = items->text.bytes + span->start + sizeof before - 1;
    if (span->prefix)
        response_item_id_write(span->prefix, response_id, side, index, out);
    else
        text_buffer_append(out, id, strcspn(id, "\""));
}

void response_items_write(const struct response_items *items, size_t index, const char *response_id,
                          enum response_item_side side, struct text_buffer *out)
{
    const struct response_item_span *span = &items->spans[index];
    const char *bytes = items->text.bytes + span->start;
    size_t count = span->bytes;
    if (span->prefix) {
        text_buffer_append_text(out, "{\"id\":\"");
        response_item_id_write(span->prefix, response_id, side, index, out);
        text_buffer_append_text(out, "\",");
        bytes++; /* the opening brace */
        count--;
    }
    text_buffer_append(out, bytes, count);
}
