/*
 * The commands of Hugging Face's cache: `shoal pull`, `shoal list`, `shoal rm`, and `shoal run`, which
 * downloads a model if it is not there, serves it on a free port and talks to it as `shoal chat` does.
 */
#ifndef SHOAL_FRONTEND_SERVE_HUB_COMMANDS_H
#define SHOAL_FRONTEND_SERVE_HUB_COMMANDS_H

#include "frontend/serve/settings/options.h"

/* Each returns the exit status. `pull` prints the path of the model. */
int pull_command_run(const struct options *options);
int list_command_run(const struct options *options);
int remove_command_run(const struct options *options);
int run_command_run(const struct options *options);

#endif
