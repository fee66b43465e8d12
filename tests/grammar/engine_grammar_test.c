/*
 * Answers under grammars in a whole engine with a fake backend: each obeys its grammar, is the same
 * alone, among others, preempted, replayed, after a cancel, with drafted tokens and with any overlap of steps, and
 * ends where the grammar or the other rules of an answer say.
 *
 * Token t is the byte t, token 0 ends the text, and ids above 96 do not exist.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/grammar/grammar_builder.h"
#include "proto/log.h"
#include "tests/support/draft_oracle.h"
#include "tests/support/engine_rig.h"
#include "worker/backend/host/thread_pool.h"

#define VOCAB     97u
#define END       0u
#define THINK     1u /* starts thinking; a special token, because no grammar here has byte 1 */
#define THINK_END 2u
#define CROWD     64u
#define ANSWER    200u /* tokens of the longest answer */

static const uint32_t stop_ids[1] = {END};
static const uint32_t prompt[12] = {9, 8, 7, 6, 5, 4, 3, 9, 8, 7, 6, 5};

/* --- grammars --------------------------------------------------------------------------------- */

enum { DIGITS, WORDS, NESTED, FIXED, GRAMMARS };
static struct grammar_blob_out blobs[GRAMMARS];

static symbol_id literal(struct grammar_builder *b, const char *text)
{
    return grammar_terminal(b, grammar_regex_literal(b, text, strlen(text)));
}

static symbol_id build(struct grammar_builder *b, int which)
{
    const struct code_point_range digits = {'0', '9'};
    regex_id digit = grammar_regex_code_points(b, &digits, 1);
    if (which == DIGITS) /* [0-9]{3,90} */
        return grammar_terminal(b, grammar_regex_repeat(b, digit, 3, 90));
    if (which == FIXED)
        return literal(b, "ABC");
    if (which == WORDS) { /* ("AB" | "CDE")+ ";" */
        const symbol_id words[] = {literal(b, "AB"), literal(b, "CDE")};
        const symbol_id parts[] = {
            grammar_repeat(b, grammar_choice(b, words, 2), 1, GRAMMAR_UNBOUNDED), literal(b, ";")};
        return grammar_sequence(b, parts, 2);
    }
    symbol_id value = grammar_rule(b); /* value: digit | "(" value* ")" */
    const symbol_id nested[] = {literal(b, "("), grammar_repeat(b, value, 0, GRAMMAR_UNBOUNDED),
                                literal(b, ")")};
    symbol_id group = grammar_sequence(b, nested, 3);
    symbol_id leaf = grammar_terminal(b, digit);
    grammar_production(b, value, &leaf, 1);
    grammar_production(b, value, &group, 1);
    return group;
}

static struct grammar_blob_out finish(struct grammar_builder *b, symbol_id root)
{
    struct grammar_blob_out out = {0};
    if (!grammar_builder_finish(b, root, &out))
        fail_msg("%s", grammar_builder_reason(b));
    grammar_builder_close(b);
    return out;
}

static int build_all(void **state)
{
    (void)state;
    for (int i = 0; i < GRAMMARS; i++) {
        struct grammar_builder *b = grammar_builder_open(&(struct grammar_bounds){0});
        blobs[i] = finish(b, build(b, i));
    }
    return 0;
}

static int free_all(void **state)
{
    (void)state;
    for (int i = 0; i < GRAMMARS; i++)
        free(blobs[i].bytes);
    return 0;
}

