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

/* Adds the defaults of a command's options that `options`, parsed for another command, lacks. */
enum result options_add_defaults(enum options_command command, enum options_command parsed_for,
                                 struct options *options, struct error_text *error) RESULT_CHECKED;

/* An option of one model; a flag's value is "true" or "false". */
struct option_setting {
    const char *name;
    const char *value;
};

/* The options of one of several models: those of `common`'s command line, except what `settings`
 * replace, and `model` for --model (NULL: as given). Devices that --device auto found are taken over. Strings of
 * `settings` outlive `options`. RESULT_INVALID: an unknown option, or one that no single model has. */
enum result options_parse_model(const struct options *common, const char *model,
                                const struct option_setting *settings, size_t setting_count,
                                struct options *options, struct error_text *error) RESULT_CHECKED;
/* Overwrites the values of --api-key in the command line, which other users can read in /proc. They
 * are empty texts from then on, also in `options`. */
void options_hide_secrets(const struct options *options);
/* The ten options that people need first, as in --help. */
void options_print_common(FILE *out);
void options_print_help(enum options_command command, FILE *out);
/* Every value, one log line each. */
void options_log(enum options_command command, const struct options *options);

#endif
