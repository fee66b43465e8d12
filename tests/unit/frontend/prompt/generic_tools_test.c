/*
 * Tools for templates that know none: which templates need them, and what messages become.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/prompt/chat_template.h"
#include "frontend/prompt/generic_tools.h"

static void expect_needed(const char *source, bool needed)
{
    struct chat_template *template;
    struct error_text error;
    assert_int_equal(chat_template_open(source, strlen(source), &template, &error), RESULT_OK);
    assert_int_equal(generic_tools_needed(template), needed);
    chat_template_close(template);
}

static void templates_that_show_no_tool_need_them(void **state)
{
    (void)state;
    expect_needed("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", true);
    expect_needed("{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% endfor %}", false);
    expect_needed("{% for t in tools %}{{ t.function.name }}{% endfor %}", false);
    expect_needed("{{ raise_exception('no') }}", false);
}

/* Applies and compares; quotes in both texts are '. */
static void expect(const char *messages, const char *tools, const char *expected)
{
    char *texts[3] = {strdup(messages), tools ? strdup(tools) : NULL, strdup(expected)};
    cJSON *values[3] = {NULL};
    for (int i = 0; i < 3; i++) {
        for (char *c = texts[i]; c && *c; c++)
            *c = *c == '\'' ? '"' : *c;
        values[i] = texts[i] ? cJSON_Parse(texts[i]) : NULL;
        free(texts[i]);
    }
    assert_int_equal(generic_tools_apply(values[0], values[1]), RESULT_OK);
    if (!cJSON_Compare(values[0], values[2], true)) {
        char *is = cJSON_Print(values[0]);
        fail_msg("%s", is);
    }
    for (int i = 0; i < 3; i++)
        cJSON_Delete(values[i]);
}

static void calls_and_results_become_text(void **state)
{
    (void)state;
    expect("[{'role':'user','content':'a'},{'role':'assistant','content':null,'tool_calls':["
           "{'id':'1','type':'function','function':{'name':'f','arguments':{'x':1}}},"
           "{'id':'2','type':'function','function':{'name':'g','arguments':'not JSON'}}]},"
           "{'role':'tool','tool_call_id':'1','content':'one'},"
           "{'role':'tool','tool_call_id':'2','content':'two'},{'role':'user','content':'b'}]",
           NULL,
           "[{'role':'user','content':'a'},{'role':'assistant','content':"
           "'<tool_call>\\n{\\'name\\': \\'f\\', \\'arguments\\': {\\'x\\':1}}\\n</tool_call>\\n"
           "<tool_call>\\n{\\'name\\': \\'g\\', \\'arguments\\': not JSON}\\n</tool_call>'},"
           "{'role':'user','content':'<tool_response>\\none\\n</tool_response>\\n"
           "<tool_response>\\ntwo\\n</tool_response>'},{'role':'user','content':'b'}]");
    expect(
        "[{'role':'tool','content':[{'type':'image'}]},{'role':'tool','content':'x'}]", NULL,
        "[{'role':'user','content':[{'type':'text','text':'<tool_response>\\n'},{'type':'image'},"
        "{'type':'text','text':'\\n</tool_response>'}]},"
        "{'role':'user','content':'<tool_response>\\nx\\n</tool_response>'}]");
}

static void tools_are_described_in_the_system_message(void **state)
{
    (void)state;
    static const char *const bodies[] = {"[{\"role\":\"user\",\"content\":\"a\"}]",
                                         "[{\"role\":\"system\",\"content\":\"Be brief.\"},"
                                         "{\"role\":\"user\",\"content\":\"a\"}]"};
    for (int i = 0; i < 2; i++) {
        cJSON *messages = cJSON_Parse(bodies[i]);
        cJSON *tools =
            cJSON_Parse("[{\"function\":{\"name\":\"f\"}},{\"function\":{\"name\":\"g\"}}]");
        assert_int_equal(generic_tools_apply(messages, tools), RESULT_OK);
        assert_int_equal(cJSON_GetArraySize(messages), 2);
        const cJSON *first = messages->child;
        const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(first, "content"));
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(first, "role")),
                            "system");
        assert_int_equal(strncmp(text, "Be brief.\n\n", 11) == 0, i);
        assert_non_null(strstr(text, "{\"name\":\"f\"}\n{\"name\":\"g\"}"));
        assert_non_null(strstr(text, "<tool_call>"));
        cJSON_Delete(messages);
        cJSON_Delete(tools);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_that_show_no_tool_need_them),
        cmocka_unit_test(calls_and_results_become_text),
        cmocka_unit_test(tools_are_described_in_the_system_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
