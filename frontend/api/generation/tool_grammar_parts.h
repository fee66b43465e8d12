/*
 * What the builders of calls share (tool_grammar.h, tagged_grammar.h, literal_grammar.h).
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_TOOL_GRAMMAR_PARTS_H
#define SHOAL_FRONTEND_API_GENERATION_TOOL_GRAMMAR_PARTS_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/grammar/grammar_builder.h"
#include "frontend/grammar/grammar_error.h"
#include "frontend/grammar/grammar_text.h"
#include "frontend/reply/tool_format.h"

struct cJSON;
struct model_assets;
struct text_buffer; /* frontend/base/text_buffer.h */

/* most blanks between two marks of arguments in JSON: `{"a": 1, "b": 2}` */
#define TOOL_GRAMMAR_BLANKS 1u

struct tool_grammar {
    struct grammar_builder *builder;
    const struct generation_request *request;
    const struct model_assets *assets;
    const struct tool_format *format;
    struct special_finder specials;
    bool loose;                      /* arguments of tools that are not strict are any objects */
    struct text_buffer *loose_names; /* of tools that are not held to their whole schema: "a, b" */
};

/* The first keyword that is neither an annotation nor in the list, which ends with NULL; NULL: none. */
const char *tool_schema_keyword_other(const struct cJSON *schema, const char *const *known);
/* A keyword's whole number that is not negative, or `absent`. */
uint32_t tool_schema_bound(const struct cJSON *schema, const char *name, uint32_t absent);
bool tool_schema_is_required(const struct cJSON *schema, const char *name);
/* A name of letters, digits and '_' that is not declared. */
symbol_id tool_any_name(struct grammar_builder *builder);
/* Members in their order with the separator between them; those that are not required may be
 * missing. */
symbol_id tool_member_list(struct grammar_builder *builder, const symbol_id *members,
                           const bool *required, size_t count, const char *separator);

#endif
