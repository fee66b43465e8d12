/*
 * A ring of the ends of tokens whose bytes are not all decided yet.
 *
 * Bytes are numbered from the answer's beginning. Deciding bytes moves over the ends of tokens and
 * counts each token passed. This module knows nothing of tags.
 */
#include "frontend/reply/token_tally.h"

#include "proto/must.h"

void token_tally_arrive(struct token_tally *tally, size_t length, bool is_token)
{
    must(length > 0 && tally->waiting < TOKEN_TALLY_WAITING);
    uint32_t last = (tally->first + tally->waiting) % TOKEN_TALLY_WAITING;
    tally->arrived += length;
    tally->ends[last].end = tally->arrived;
    tally->ends[last].is_token = is_token;
    tally->waiting++;
}

void token_tally_decide(struct token_tally *tally, size_t length, enum token_kind kind)
{
    uint64_t until = tally->decided + length;
    must(until <= tally->arrived);
    while (tally->waiting > 0 && tally->decided < until) {
        uint64_t end = tally->ends[tally->first].end;
        if (tally->kind == TOKEN_TAG)
            tally->kind = kind;
        if (end > until)
            break;
        tally->counts[tally->kind] += tally->ends[tally->first].is_token;
        tally->decided = end;
        tally->kind = TOKEN_TAG;
        tally->first = (tally->first + 1) % TOKEN_TALLY_WAITING;
        tally->waiting--;
    }
    tally->decided = until;
}
