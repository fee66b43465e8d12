/*
 * `shoal serve`: the HTTP server, from start to exit status.
 */
#ifndef SHOAL_FRONTEND_SERVE_SERVE_COMMAND_H
#define SHOAL_FRONTEND_SERVE_SERVE_COMMAND_H

#include "frontend/serve/settings/options.h"

/* Returns the exit status: 0 after a drain, 1 if the model cannot be served or the address is not
 * available. */
int serve_command_run(const struct options *options);
/* The same with a conversation on standard input and output (chat_command.h), at whose end the server
 * drains. It is not reloaded and has no successor. */
int serve_command_run_with_chat(const struct options *options);

#endif
