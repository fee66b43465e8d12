/*
 * `system` and `messages` of Anthropic's API as the turns of a chat (chat_messages.h), in which
 * templates are written.
 *
 * - System text, a string or blocks, becomes the first turn, without the billing line that some
 *   clients put into it (it is another one for every request and says nothing to a model).
 * - Neighbouring messages of one role are one turn. Texts of a turn are joined by newlines; where
 *   pictures stand between them the turn's content is a list (chat_messages.h), in which texts
 *   without a picture between them are one part.
 * - tool_use becomes a call of the assistant's turn, its input as an object; tool_result becomes a
 *   turn of the role tool at its place, with the name of the tool where the turn before tells it;
 *   an error's words begin with "Error: ".
 * - Thinking that bears this model's signature becomes reasoning_content. Other models' thinking
 *   and redacted thinking are left out.
 * - Ids of calls lose the "toolu_" that messages_format.h puts before them.
 */
#ifndef SHOAL_FRONTEND_API_MESSAGES_MESSAGES_TURNS_H
#define SHOAL_FRONTEND_API_MESSAGES_MESSAGES_TURNS_H

#include "frontend/api/generation/request_images.h"

struct cJSON;

#define MESSAGES_CALL_ID_PREFIX "toolu_"

/* Takes what it needs out of `body` and leaves the list of turns as the body's `messages`, their
 * pictures in `images`. An error's param names the place in the client's own body:
 * "messages[2].content[0]". */
enum result messages_turns_make(struct cJSON *body, const char *model_id,
                                struct request_images *images,
                                struct api_error *error) RESULT_CHECKED;

#endif
