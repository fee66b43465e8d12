/*
 * Bounds that Anthropic's SDKs take out of a schema. Their API knows no minimum, maxLength and so on,
 * so they write `{minimum: 1, maximum: 10}` at the end of the description, send the schema without
 * these keywords, and validate the answer with them.
 */
#ifndef SHOAL_FRONTEND_API_MESSAGES_SCHEMA_BOUNDS_H
#define SHOAL_FRONTEND_API_MESSAGES_SCHEMA_BOUNDS_H

#include <stdbool.h>

struct cJSON;

/*
 * Adds the keywords that stand at the ends of descriptions to their schemas, so that they are
 * enforced: bounds of numbers, lengths and items, multipleOf, and patterns that can be compiled. A
 * keyword that the schema has already is left as it is. False: out of memory.
 */
bool schema_bounds_restore(struct cJSON *schema);

#endif
