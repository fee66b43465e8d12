/*
 * `shoal chat`: a conversation in the terminal, through the same preparation, rings and worker as a
 * served request.
 */
#ifndef SHOAL_FRONTEND_SERVE_CHAT_COMMAND_H
#define SHOAL_FRONTEND_SERVE_CHAT_COMMAND_H

#include <stdbool.h>

#include "frontend/serve/settings/options.h"

/* Returns the exit status: 0 after /exit or the end of input, 1 for an error, 128 + signal if
 * interrupted while no answer was written. */
int chat_command_run(const struct options *options);

struct chat_engine;
struct chat_command;
struct event_base;

/* A conversation beside a server: on its loop and, once it is ready, on its engine. `ended` is called
 * after /exit or the end of input. The caller catches signals. */
struct chat_command *chat_command_attach(const struct options *options, struct event_base *base,
                                         void (*ended)(void *context), void *context);
/* Each time the engine becomes ready. */
void chat_command_ready(struct chat_command *command, struct chat_engine *engine);
/* Ends the answer that is being written; false: there is none. */
bool chat_command_interrupt(struct chat_command *command);
/* Before the engine is destroyed, once it is drained; NULL is allowed. */
void chat_command_detach(struct chat_command *command);

#endif
