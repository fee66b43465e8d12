/*
 * The shapes of the Responses API's items: where their text is, and how a client's item is stored.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSE_ITEM_TEXT_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSE_ITEM_TEXT_H

#include "frontend/api/responses/response_items.h"

struct cJSON;

/* Its type ("message" if it has only a role, "item_reference" if it has only an id), or NULL. */
const char *response_item_type(const struct cJSON *item);
/* The member that holds the text of a content part of this type; NULL: it is not a text part. */
const char *response_item_text_member(const char *part_type);
/* NULL if it has no text. */
const char *response_item_text_of_part(const struct cJSON *part);
/* Appends the text of a reasoning item: its content, otherwise its summary. False if one of these
 * is not a list of text parts. */
bool response_item_text_of_reasoning(const struct cJSON *item, struct text_buffer *out);

/* Appends a checked item of type message, reasoning, a call or the output of one (images as they
 * were named) in the API's shape. A string id of letters, digits, '_' and '-' is kept;
 * otherwise the item gets an id. */
void response_item_text_keep(const struct cJSON *item, struct response_items *items);

#endif
