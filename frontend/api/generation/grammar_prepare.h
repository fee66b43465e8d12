/*
 * The grammar of an answer: the form that the request asks for, the calls that it may or must make,
 * and where reasoning stands.
 *
 *     form     = the request's (generation_request.form), else free text
 *     auto     = form | [text] calls        text: free, without the beginning of a call
 *     required = calls                      (tool_grammar.h)
 *     harmony  = (reasoning message)* (final message with form | call)
 *
 * Where reasoning has tags, the grammar begins after it (GRAMMAR_AFTER_REASONING).
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_GRAMMAR_PREPARE_H
#define SHOAL_FRONTEND_API_GENERATION_GRAMMAR_PREPARE_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/api/generation/parse_context.h"
#include "frontend/base/api_error.h"

/*
 * Sets request->grammar and grammar_start; call it before forced_prepare(). Free answers get no
 * grammar, and neither do calls of a model whose format is not known. What cannot be enforced exactly is a 400 that names the place.
 */
enum result grammar_prepare(const struct parse_context *context, struct generation_request *request,
                            struct api_error *error) RESULT_CHECKED;

#endif
