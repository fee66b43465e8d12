/* One compiled template renders in many threads at once. */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/template_case.h"

#define THREADS    4
#define RENDERINGS 50

struct job {
    const struct chat_template *template;
    const struct cJSON *variables;
    const char *expected;
    int wrong;
};

static void *render_many(void *argument)
{
    struct job *job = argument;
    for (int i = 0; i < RENDERINGS; i++) {
        struct chat_prompt prompt;
        struct error_text error;
        enum result result =
            chat_template_render(job->template, job->variables, NULL, 0, NULL, &prompt, &error);
        if (result != RESULT_OK || strcmp(prompt.text, job->expected) != 0)
            job->wrong++;
        chat_prompt_fini(&prompt);
    }
    return NULL;
}

static void threads_share_a_template(void **state)
{
    (void)state;
    static const char source[] =
        "{% set ns = namespace(n=0) %}{% macro m(x) %}<{{ x|upper }}>{% endmacro %}"
        "{% for x in l %}{% set ns.n = ns.n + x|length %}{{ m(x) }}{{ loop.last }}{% endfor %}"
        "{{ ns.n }}{{ l|map('upper')|join(',') }}";
    struct cJSON *variables = cJSON_Parse("{\"l\":[\"a\",\"b\xc3\xa9\"]}");
    struct chat_template *template;
    struct error_text error;
    pthread_t threads[THREADS];
    struct job jobs[THREADS];
    assert_int_equal(chat_template_open(source, strlen(source), &template, &error), RESULT_OK);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){template, variables, "<A>False<B\xc3\x89>True3A,B\xc3\x89", 0};
        assert_int_equal(pthread_create(&threads[i], NULL, render_many, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(jobs[i].wrong, 0);
    }
    chat_template_close(template);
    cJSON_Delete(variables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_share_a_template)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
