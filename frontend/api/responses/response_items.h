/*
 * Items of OpenAI's Responses API (messages, reasoning, calls and what came of them) as JSON text:
 * what a response was asked with, and what it answered. Text, because they are kept long and read
 * seldom: as a tree they would take ten times the memory.
 *
 * An item's id names its response, so that it is found without an index of its own: msg_ or the
 * like, the response's digits, i (input) or o (output), its place.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSE_ITEMS_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSE_ITEMS_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/base/text_buffer.h"

#define RESPONSE_ID_PREFIX "resp_"
#define RESPONSE_ID_BYTES  64u /* of an id with its NUL */

enum response_item_side { RESPONSE_INPUT, RESPONSE_OUTPUT };

struct response_item_span {
    size_t start; /* in the text */
    size_t bytes;
    const char *prefix; /* static, of an item whose text has no id: "msg_"; NULL: the text begins
                           with one */
};

/* Zeroed: empty. */
struct response_items {
    struct text_buffer text;          /* the items with commas between; failed: memory ran out */
    struct response_item_span *spans; /* [count] */
    size_t count;
    size_t capacity;
};

void response_items_fini(struct response_items *items);
/* An item is appended to the text between these two; `prefix` as above. */
void response_items_begin(struct response_items *items);
void response_items_end(struct response_items *items, const char *prefix);
/* What they take. */
size_t response_items_bytes(const struct response_items *items);

/* `response_id` as the server makes it. */
void response_item_id_write(const char *prefix, const char *response_id,
                            enum response_item_side side, size_t index, struct text_buffer *out);
/* False when `id` is none that response_item_id_write() gave. */
bool response_item_id_read(const char *id, char response_id[RESPONSE_ID_BYTES],
                           enum response_item_side *side, size_t *index);
/* The id under which the item is shown, without quotes. */
void response_items_write_id(const struct response_items *items, size_t index,
                             const char *response_id, enum response_item_side side,
                             struct text_buffer *out);
/* The item as JSON, with an id in any case. */
void response_items_write(const struct response_items *items, size_t index, const char *response_id,
                          enum response_item_side side, struct text_buffer *out);

/* The prefix of ids of items of a type: "msg_" for "message". */
const char *response_item_prefix(const char *type);

#endif
