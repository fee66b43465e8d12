/*
 * The ranges of the rules. Their meaning is in worker/sample/speech_filter.c.
 */
#include "proto/speech_rules.h"

#include "proto/limits.h"

bool speech_rules_exist(const struct speech_rules *rules)
{
    return rules->timestamps > 0 || rules->first_to > rules->first_from || rules->blank > 0;
}

enum result speech_rules_check(const struct speech_rules *rules, struct error_text *error)
{
    if (rules->timestamps <= LIMIT_VOCAB_TOKENS && rules->end <= rules->timestamps &&
        rules->first_from <= rules->first_to && rules->first_to <= LIMIT_VOCAB_TOKENS &&
        rules->blank <= LIMIT_VOCAB_TOKENS)
        return RESULT_OK;
    return error_set(
        error, RESULT_CORRUPT, "S26: timestamps from %u, end %u, first token of %u to %u, blank %u",
        rules->timestamps, rules->end, rules->first_from, rules->first_to, rules->blank);
}
