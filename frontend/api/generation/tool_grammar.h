/*
 * The calls of a request as a grammar, made from the same row of reply/tool_format as their parser:
 * the frame is the row's, the arguments obey each tool's schema.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_TOOL_GRAMMAR_H
#define SHOAL_FRONTEND_API_GENERATION_TOOL_GRAMMAR_H

#include "frontend/api/generation/tool_grammar_parts.h"
#include "proto/result.h"

/*
 * One call, or several unless the request or the format allows only one. False: the schema of a
 * strict tool (*error, whose pointer begins with the tool's index) or the grammar of a tool's input
 * (its pointer begins with the tool's name) is refused, or the builder failed. If the schema of a
 * tool that is not strict is refused, the keywords that are refused are left out
 * (tool_schema_relax.h) or, if that does not suffice, the arguments are any object; the tool's name
 * is then added to grammar->loose_names.
 */
bool tool_grammar_calls(const struct tool_grammar *grammar, symbol_id *out,
                        struct grammar_error *error) RESULT_CHECKED;
/*
 * An answer of the kind AUTO: `content`, or calls, after free text if `content` is GRAMMAR_NONE.
 * Free text contains no beginning of a call.
 */
symbol_id tool_grammar_auto(const struct tool_grammar *grammar, symbol_id content, symbol_id calls);

#endif
