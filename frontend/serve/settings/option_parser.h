/*
 * Reads struct options from the command line, prints --help and the log lines at start.
 */
#ifndef SHOAL_FRONTEND_SERVE_SETTINGS_OPTION_PARSER_H
#define SHOAL_FRONTEND_SERVE_SETTINGS_OPTION_PARSER_H

#include <stdio.h>

#include "frontend/serve/settings/options.h"

/* Reads argv[0..argc): options only, without program and command. RESULT_INVALID with a message for
 * the user. */
enum result options_parse(enum options_command command, int argc, char *argv[],
                          struct options *options, struct error_text *error) RESULT_CHECKED;
/* The ten options that people need first, as in --help. */
void options_print_common(FILE *out);
void options_print_help(enum options_command command, FILE *out);
/* Every value, one log line each. */
void options_log(enum options_command command, const struct options *options);

#endif
