/*
 * The table of options: name, kind, bounds, default, help, and the member of struct options that
 * holds the value. Parsing, --help and the list that is logged at start use the same rows.
 */
#ifndef SHOAL_FRONTEND_SERVE_SETTINGS_OPTION_ROWS_H
#define SHOAL_FRONTEND_SERVE_SETTINGS_OPTION_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "frontend/serve/settings/options.h"

enum option_kind {
    OPTION_HEADING = 0, /* a heading of --help; only `help` is set */
    OPTION_TEXT,
    OPTION_TEXTS,   /* may be given several times */
    OPTION_SECRETS, /* likewise; values are never printed */
    OPTION_COUNT,
    OPTION_BYTES,
    OPTION_MEMORY, /* bytes, or N% of a device's memory */
    OPTION_FLAG
};

struct option_row {
    const char *name; /* NULL for a heading */
    enum option_kind kind;
    unsigned commands; /* of enum options_command */
    size_t offset;     /* in struct options */
    uint64_t min;
    uint64_t max;
    const char *fallback; /* default as it would be typed; NULL: none */
    const char *help;
};

extern const struct option_row option_rows[];
extern const size_t option_row_count; /* <= OPTION_ROWS_MAX */

#define OPTION_ROWS_MAX 136u

#endif
