/*
 * `shoal generate`: one answer on standard output, through the same preparation, rings and worker
 * as a served request.
 */
#ifndef SHOAL_FRONTEND_SERVE_GENERATE_COMMAND_H
#define SHOAL_FRONTEND_SERVE_GENERATE_COMMAND_H

#include "frontend/serve/settings/options.h"

/* Returns the exit status: 0 for a complete answer, 1 for an error, 128 + signal if interrupted. */
int generate_command_run(const struct options *options);

#endif