/* Reads a text of the grammar by hand. *whole: it is complete; false: it is no beginning of one. */
static bool reads(int which, const uint32_t *text, uint32_t count, bool *whole)
{
    uint32_t depth = 0, state = 0;
    *whole = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t c = text[i];
        bool digit = c >= '0' && c <= '9';
        if (which == NESTED ? i > 0 && depth == 0 : *whole && which != DIGITS)
            return false;
        if (which == DIGITS) {
            if (!digit || i >= 90)
                return false;
            *whole = i >= 2;
        } else if (which == FIXED) {
            if (i > 2 || c != 'A' + i)
                return false;
            *whole = i == 2;
        } else if (which == NESTED) {
            if (c != '(' && (depth == 0 || (c != ')' && !digit)))
                return false;
            depth += c == '(' ? 1 : 0;
            depth -= c == ')' ? 1 : 0;
            *whole = depth == 0;
        } else { /* 0: a word begins; 1: after A; 2: after C; 3: after D */
            if (c == ';' && state == 0 && i > 0)
                *whole = true;
            else if (state == 0 && (c == 'A' || c == 'C'))
                state = c == 'A' ? 1 : 2;
            else if (state == 2 && c == 'D')
                state = 3;
            else if ((state == 1 && c == 'B') || (state == 3 && c == 'E'))
                state = 0;
            else
                return false;
        }
    }
    return true;
}

/* --- requests --------------------------------------------------------------------------------- */

static struct test_request request_of(int which, uint64_t seed)
{
    struct test_request request = test_request_of(prompt, 4 + (uint32_t)(seed % 8), ANSWER);
    request.sampling.seed = seed;
    request.stop_ids = stop_ids;
    request.stop_token_count = 1;
    request.grammar = blobs[which].bytes;
    request.grammar_bytes = (uint32_t)blobs[which].size;
    if (seed % 3 == 0)
        request.sampling.presence_penalty = 0.5f;
    return request;
}

struct answer {
    uint32_t tokens[ANSWER];
    uint32_t count;
    enum finish_reason finish;
    enum result failure;
};

static struct answer answer_of(const struct engine_rig *rig, uint32_t slot)
{
    const struct test_reply *reply = &rig->frontend->replies[slot];
    struct answer answer = {
        .count = reply->token_count, .finish = reply->finish, .failure = reply->failure};
    assert_true(reply->token_count <= ANSWER);
    memcpy(answer.tokens, reply->tokens, reply->token_count * sizeof *reply->tokens);
    return answer;
}

/* Alternately with masks known before each launch and after it. */
static struct answer run_alone(const struct test_request *request)
{
    static bool masks_follow;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    options.masks_follow = masks_follow = !masks_follow;
    engine_rig_open(&rig, &options);
    test_frontend_send_bytes(rig.frontend);
    assert_true(test_frontend_submit(rig.frontend, 1, request));
    engine_rig_finish(&rig, 3000);
    struct answer answer = answer_of(&rig, 1);
    engine_rig_close(&rig);
    return answer;
}

static void assert_same(const struct answer *a, const struct answer *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->tokens, b->tokens, a->count * sizeof *a->tokens);
    assert_int_equal(a->finish, b->finish);
    assert_int_equal(a->failure, b->failure);
}

/* Tokens [from, end) are the grammar's text, perhaps with the end token. */
static void assert_obeys(int which, const struct answer *answer, uint32_t from)
{
    bool whole;
    uint32_t end = answer->count;
    assert_int_equal(answer->failure, RESULT_OK);
    if (answer->finish == FINISH_STOP_TOKEN)
        assert_int_equal(answer->tokens[--end], END);
    assert_true(reads(which, answer->tokens + from, end - from, &whole));
    assert_true(whole || answer->finish == FINISH_LENGTH);
}

/* --- tests ------------------------------------------------------------------------------------ */

/* The masks of these steps were computed after their launch, which the fake backend asserts. */
static void assert_masks_followed(const struct engine_rig *rig)
{
    const struct fake_backend_totals totals = fake_backend_totals(rig->backend);
    assert_true(totals.steps_awaiting > 100);
    assert_true(totals.late_masks > totals.steps_awaiting);
    assert_true(totals.free_beside_late > 100);
}

