/*
 * Mutated and random chat templates end within the bounds of proto/limits.h, whatever they compute:
 * published templates with operations put in between that are as costly as the language allows, and
 * templates made of such operations alone. Time is the thread's CPU time.
 *
 * usage: chat_template_fuel_test [TEMPLATES [SEED]]
 */
// tags: long
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/limits.h"
#include "tests/support/sanitized.h"
#include "tests/support/template_case.h"
#include "tests/support/test_random.h"

#define FOLDER         "tests/golden/templates"
#define TEMPLATES_MAX  128u
#define SECONDS_MAX    10.0 /* of CPU; an idle machine takes at most 0.8 */
#define EXPRESSION_MAX 3u   /* nesting of generated operations */

static uint32_t renderings = SANITIZED ? 60 : 300;
static uint64_t first_seed = 1;

struct text {
    char bytes[LIMIT_TEMPLATE_BYTES + 4096];
    size_t length;
};

static struct {
    char *source[TEMPLATES_MAX];
    size_t bytes[TEMPLATES_MAX];
    uint32_t count;
} published;

static void append(struct text *text, const char *bytes, size_t count)
{
    if (count > LIMIT_TEMPLATE_BYTES - text->length)
        count = LIMIT_TEMPLATE_BYTES - text->length;
    memcpy(text->bytes + text->length, bytes, count);
    text->length += count;
}

static void append_text(struct text *text, const char *words)
{
    append(text, words, strlen(words));
}

/* --- generated operations ---------------------------------------------------------------------- */

#define PICK(random, list) (list)[test_random_below(random, sizeof(list) / sizeof(list)[0])]

static const char *const values[] = {"s",
                                     "t",
                                     "u",
                                     "l",
                                     "m",
                                     "d",
                                     "ns.x",
                                     "messages",
                                     "'ab'",
                                     "''",
                                     "0",
                                     "1",
                                     "-1",
                                     "99999",
                                     "0.5",
                                     "[1,2]",
                                     "{'a':1}",
                                     "range(9999)",
                                     "range(99999)",
                                     "messages[0]",
                                     "tools",
                                     "s[1:]",
                                     "s[::-1]",
                                     "l[::-1]",
                                     "none",
                                     "true",
                                     "a",
                                     "b"};
static const char *const filters[] = {"upper",
                                      "lower",
                                      "capitalize",
                                      "title",
                                      "trim",
                                      "string",
                                      "length",
                                      "list",
                                      "reverse",
                                      "sort",
                                      "unique",
                                      "min",
                                      "max",
                                      "sum",
                                      "join('x')",
                                      "join",
                                      "dictsort",
                                      "items",
                                      "tojson",
                                      "tojson(indent=4)",
                                      "wordcount",
                                      "urlencode",
                                      "escape",
                                      "truncate(100000)",
                                      "indent(99, true)",
                                      "center(100000)",
                                      "replace('a', 'bcd')",
                                      "batch(3)|list",
                                      "slice(3)|list",
                                      "map('string')|list",
                                      "select('odd')|list",
                                      "reject('none')|list",
                                      "groupby('role')",
                                      "first",
                                      "last",
                                      "int",
                                      "float",
                                      "round(3)",
                                      "abs",
                                      "default(s)",
                                      "map('upper')|join",
                                      "selectattr('role')|list",
                                      "format(s, t)"};
static const char *const methods[] = {
    "split()",         "split('a')",     "rsplit('a', 9)", "splitlines()", "strip()",
    "count('a')",      "count(t)",       "find(t)",        "rfind(t)",     "replace('a', t)",
    "startswith(t)",   "partition('b')", "upper()",        "title()",      "swapcase()",
    "join(l)",         "zfill(99999)",   "expandtabs(99)", "isalnum()",    "items()",
    "keys()",          "get('a')",       "format(s, t)",   "center(9999)", "removeprefix(t)",
    "removesuffix(t)", "istitle()",      "isidentifier()", "index('b')",   "rindex('b')"};
static const char *const operators[] = {" + ", " ~ ",  " * ",  " in ",  " == ", " < ",      " % ",
                                        " - ", " // ", " ** ", " and ", " or ", " not in ", " / "};
static const char *const patterns[] = {" is string",  " is iterable", " is lower",   " is odd",
                                       " is mapping", " is defined",  " is sequence"};

static void expression(struct text *out, struct test_random *random, uint32_t depth)
{
    if (depth == 0 || test_random_below(random, 4) == 0) {
        append_text(out, PICK(random, values));
        return;
    }
    append_text(out, "(");
    expression(out, random, depth - 1);
    switch (test_random_below(random, 6)) {
    case 0:
    case 1:
        append_text(out, PICK(random, operators));
        expression(out, random, depth - 1);
        break;
    case 2:
        append_text(out, ")|");
        append_text(out, PICK(random, filters));
        return;
    case 3:
        append_text(out, ").");
        append_text(out, PICK(random, methods));
        return;
    case 4: append_text(out, PICK(random, patterns)); break;
    default:
        append_text(out, ")[");
        expression(out, random, depth - 1);
        append_text(out, test_random_below(random, 2) ? ":]" : "]");
        return;
    }
    append_text(out, ")");
}

