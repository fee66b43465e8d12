/*
 * A body has a few dozen members and the table fewer than two hundred rows: both are walked. The members
 * of objects are a second, short table.
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

enum field_state { NONE = 0, DONE, NOTED, NOT };

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

struct member_row {
    const char *object;
    const char *name;
    enum field_state state[FIELD_APIS];
    const char *harmless; /* or NULL */
};

#define MEMBER(object, name, chat, completions, responses, messages, harmless)                     \
    {object, name, {chat, completions, responses, messages}, harmless},
#include "frontend/api/generation/member_rows.h"

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

/* A field that nothing reads: logged, or refused if the watch is strict. */
static enum result unknown_report(struct field_watch *watch, const char *name,
                                  struct api_error *error)
{
    if (!watch)
        return RESULT_OK;
    if (watch->strict)
        return api_error_invalid(error, name, "unknown field '%.64s'", name);
    unknown_note(watch, name);
    return RESULT_OK;
}

static enum result member_check(const cJSON *item, const struct field_row *row, enum field_api api,
                                struct api_error *error)
{
    if (!row || row->state[api] != NOT || cJSON_IsNull(item) || is_harmless(row, item))
        return RESULT_OK;
    return api_error_invalid(error, row->name, "%s is not supported%s%s", row->name,
                             row->instead ? ": use " : "", row->instead ? row->instead : "");
}

/* `known`: whether the table has any member of this object in this API. */
static const struct member_row *member_find(const char *object, const char *name,
                                            enum field_api api, bool *known)
{
    *known = false;
    for (size_t i = 0; i < sizeof member_rows / sizeof member_rows[0]; i++) {
        const struct member_row *row = &member_rows[i];
        if (row->state[api] == NONE || strcmp(row->object, object) != 0)
            continue;
        *known = true;
        if (strcmp(row->name, name) == 0)
            return row;
    }
    return NULL;
}

static enum result object_check(const cJSON *object, enum field_api api, struct field_watch *watch,
                                struct api_error *error)
{
    const cJSON *item;
    enum result result = RESULT_OK;
    cJSON_ArrayForEach(item, object)
    {
        bool known;
        const struct member_row *row = member_find(object->string, item->string, api, &known);
        char param[API_PARAM_BYTES];
        snprintf(param, sizeof param, "%.24s.%.64s", object->string, item->string);
        if (!known)
            return RESULT_OK;
        if (!row)
            result = unknown_report(watch, param, error);
        else if (row->state[api] == NOT && !cJSON_IsNull(item) && !is_off(item) &&
                 !(row->harmless && cJSON_IsString(item) &&
                   strcmp(item->valuestring, row->harmless) == 0))
            result = api_error_invalid(error, param, "%s is not supported", param);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

enum result field_table_check(const cJSON *body, enum field_api api, struct field_watch *watch,
                              struct api_error *error)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, body)
    {
        const struct field_row *row = row_find(item->string);
        enum result result = member_check(item, row, api, error);
        if (result != RESULT_OK)
            return result;
        if (!row || row->state[api] == NONE)
            result = unknown_report(watch, item->string, error);
        else if (cJSON_IsObject(item))
            result = object_check(item, api, watch, error);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

enum result field_table_refuse(const cJSON *body, enum field_api api, struct api_error *error)
{
    return field_table_check(body, api, NULL, error);
}

enum result field_watch_check(struct field_watch *watch, const cJSON *body,
                              const char *const *known, struct api_error *error)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, body)
    {
        const char *const *name = known;
        while (*name && strcmp(*name, item->string) != 0)
            name++;
        enum result result = *name ? RESULT_OK : unknown_report(watch, item->string, error);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}