static void check_crowd(uint32_t overlap, bool masks_follow, const struct answer *alone,
                        struct thread_pool *helpers)
{
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    options.kv_blocks[0] = 24; /* a few answers at once: many preemptions */
    options.helpers = helpers;
    options.masks_follow = masks_follow;
    engine_rig_set_overlap(&options, overlap);
    engine_rig_open(&rig, &options);
    test_frontend_send_bytes(rig.frontend);
    for (uint32_t i = 0; i < CROWD; i++) {
        struct test_request request = request_of((int)(i % GRAMMARS), i);
        assert_true(test_frontend_submit(rig.frontend, 2 * i, &request));
        request.grammar_bytes = 0; /* a free one beside it */
        assert_true(test_frontend_submit(rig.frontend, 2 * i + 1, &request));
    }
    engine_rig_finish(&rig, 200000);
    for (uint32_t i = 0; i < CROWD; i++) {
        struct answer answer = answer_of(&rig, 2 * i);
        assert_same(&answer, &alone[i]);
        struct test_request request = request_of((int)(i % GRAMMARS), i);
        engine_rig_check_reply(&rig, &request, &rig.frontend->replies[2 * i + 1]);
    }
    assert_true(engine_rig_preemptions(&rig) > 20);
    const struct worker_gauges *gauges = rig.frontend->pair.segment.gauges;
    assert_int_equal(atomic_load(&gauges->grammars_total), CROWD);
    assert_int_equal(atomic_load(&gauges->grammar_failures_total), 0);
    assert_true(atomic_load(&gauges->grammar_masks_total) > CROWD);
    if (masks_follow)
        assert_masks_followed(&rig);
    engine_rig_close(&rig);
}

static void test_alone_and_among_others(void **state)
{
    (void)state;
    static struct answer alone[CROWD];
    uint32_t by_length = 0, by_grammar = 0, by_stop = 0;
    for (uint32_t i = 0; i < CROWD; i++) {
        struct test_request request = request_of((int)(i % GRAMMARS), i);
        alone[i] = run_alone(&request);
        assert_obeys((int)(i % GRAMMARS), &alone[i], 0);
        by_length += alone[i].finish == FINISH_LENGTH;
        by_grammar += alone[i].finish == FINISH_GRAMMAR;
        by_stop += alone[i].finish == FINISH_STOP_TOKEN;
    }
    assert_true(by_grammar > CROWD / 4 && by_stop > 2);
    assert_true(by_length + by_grammar + by_stop == CROWD);
    struct thread_pool *helpers;
    assert_int_equal(thread_pool_create(3, &helpers, NULL), RESULT_OK);
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++) {
        check_crowd(overlap, false, alone, overlap % 2 ? helpers : NULL);
        check_crowd(overlap, true, alone, overlap % 2 ? helpers : NULL);
    }
    thread_pool_destroy(helpers);
}

/* The oracle knows the answers and makes mistakes: any number of its drafts is right. */
static void check_drafts(uint64_t seed, const struct answer *alone)
{
    static struct draft_oracle oracle;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    draft_oracle_init(&oracle, seed, VOCAB);
    options.kv_blocks[0] = 24;
    options.logit_rows = 40;
    options.step_tokens = 48;
    options.drafter = &oracle.drafter;
    options.masks_follow = seed % 2; /* drafts need the masks before */
    options.draft_pace = draft_oracle_pace();
    engine_rig_open(&rig, &options);
    test_frontend_send_bytes(rig.frontend);
    for (uint32_t i = 0; i < CROWD; i++) {
        struct test_request request = request_of((int)(i % GRAMMARS), i);
        draft_oracle_teach(&oracle, request.prompt, request.prompt_tokens, alone[i].tokens,
                           alone[i].count);
        assert_true(test_frontend_submit(rig.frontend, i, &request));
    }
    engine_rig_finish(&rig, 200000);
    for (uint32_t i = 0; i < CROWD; i++) {
        struct answer answer = answer_of(&rig, i);
        assert_same(&answer, &alone[i]);
    }
    assert_true(engine_rig_preemptions(&rig) > 5);
    assert_true(rig.frontend->draft_tokens > 1000);
    for (uint32_t position = 1; position <= 6; position++)
        assert_true(rig.frontend->accepted_drafts[position] > 10);
    assert_int_equal(atomic_load(&rig.frontend->pair.segment.gauges->grammar_failures_total), 0);
    draft_oracle_fini(&oracle);
    engine_rig_close(&rig);
}

