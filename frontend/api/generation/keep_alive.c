/*
 * Reads the duration (contract in keep_alive.h). Sums are cut at a bound, so no text overflows them.
 */
#include "frontend/api/generation/keep_alive.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/api/generation/request_fields.h"

static const struct {
    const char *name;
    double ms;
} units[] = {{"ns", 1e-6}, {"us", 1e-3}, {"\u00b5s", 1e-3}, {"\u03bcs", 1e-3},
             {"ms", 1},    {"s", 1e3},   {"m", 60e3},       {"h", 3600e3}};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits with at most one point; false if there is no digit. */
static bool number_read(const char **at, double *number)
{
    double scale = 1;
    bool point = false, any = false;
    *number = 0;
    for (; is_digit(**at) || (**at == '.' && !point); ++*at) {
        if (**at == '.') {
            point = true;
            continue;
        }
        any = true;
        if (point)
            scale /= 10;
        *number = point ? *number + scale * (**at - '0') : *number * 10 + (**at - '0');
        if (*number > 1e18)
            *number = 1e18;
    }
    return any;
}

/* The longest unit that the text begins with; 0: none. */
static double unit_read(const char **at)
{
    size_t most = 0;
    double ms = 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t bytes = strlen(units[i].name);
        if (bytes > most && strncmp(*at, units[i].name, bytes) == 0) {
            most = bytes;
            ms = units[i].ms;
        }
    }
    *at += most;
    return ms;
}

static bool duration_parse(const char *text, double *ms)
{
    bool negative = *text == '-';
    double number, sum = 0;
    if (*text == '-' || *text == '+')
        text++;
    size_t digits = strspn(text, "0123456789");
    bool seconds = digits > 0 && text[digits] == '\0';
    if (!*text)
        return false;
    while (*text) {
        if (!number_read(&text, &number))
            return false;
        double unit = seconds ? 1e3 : unit_read(&text);
        if (unit <= 0)
            return false;
        sum += number * unit;
    }
    *ms = negative ? -sum : sum;
    return true;
}

enum result keep_alive_read(const struct cJSON *body, bool *given, int64_t *keep_ms,
                            struct api_error *error)
{
    const cJSON *keep = request_fields_member(body, "keep_alive");
    double ms = 0;
    *given = keep != NULL;
    *keep_ms = 0;
    if (!keep)
        return RESULT_OK;
    if (cJSON_IsNumber(keep))
        ms = keep->valuedouble * 1e3;
    else if (!cJSON_IsString(keep) || !duration_parse(keep->valuestring, &ms))
        return api_error_invalid(
            error, "keep_alive",
            "keep_alive must be a number of seconds or a duration like \"5m\"");
    if (ms < 0)
        *keep_ms = KEEP_ALIVE_FOREVER;
    else
        *keep_ms = ms < (double)KEEP_ALIVE_MOST_MS ? (int64_t)ms : KEEP_ALIVE_MOST_MS;
    return RESULT_OK;
}
