/*
 * Every known field of a request body, by API: done, noted (it describes the request) or
 * refused. One table, field_rows.h (members of objects: member_rows.h), so that no field is ignored silently: what is in no row is logged once for each name,
 * or refused with --strict-fields.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_FIELD_TABLE_H
#define SHOAL_FRONTEND_API_GENERATION_FIELD_TABLE_H

#include <stdbool.h>

#include "frontend/base/api_error.h"

struct cJSON;

enum field_api { FIELDS_CHAT = 0, FIELDS_COMPLETIONS, FIELDS_RESPONSES, FIELDS_MESSAGES };
#define FIELD_APIS 4u

/* The unknown names that were logged; locks itself. */
struct field_watch;
struct field_watch *field_watch_create(bool strict);
void field_watch_destroy(struct field_watch *watch); /* NULL is allowed */

/* Refuses fields that are not done, unless their value asks for nothing. */
enum result field_table_refuse(const struct cJSON *body, enum field_api api,
                               struct api_error *error) RESULT_CHECKED;
/* The same, and reports unknown fields to the watch (NULL: they are ignored). */
enum result field_table_check(const struct cJSON *body, enum field_api api,
                              struct field_watch *watch, struct api_error *error) RESULT_CHECKED;

/* Reports the fields that `known` (NULL after the last) lacks, for bodies that are not in the table.
 * `watch` NULL: they are ignored. */
enum result field_watch_check(struct field_watch *watch, const struct cJSON *body,
                              const char *const *known, struct api_error *error) RESULT_CHECKED;

#endif
