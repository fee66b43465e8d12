/*
 * `shoal chat`: a conversation in the terminal, through the same preparation, rings and worker as a
 * served request.
 */
#ifndef SHOAL_FRONTEND_SERVE_CHAT_COMMAND_H
#define SHOAL_FRONTEND_SERVE_CHAT_COMMAND_H

#include "frontend/serve/settings/options.h"

/* Returns the exit status: 0 after /exit or the end of input, 1 for an error, 128 + signal if
 * interrupted while no answer was written. */
int chat_command_run(const struct options *options);

#endif
