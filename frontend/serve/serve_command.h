/*
 * `shoal serve`: the HTTP server, from start to exit status.
 */
#ifndef SHOAL_FRONTEND_SERVE_SERVE_COMMAND_H
#define SHOAL_FRONTEND_SERVE_SERVE_COMMAND_H

#include "frontend/serve/settings/options.h"

/* Returns the exit status: 0 after a drain, 1 when the model cannot be served or the address cannot
 * be had. */
int serve_command_run(const struct options *options);

#endif