/* A statement or two with the expression inside. */
static void statement(struct text *out, struct test_random *random, uint32_t depth)
{
    static const char *const forms[][2] = {
        {"{{ ", " }}"},
        {"{% set ns.x = ", " %}"},
        {"{% set s = ", " %}"},
        {"{% set l = ", " %}"},
        {"{% if ", " %}x{% else %}y{% endif %}"},
        {"{% for a in range(99999) %}{% set b = ", " %}{% endfor %}"},
        {"{% for a in range(999) %}{% set ns.x = ", " %}{% endfor %}"},
        {"{% for a in ", " %}{{ a }}{{ loop.length }}{% endfor %}"},
        {"{% macro p(a, b='c') %}{{ ", " }}{% endmacro %}{{ p(l) }}"},
        {"{% filter upper %}{{ ", " }}{% endfilter %}"},
    };
    const char *const *form = PICK(random, forms);
    append_text(out, form[0]);
    expression(out, random, EXPRESSION_MAX);
    append_text(out, form[1]);
    if (depth > 0 && test_random_below(random, 3) == 0) {
        append_text(out, "{% for b in range(9999) %}");
        statement(out, random, depth - 1);
        append_text(out, "{% endfor %}");
    }
}

/* --- templates --------------------------------------------------------------------------------- */

static const char opening[] =
    "{% set ns = namespace(x='ab') %}{% set s = '\xc3\xa9' * 50000 %}{% set t = 'ab' * 20000 %}"
    "{% set u = 'Ab c\\n' * 10000 %}{% set l = range(20000)|list %}{% set m = [s, t, u] * 9 %}"
    "{% set d = {'a': s, 'b': l, 'c': {'d': t}} %}{% set a = t %}{% set b = 'a' %}";

static bool ends_tag(const char *source, size_t at)
{
    return at >= 2 && source[at - 1] == '}' && (source[at - 2] == '%' || source[at - 2] == '}');
}

/* A published template with statements after some of its tags, and perhaps broken bytes. */
static void mutate(struct text *out, struct test_random *random)
{
    uint32_t chosen = test_random_below(random, published.count);
    const char *source = published.source[chosen];
    size_t bytes = published.bytes[chosen];
    uint32_t every = 3 + test_random_below(random, 40);
    bool loops = test_random_below(random, 3) == 0;
    append_text(out, opening);
    if (loops)
        append_text(out, "{% for q in range(99999) %}");
    for (size_t at = 0; at < bytes; at++) {
        if (ends_tag(source, at) && test_random_below(random, every) == 0)
            statement(out, random, 1);
        append(out, source + at, 1);
    }
    if (loops)
        append_text(out, "{% endfor %}");
    for (uint32_t broken = test_random_below(random, 16); broken > 13 && out->length > 0; broken--)
        out->bytes[test_random_below(random, (uint32_t)out->length)] =
            (char)test_random_next(random);
}

static void invent(struct text *out, struct test_random *random)
{
    append_text(out, opening);
    for (uint32_t left = 1 + test_random_below(random, 6); left > 0; left--)
        statement(out, random, 2);
}

/* --- the property ------------------------------------------------------------------------------ */

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Returns the CPU time; counts the outcome. */
static double render(const struct text *text, const struct cJSON *variables, uint32_t *outcomes)
{
    static const char *const trusted_names[] = {"bos_token", "eos_token", NULL};
    struct chat_prompt prompt = {0};
    struct error_text error = {""};
    double start = seconds_now();
    enum result result =
        template_case_render(text->bytes, text->length, variables, trusted_names, &prompt, &error);
    double taken = seconds_now() - start;
    assert_true(result == RESULT_OK || result == RESULT_INVALID || result == RESULT_TOO_LARGE);
    assert_true(result == RESULT_OK ? prompt.text_bytes <= LIMIT_TEMPLATE_OUTPUT : error.text[0]);
    outcomes[result == RESULT_OK ? 0 : result == RESULT_INVALID ? 1 : 2]++;
    chat_prompt_fini(&prompt);
    return taken;
}

static void templates_end_within_their_bounds(void **state)
{
    (void)state;
    static struct text text;
    struct cJSON *inputs = template_case_read_json(FOLDER "/inputs.json");
    uint32_t outcomes[3] = {0};
    double slowest = 0;
    for (uint32_t i = 0; i < renderings; i++) {
        struct test_random random = {.state = first_seed + i};
        text.length = 0;
        if (test_random_below(&random, 2))
            mutate(&text, &random);
        else
            invent(&text, &random);
        uint32_t input = test_random_below(&random, (uint32_t)cJSON_GetArraySize(inputs));
        double taken = render(&text, cJSON_GetArrayItem(inputs, (int)input), outcomes);
        if (taken > slowest) {
            slowest = taken;
            print_message("seed %llu: %.3f s\n", (unsigned long long)(first_seed + i), taken);
        }
        if (taken > SECONDS_MAX && !SANITIZED)
            fail_msg("seed %llu: %.3f s of CPU: %.*s", (unsigned long long)(first_seed + i), taken,
                     (int)text.length, text.bytes);
    }
    print_message("%u rendered, %u invalid, %u at a bound\n", outcomes[0], outcomes[1],
                  outcomes[2]);
    assert_true(outcomes[0] > 0 && outcomes[1] > 0 && outcomes[2] > 0);
    cJSON_Delete(inputs);
}

static int set_up(void **state)
{
    (void)state;
    char path[512];
    struct dirent **entries;
    int count =
        scandir(FOLDER "/source", &entries, NULL, alphasort); /* seeds depend on the order */
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (strstr(name, ".jinja") && published.count < TEMPLATES_MAX) {
            (void)snprintf(path, sizeof path, FOLDER "/source/%.255s", name);
            published.source[published.count] =
                template_case_read(path, &published.bytes[published.count]);
            published.count++;
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return published.count > 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < published.count; i++)
        free(published.source[i]);
    return 0;
}

int main(int count, char **arguments)
{
    if (count > 1)
        renderings = (uint32_t)strtoul(arguments[1], NULL, 10);
    if (count > 2)
        first_seed = strtoull(arguments[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(templates_end_within_their_bounds)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