static void test_drafts(void **state)
{
    (void)state;
    static struct answer alone[CROWD];
    for (uint32_t i = 0; i < CROWD; i++) {
        struct test_request request = request_of((int)(i % GRAMMARS), i);
        alone[i] = run_alone(&request);
    }
    for (uint64_t seed = 1; seed <= 6; seed++)
        check_drafts(seed, alone);
}

/* Finds nothing: only forced tokens are drafted. */
static void propose_nothing(void *state, const uint32_t *tokens, uint32_t known, uint32_t most,
                            struct draft_proposal *proposal)
{
    (void)state, (void)tokens, (void)known, (void)most;
    proposal->count = 0;
}

static void *open_nothing(const struct drafter *drafter, uint32_t tokens_max)
{
    (void)tokens_max;
    return (void *)(uintptr_t)drafter;
}

static void close_nothing(void *state)
{
    (void)state;
}

/* A text that the grammar forces takes a step for many tokens, not one for each. */
static void test_forced_runs_share_steps(void **state)
{
    (void)state;
    static const char text[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const uint32_t count = sizeof text - 1;
    const struct drafter nothing = {
        .open = open_nothing, .close = close_nothing, .propose = propose_nothing};
    struct grammar_builder *b = grammar_builder_open(&(struct grammar_bounds){0});
    struct grammar_blob_out blob = finish(b, literal(b, text));
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    options.logit_rows = 40;
    options.step_tokens = 48;
    options.drafter = &nothing;
    options.draft_pace = draft_oracle_pace();
    engine_rig_open(&rig, &options);
    test_frontend_send_bytes(rig.frontend);
    struct test_request request = request_of(FIXED, 1);
    request.grammar = blob.bytes;
    request.grammar_bytes = (uint32_t)blob.size;
    assert_true(test_frontend_submit(rig.frontend, 1, &request));
    engine_rig_finish(&rig, 3000);
    struct answer answer = answer_of(&rig, 1);
    assert_int_equal(answer.finish, FINISH_GRAMMAR);
    assert_int_equal(answer.count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(answer.tokens[i], text[i]);
    /* The prompt's step draws one token, the next 32, the last the rest. */
    const struct worker_gauges *gauges = rig.frontend->pair.segment.gauges;
    assert_int_equal(atomic_load(&gauges->steps), 3);
    assert_in_range(atomic_load(&gauges->grammar_masks_total), count, count + 3);
    engine_rig_close(&rig);
    free(blob.bytes);
}

/* Every third request is cancelled at some step of its grammar, and later asked for again: cancelled
 * replies are beginnings of the answer, all others are the answer. */
static void check_cancels(uint32_t overlap, bool masks_follow, const struct answer *alone)
{
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    options.kv_blocks[0] = 24;
    options.masks_follow = masks_follow;
    engine_rig_set_overlap(&options, overlap);
    engine_rig_open(&rig, &options);
    test_frontend_send_bytes(rig.frontend);
    uint32_t cut = 0, next = 0;
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < CROWD; i += round == 0 ? 1 : 3) {
            struct test_request request = request_of((int)(i % GRAMMARS), i);
            assert_true(test_frontend_submit(rig.frontend, i, &request));
        }
        for (uint32_t turn = 0; round == 0 && next < CROWD; turn++) {
            (void)engine_rig_turn(&rig);
            (void)test_frontend_collect(rig.frontend);
            const struct test_reply *reply = &rig.frontend->replies[next];
            bool has_begun = reply->token_count > next % 5;
            if (!reply->live || has_begun) {
                if (reply->live)
                    test_frontend_cancel(rig.frontend, next);
                next += 3;
            }
            assert_true(turn < 200000);
        }
        engine_rig_finish(&rig, 200000);
        for (uint32_t i = 0; i < CROWD; i += round == 0 ? 1 : 3) {
            struct answer answer = answer_of(&rig, i);
            if (answer.finish != FINISH_CANCELLED) {
                assert_same(&answer, &alone[i]);
                continue;
            }
            assert_true(round == 0 && answer.count <= alone[i].count);
            assert_memory_equal(answer.tokens, alone[i].tokens, answer.count * sizeof(uint32_t));
            cut += answer.count > 0;
        }
    }
    assert_true(cut > CROWD / 10);
    assert_int_equal(atomic_load(&rig.frontend->pair.segment.gauges->grammar_failures_total), 0);
    engine_rig_close(&rig);
}

