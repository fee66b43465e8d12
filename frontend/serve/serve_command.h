/*
 * `shoal serve`: the HTTP server, from start to exit status.
 */
#ifndef SHOAL_FRONTEND_SERVE_SERVE_COMMAND_H
#define SHOAL_FRONTEND_SERVE_SERVE_COMMAND_H

#include "frontend/serve/settings/options.h"

/* Returns the exit status: 0 after a drain, 1 if the model cannot be served or the address is not
 * available. */
int serve_command_run(const struct options *options);

#endif
