/*
 * Structural tags: text with parts that obey grammars, as XGrammar, vLLM and SGLang take them.
 *
 *     {"type": "structural_tag", "format": F}
 *
 * F is one of const_string {value}, json_schema {json_schema}, regex {pattern}, grammar {grammar:
 * GBNF}, any_text {excludes}, sequence {elements}, or {elements}, optional, plus, star {content},
 * repeat {content, min, max}, tag {begin, content, end}, triggered_tags {triggers, tags,
 * at_least_one, stop_after_first, excludes}, tags_with_separator {tags, separator, at_least_one,
 * stop_after_first}. The older form is read too:
 *
 *     {"type": "structural_tag", "structures": [{begin, schema, end}], "triggers": […]}
 *
 * Free text never contains a trigger, an excluded text, or an end of the tag around it. With
 * at_least_one the text begins with a tag. Texts may spell special tokens (grammar_text.h).
 * A member or type that is not listed is refused.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_STRUCTURAL_TAG_H
#define SHOAL_FRONTEND_GRAMMAR_STRUCTURAL_TAG_H

#include "frontend/grammar/grammar_builder.h"
#include "frontend/grammar/grammar_error.h"
#include "frontend/grammar/grammar_text.h"
#include "proto/result.h"

struct cJSON;

/* As gbnf_compile(); the error's pointer is a JSON pointer. Recurses as deep as `tag` is nested. */
bool structural_tag_compile(struct grammar_builder *builder, const struct cJSON *tag,
                            const struct special_finder *specials, symbol_id *out,
                            struct grammar_error *error) RESULT_CHECKED;

#endif
