/*
 * `shoal show`: describes a model of this machine without loading its weights.
 */
#ifndef SHOAL_FRONTEND_SERVE_SHOW_COMMAND_H
#define SHOAL_FRONTEND_SERVE_SHOW_COMMAND_H

#include "frontend/serve/settings/options.h"

/* Returns the exit status. */
int show_command_run(const struct options *options);

#endif