static void test_cancels(void **state)
{
    (void)state;
    static struct answer alone[CROWD];
    for (uint32_t i = 0; i < CROWD; i++) {
        struct test_request request = request_of((int)(i % GRAMMARS), i);
        alone[i] = run_alone(&request);
    }
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++)
        for (int masks_follow = 0; masks_follow < 2; masks_follow++)
            check_cancels(overlap, masks_follow, alone);
}

/* As after a worker's death at any token. */
static void test_replays(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 2 * GRAMMARS; seed++) {
        struct test_request request = request_of((int)(seed % GRAMMARS), seed);
        struct answer whole = run_alone(&request);
        for (uint32_t known = 0; known <= whole.count && known < 20; known++) {
            uint32_t tokens[sizeof prompt / sizeof *prompt + ANSWER];
            if (known == whole.count && whole.finish != FINISH_GRAMMAR)
                break; /* the frontend finds this end itself */
            struct test_request rest = request;
            memcpy(tokens, prompt, request.prompt_tokens * sizeof *tokens);
            memcpy(tokens + request.prompt_tokens, whole.tokens, known * sizeof *tokens);
            rest.prompt = tokens;
            rest.prompt_tokens += known;
            rest.generated_tokens = known;
            rest.max_new_tokens -= known;
            struct answer answer = run_alone(&rest);
            assert_int_equal(answer.count, whole.count - known);
            assert_memory_equal(answer.tokens, whole.tokens + known,
                                answer.count * sizeof *answer.tokens);
            assert_int_equal(answer.finish, whole.finish);
        }
    }
}

/* The grammar's end takes precedence over the length that is reached with it. */
static void test_lengths(void **state)
{
    (void)state;
    struct test_request request = request_of(FIXED, 1);
    for (uint32_t most = 1; most <= 4; most++) {
        request.max_new_tokens = most;
        struct answer answer = run_alone(&request);
        assert_int_equal(answer.count, most < 3 ? most : 3);
        assert_int_equal(answer.finish, most < 3 ? FINISH_LENGTH : FINISH_GRAMMAR);
    }
}

/* Stop ids are barred where the grammar goes on, not where it must end. */
static void test_minimum_and_ignored_end(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct test_request request = request_of(DIGITS, seed);
        request.min_tokens = 40;
        struct answer answer = run_alone(&request);
        assert_obeys(DIGITS, &answer, 0);
        assert_true(answer.count >= 40);
        request.min_tokens = 150;
        answer = run_alone(&request);
        assert_int_equal(answer.count, 90);
        assert_int_equal(answer.finish, FINISH_GRAMMAR);
        request.min_tokens = 0;
        request.flags = SUBMIT_FLAG_IGNORE_END;
        answer = run_alone(&request);
        assert_int_equal(answer.count, 90);
        assert_int_equal(answer.finish, FINISH_GRAMMAR);
    }
}

static void test_prefix(void **state)
{
    (void)state;
    const uint32_t forced[] = {70, 71, 72};
    struct test_request request = request_of(WORDS, 3);
    request.forced_ids = forced;
    request.prefix_count = 3;
    struct answer answer = run_alone(&request);
    assert_memory_equal(answer.tokens, forced, sizeof forced);
    assert_obeys(WORDS, &answer, 3);
}

