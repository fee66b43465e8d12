/*
 * `shoal devices`: the list of devices that workers can use, as a table or JSON on standard output.
 */
#ifndef SHOAL_FRONTEND_SERVE_DEVICES_COMMAND_H
#define SHOAL_FRONTEND_SERVE_DEVICES_COMMAND_H

#include "frontend/serve/settings/options.h"

/* Returns the exit status. */
int devices_command_run(const struct options *options);

#endif
