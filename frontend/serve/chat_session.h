/*
 * The conversation of `shoal chat` and its commands, without terminal or engine.
 */
#ifndef SHOAL_FRONTEND_SERVE_CHAT_SESSION_H
#define SHOAL_FRONTEND_SERVE_CHAT_SESSION_H

#include "frontend/base/text_buffer.h"
#include "frontend/serve/settings/options.h"

struct chat_session;

enum chat_action {
    CHAT_ACTION_NONE, /* read the next line */
    CHAT_ACTION_ASK,  /* send chat_session_body() */
    CHAT_ACTION_EXIT
};

/* The options outlive the session. */
struct chat_session *chat_session_create(const struct options *options);
void chat_session_destroy(struct chat_session *session);

/* Takes a line without its line break: a command that begins with '/', or what the user says.
 * Appends what to show to *out. */
enum chat_action chat_session_take(struct chat_session *session, const char *line, size_t bytes,
                                   struct text_buffer *out);
/* The body of a chat request, the caller's (free); NULL: out of memory. */
char *chat_session_body(const struct chat_session *session);
/* Adds the answer to the conversation. */
void chat_session_answer(struct chat_session *session, const char *text, size_t bytes);
/* Takes back what the user said last, because there is no answer to it. */
void chat_session_drop(struct chat_session *session);

#endif