/* Where in the answer the grammar begins: after the end mark. */
static uint32_t after_thinking(const struct answer *answer)
{
    uint32_t at = 0;
    while (at < answer->count && answer->tokens[at] != THINK_END)
        at++;
    return at + 1;
}

static void test_after_thinking(void **state)
{
    (void)state;
    const uint32_t marks[] = {THINK, THINK_END};
    uint32_t thought = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct test_request request = request_of(NESTED, seed);
        request.forced_ids = marks;
        request.think_start_count = request.think_end_count = 1;
        request.thinking_budget = 15;
        request.flags = SUBMIT_FLAG_GRAMMAR_AFTER_THINKING | SUBMIT_FLAG_THINKING_BUDGET |
                        (seed % 2 ? SUBMIT_FLAG_THINKING_OPEN : 0);
        struct answer answer = run_alone(&request);
        bool thinks = seed % 2 || answer.tokens[0] == THINK;
        thought += seed % 2 == 0 && thinks;
        uint32_t begin = thinks ? after_thinking(&answer) : 0;
        assert_true(begin <= 17);
        if (answer.finish != FINISH_STOP_TOKEN || answer.tokens[answer.count - 1] != END ||
            answer.count > begin)
            assert_obeys(NESTED, &answer, begin);
    }
    assert_true(thought > 0 && thought < 40); /* the model may choose to */
}

/* Without the flag the grammar governs from the first token, whatever the marks say. */
static void test_at_once(void **state)
{
    (void)state;
    const uint32_t marks[] = {'(', ')'}; /* would force the end of "thinking" into the text */
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct test_request request = request_of(NESTED, seed);
        request.forced_ids = marks;
        request.think_start_count = request.think_end_count = 1;
        request.thinking_budget = 0;
        request.flags = SUBMIT_FLAG_THINKING_BUDGET | SUBMIT_FLAG_LOGPROBS;
        request.top_logprobs = 2;
        struct answer answer = run_alone(&request);
        assert_obeys(NESTED, &answer, 0);
    }
}

/* A grammar that needs bytes that no token has fails alone. */
static void test_dead_end(void **state)
{
    (void)state;
    struct grammar_builder *b = grammar_builder_open(&(struct grammar_bounds){0});
    struct grammar_blob_out blob = finish(b, literal(b, "AAz"));
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    engine_rig_open(&rig, &options);
    test_frontend_send_bytes(rig.frontend);
    test_frontend_send_bytes(rig.frontend); /* the first one counts */
    struct test_request request = request_of(DIGITS, 5);
    struct answer alone = run_alone(&request);
    assert_true(test_frontend_submit(rig.frontend, 1, &request));
    request.grammar = blob.bytes;
    request.grammar_bytes = (uint32_t)blob.size;
    assert_true(test_frontend_submit(rig.frontend, 2, &request));
    engine_rig_finish(&rig, 3000);
    struct answer answer = answer_of(&rig, 1);
    assert_same(&answer, &alone);
    answer = answer_of(&rig, 2);
    assert_int_equal(answer.failure, RESULT_GRAMMAR_DEAD_END);
    assert_int_equal(answer.count, 2);
    assert_int_equal(atomic_load(&rig.frontend->pair.segment.gauges->grammar_failures_total), 1);
    engine_rig_close(&rig);
    free(blob.bytes);
}

int main(void)
{
    log_init("test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_and_among_others),
        cmocka_unit_test(test_drafts),
        cmocka_unit_test(test_forced_runs_share_steps),
        cmocka_unit_test(test_cancels),
        cmocka_unit_test(test_replays),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_minimum_and_ignored_end),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_after_thinking),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_dead_end),
    };
    return cmocka_run_group_tests(tests, build_all, free_all);
}
