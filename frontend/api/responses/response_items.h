/*
 * Items of OpenAI's Responses API (messages, reasoning, calls and their results) as JSON text: the
 * input and output of a response. They are kept long and read seldom, and a tree would take ten
 * times the memory.
 *
 * An item's id names its response, so that it is found without an index: msg_ or another prefix,
 * the response's digits, i (input) or o (output), its position.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSE_ITEMS_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSE_ITEMS_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/base/text_buffer.h"

#define RESPONSE_ID_PREFIX "resp_"
#define RESPONSE_ID_BYTES  64u /* with the NUL */

enum response_item_side { RESPONSE_INPUT, RESPONSE_OUTPUT };

struct response_item_span {
    size_t start; /* in the text */
    size_t bytes;
    const char *prefix; /* static; of an item whose text has no id: "msg_"; NULL: the text starts
                           with one */
};

/* Zeroed: empty. */
struct response_items {
    struct text_buffer text;          /* the items, separated by commas; failed: out of memory */
    struct response_item_span *spans; /* [count] */
    size_t count;
    size_t capacity;
};

void response_items_fini(struct response_items *items);
/* An item is appended to the text between these two calls; `prefix` as above. */
void response_items_begin(struct response_items *items);
void response_items_end(struct response_items *items, const char *prefix);
/* Bytes that they take. */
size_t response_items_bytes(const struct response_items *items);

/* `response_id` as the server makes it. */
void response_item_id_write(const char *prefix, const char *response_id,
                            enum response_item_side side, size_t index, struct text_buffer *out);
/* False if response_item_id_write() never wrote such an `id`. */
bool response_item_id_read(const char *id, char response_id[RESPONSE_ID_BYTES],
                           enum response_item_side *side, size_t *index);
/* Writes the id under which the item is shown, without quotes. */
void response_items_write_id(const struct response_items *items, size_t index,
                             const char *response_id, enum response_item_side side,
                             struct text_buffer *out);
/* Writes the item as JSON, always with an id. */
void response_items_write(const struct response_items *items, size_t index, const char *response_id,
                          enum response_item_side side, struct text_buffer *out);

/* Prefix of item ids of a type: "msg_" for "message". */
const char *response_item_prefix(const char *type);
/* The static string that equals `prefix`; NULL: there is no such prefix. */
const char *response_item_prefix_known(const char *prefix);

#endif
