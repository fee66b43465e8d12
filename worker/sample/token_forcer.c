/*
 * A device may draw a token while the one before it is unread. Usually that does not matter: forced
 * tokens are known without reading, and a free token changes the next one only if it can complete a
 * mark or spend the last of the budget. In these cases the result is FORCED_UNKNOWN, and the
 * scheduler reads the token first.
 *
 *             think_start                          think_end
 *   ANSWER ────────────────▶ THINKING, spent + 1 ─────────────▶ ANSWER (the prefix is due)
 *
 * Marks are matched as in the search of Knuth, Morris and Pratt, with borders computed when needed
 * because marks are short. Tokens are not compared with the prefix: while it is due, they are
 * forced.
 */
#include "worker/sample/token_forcer.h"

#include <string.h>

#include "proto/must.h"

void token_forcer_init(struct token_forcer *forcer, const struct token_forcer_rules *rules)
{
    must(rules->think_end_count > 0 || !(rules->is_open || rules->has_budget));
    *forcer = (struct token_forcer){
        .rules = *rules, .is_thinking = rules->is_open, .prefix_due = !rules->is_open};
}

/* Length of the longest proper prefix of mark[0..matched) that is also its suffix. */
static uint32_t border(const uint32_t *mark, uint32_t matched)
{
    uint32_t length = matched - 1;
    while (memcmp(mark, mark + matched - length, length * sizeof *mark) != 0)
        length--;
    return length;
}

/* How many tokens of `mark` the answer ends with after `token`; `matched` < count is the number
 * before it. */
static uint32_t match(const uint32_t *mark, uint32_t count, uint32_t matched, uint32_t token)
{
    if (count == 0)
        return 0;
    while (matched > 0 && mark[matched] != token)
        matched = border(mark, matched);
    return mark[matched] == token ? matched + 1 : 0;
}

static bool prefix_is_due(const struct token_forcer *forcer)
{
    return forcer->prefix_due && forcer->prefix_next < forcer->rules.prefix_count;
}

static bool is_spent(const struct token_forcer *forcer)
{
    return forcer->rules.has_budget && forcer->spent >= forcer->rules.budget;
}

static void follow_one(struct token_forcer *forcer, uint32_t token)
{
    const struct token_forcer_rules *rules = &forcer->rules;
    if (prefix_is_due(forcer))
        forcer->prefix_next++;
    if (forcer->is_thinking) {
        forcer->end_matched =
            match(rules->think_end, rules->think_end_count, forcer->end_matched, token);
        if (forcer->end_matched < rules->think_end_count) {
            forcer->spent++;
        } else {
            forcer->is_thinking = false;
            forcer->prefix_due = true;
            forcer->start_matched = 0;
        }
    } else if (rules->think_end_count > 0) {
        forcer->start_matched =
            match(rules->think_start, rules->think_start_count, forcer->start_matched, token);
        if (rules->think_start_count > 0 && forcer->start_matched == rules->think_start_count) {
            forcer->is_thinking = true;
            forcer->end_matched = 0;
            forcer->start_matched = 0;
        }
    }
}

void token_forcer_follow(struct token_forcer *forcer, const uint32_t *generated, uint32_t count)
{
    for (; forcer->followed < count; forcer->followed++)
        follow_one(forcer, generated[forcer->followed]);
}

static struct forced_draw decide(const struct token_forcer *forcer)
{
    const struct token_forcer_rules *rules = &forcer->rules;
    if (prefix_is_due(forcer))
        return (struct forced_draw){.kind = FORCED_TOKEN,
                                    .token = rules->prefix[forcer->prefix_next]};
    if (!is_spent(forcer))
        return (struct forced_draw){.kind = FORCED_NONE};
    if (forcer->is_thinking)
        return (struct forced_draw){.kind = FORCED_TOKEN,
                                    .token = rules->think_end[forcer->end_matched]};
    return (struct forced_draw){.kind = FORCED_NONE, .bars_start = rules->think_start_count == 1};
}

/* Whether one free token can make the following token a forced one. */
static bool next_may_be_forced(const struct token_forcer *forcer)
{
    const struct token_forcer_rules *rules = &forcer->rules;
    if (forcer->is_thinking) {
        bool may_end = forcer->end_matched + 1 == rules->think_end_count;
        bool has_prefix = forcer->prefix_next < rules->prefix_count;
        bool may_spend = rules->has_budget && forcer->spent + 1 >= rules->budget;
        return may_spend || (may_end && has_prefix);
    }
    return is_spent(forcer) && rules->think_start_count > 1 &&
           forcer->start_matched + 1 == rules->think_start_count;
}

struct forced_draw token_forcer_next(const struct token_forcer *forcer, uint32_t unread)
{
    must(unread <= 1);
    struct forced_draw next = decide(forcer);
    if (unread == 0)
        return next;
    if (next.kind == FORCED_NONE)
        return next_may_be_forced(forcer) ? (struct forced_draw){.kind = FORCED_UNKNOWN} : next;
    struct token_forcer ahead = *forcer;
    follow_one(&ahead, next.token);
    return decide(&ahead);
}
