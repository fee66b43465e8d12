/*
 * The shapes of the Responses API's items: where their text is, and how an item of a client is
 * written into what is kept.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSE_ITEM_TEXT_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSE_ITEM_TEXT_H

#include "frontend/api/responses/response_items.h"

struct cJSON;

/* Its type ("message" where there is none but a role, "item_reference" where there is nothing but
 * an id), or NULL. */
const char *response_item_type(const struct cJSON *item);
/* Which member of a content part of this type is its text; NULL: none, it is no text. */
const char *response_item_text_member(const char *part_type);
/* NULL when it lacks its text. */
const char *response_item_text_of_part(const struct cJSON *part);
/* Appends the text of a reasoning item: its content, or where it has none its summary. False when
 * one of these is not a list of text parts. */
bool response_item_text_of_reasoning(const struct cJSON *item, struct text_buffer *out);

/* Appends a checked item (its pictures as they were named) of one of the types message, reasoning,
 * function_call and function_call_output in the shape in which the API shows it. A string id of
 * letters, digits, '_' and '-' is kept; others get one of ours. */
void response_item_text_keep(const struct cJSON *item, struct response_items *items);

#endif
