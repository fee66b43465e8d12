/*
 * The fields of all APIs that ask for an answer of a certain form. At most one of them may be given.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_GRAMMAR_FIELDS_H
#define SHOAL_FRONTEND_API_GENERATION_GRAMMAR_FIELDS_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/base/api_error.h"

/*
 * Reads the fields of other servers, which every API takes: vLLM's structured_outputs and guided_*,
 * llama.cpp's grammar, json_schema, grammar_lazy and grammar_triggers, SGLang's regex and ebnf, into
 * request->form. `body` may get more members: values that came as JSON in a string.
 */
enum result grammar_fields_read(struct cJSON *body, struct generation_request *request,
                                struct api_error *error) RESULT_CHECKED;
/*
 * Reads an object with a type, in OpenAI's and Anthropic's APIs: text, json_object, json_schema
 * with schema and strict, either in the object or in its member `json_schema`, structural_tag.
 * `format` NULL: nothing. `param` is static.
 */
enum result grammar_fields_read_format(const struct cJSON *format, const char *param,
                                       struct generation_request *request,
                                       struct api_error *error) RESULT_CHECKED;

#endif
