/*
 * A tool's schema without a keyword that cannot be enforced, so that the rest can be.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_TOOL_SCHEMA_RELAX_H
#define SHOAL_FRONTEND_API_GENERATION_TOOL_SCHEMA_RELAX_H

#include <stdbool.h>

#include "frontend/grammar/grammar_error.h"

struct cJSON;

/*
 * Deletes the keyword that `why` names at its place. False, and nothing is deleted: the place is
 * not in the schema or has no such keyword, or it may be under a keyword that negates or counts
 * (not, if, oneOf, contains, propertyNames), where less than the keyword's rule would mean a
 * stricter schema.
 */
bool tool_schema_relax(struct cJSON *schema, const struct grammar_error *why);

#endif
