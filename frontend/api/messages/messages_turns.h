/*
 * `system` and `messages` of Anthropic's API as the turns of a chat (chat_messages.h), the form
 * that templates expect.
 *
 * - System text, a string or blocks, becomes the first turn, without the billing line that some
 * clients add (it differs in every request and means nothing to a model).
 * - Neighbouring messages of one role are one turn. Texts of a turn are joined with newlines; with
 * images between them the turn's content is a list (chat_messages.h), in which texts without an
 * image between them are one part.
 * - tool_use becomes a call of the assistant's turn, its input an object; tool_result becomes a
 * turn of role tool at its place, with the name of the tool if the turn before has it; the text of
 * an error starts with "Error: ".
 * - Thinking with this model's signature becomes reasoning_content. Other models' thinking and
 * redacted thinking are left out.
 * - Ids of calls lose the "toolu_" that messages_format.h adds.
 */
#ifndef SHOAL_FRONTEND_API_MESSAGES_MESSAGES_TURNS_H
#define SHOAL_FRONTEND_API_MESSAGES_MESSAGES_TURNS_H

#include "frontend/api/generation/request_images.h"

struct cJSON;

#define MESSAGES_CALL_ID_PREFIX "toolu_"

/* Converts `body`: the turns become its `messages`, their images go to `images`. An error's param
 * names the place in the client's body: "messages[2].content[0]". */
enum result messages_turns_make(struct cJSON *body, const char *model_id,
                                struct request_images *images,
                                struct api_error *error) RESULT_CHECKED;

#endif
