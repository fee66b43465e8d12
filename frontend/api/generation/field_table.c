/*
 * A body has a few dozen members and the table fewer than two hundred rows: both are walked.
 */
#include "frontend/api/generation/field_table.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/request_fields.h"
#include "proto/log.h"
#include "proto/must.h"

enum field_state { NONE = 0, DONE, NOTED, TYPED, NOT };

#define OFF      NAN
#define NEVER    INFINITY
#define VALUE(x) (x)

struct field_row {
    const char *name;
    enum field_state state[FIELD_APIS];
    double harmless;
    const char *instead; /* or NULL */
};

#define ROW(name, chat, completions, responses, messages, harmless, instead)                       \
    {name, {chat, completions, responses, messages}, harmless, instead},
#include "frontend/api/generation/field_rows.h"

/* Types and ranges of TYPED fields, which are llama.cpp's. The ranges are those of the sampler's
 * formula, or generous ones. */
static const struct typed_field {
    const char *name;
    enum { TYPE_NUMBER, TYPE_INTEGER, TYPE_BREAKERS } type;
    double least;
    double most;
} typed_fields[] = {
    {"xtc_threshold", TYPE_NUMBER, 0, 1},
    {"dry_base", TYPE_NUMBER, 1, 100},
    {"dry_allowed_length", TYPE_INTEGER, 0, LIMIT_CONTEXT_TOKENS},
    {"dry_penalty_last_n", TYPE_INTEGER, -1, LIMIT_CONTEXT_TOKENS},
    {"dry_sequence_breakers", TYPE_BREAKERS, 1, LIMIT_STOP_STRINGS},
    {"mirostat_tau", TYPE_NUMBER, 0, 100},
    {"mirostat_eta", TYPE_NUMBER, 0, 1},
    {"dynatemp_exponent", TYPE_NUMBER, 0, 10},
};

struct field_watch {
    pthread_mutex_t mutex;
    bool strict;
    uint32_t count;
    char names[LIMIT_UNKNOWN_FIELDS][LIMIT_UNKNOWN_FIELD_BYTES];
};

struct field_watch *field_watch_create(bool strict)
{
    struct field_watch *watch = must_alloc(1, sizeof *watch);
    must(pthread_mutex_init(&watch->mutex, NULL) == 0);
    watch->strict = strict;
    return watch;
}

void field_watch_destroy(struct field_watch *watch)
{
    if (!watch)
        return;
    must(pthread_mutex_destroy(&watch->mutex) == 0);
    free(watch);
}

static const struct field_row *row_find(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    }
    return NULL;
}

static bool is_off(const cJSON *item)
{
    return cJSON_IsFalse(item) || (cJSON_IsNumber(item) && item->valuedouble == 0) ||
           (cJSON_IsString(item) && !item->valuestring[0]) ||
           ((cJSON_IsArray(item) || cJSON_IsObject(item)) && !item->child);
}

static bool is_harmless(const struct field_row *row, const cJSON *item)
{
    if (isnan(row->harmless))
        return is_off(item);
    double value = cJSON_IsNumber(item) ? item->valuedouble
                   : cJSON_IsBool(item) ? item->type == cJSON_True
                                        : NAN;
    return isfinite(row->harmless) && value == row->harmless;
}

/* Logs a name that was not logged before. A full watch logs nothing more. */
static void unknown_note(struct field_watch *watch, const char *name)
{
    char known[LIMIT_UNKNOWN_FIELD_BYTES];
    snprintf(known, sizeof known, "%s", name);
    must(pthread_mutex_lock(&watch->mutex) == 0);
    uint32_t at = 0;
    while (at < watch->count && strcmp(watch->names[at], known) != 0)
        at++;
    bool is_new = at == watch->count && at < LIMIT_UNKNOWN_FIELDS;
    if (is_new)
        memcpy(watch->names[watch->count++], known, sizeof known);
    must(pthread_mutex_unlock(&watch->mutex) == 0);
    const struct log_field fields[] = {LOG_TEXT("field", known)};
    if (is_new)
        log_event(LOG_WARN, "unknown_field", fields, 1);
}

static enum result number_check(const cJSON *item, const struct typed_field *field,
                                struct api_error *error)
{
    if (!cJSON_IsNumber(item))
        return api_error_invalid(error, field->name, "%s must be a number", field->name);
    if (!(item->valuedouble >= field->least && item->valuedouble <= field->most))
        return api_error_invalid(error, field->name, "%s must be between %.0f and %.0f",
                                 field->name, field->least, field->most);
    return RESULT_OK;
}

/* A list of strings, as many as stop strings may be and as long. */
static enum result breakers_check(const cJSON *list, const struct typed_field *field,
                                  struct api_error *error)
{
    double count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        size_t length = cJSON_IsString(item) ? strlen(item->valuestring) : 0;
        if (length < 1 || length > LIMIT_STOP_BYTES)
            return api_error_invalid(error, field->name, "%s must have strings of 1 to %u bytes",
                                     field->name, LIMIT_STOP_BYTES);
        count++;
    }
    if (!cJSON_IsArray(list) || count < field->least || count > field->most)
        return api_error_invalid(error, field->name, "%s must be a list of %.0f to %.0f strings",
                                 field->name, field->least, field->most);
    return RESULT_OK;
}

static enum result typed_check(const cJSON *body, const cJSON *item, struct api_error *error)
{
    const struct typed_field *field = typed_fields;
    bool present;
    int64_t value = 0;
    while (strcmp(field->name, item->string) != 0)
        must(++field < typed_fields + sizeof typed_fields / sizeof typed_fields[0]);
    if (field->type == TYPE_BREAKERS)
        return breakers_check(item, field, error);
    if (field->type == TYPE_NUMBER)
        return number_check(item, field, error);
    return request_fields_read_integer(body, field->name, field->least, field->most, &present,
                                       &value, error);
}

static enum result member_check(const cJSON *body, const cJSON *item, const struct field_row *row,
                                enum field_api api, struct api_error *error)
{
    if (row && row->state[api] == TYPED && !cJSON_IsNull(item))
        return typed_check(body, item, error);
    if (!row || row->state[api] != NOT || cJSON_IsNull(item) || is_harmless(row, item))
        return RESULT_OK;
    return api_error_invalid(error, row->name, "%s is not supported%s%s", row->name,
                             row->instead ? ": use " : "", row->instead ? row->instead : "");
}

enum result field_table_check(const cJSON *body, enum field_api api, struct field_watch *watch,
                              struct api_error *error)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, body)
    {
        const struct field_row *row = row_find(item->string);
        enum result result = member_check(body, item, row, api, error);
        if (result != RESULT_OK)
            return result;
        if (!watch || (row && row->state[api] != NONE))
            continue;
        if (watch->strict)
            return api_error_invalid(error, item->string, "unknown field '%.64s'", item->string);
        unknown_note(watch, item->string);
    }
    return RESULT_OK;
}

enum result field_table_refuse(const cJSON *body, enum field_api api, struct api_error *error)
{
    return field_table_check(body, api, NULL, error);
}
