/*
 * Every rendered byte remembers whether the template wrote it or a caller's string carried it: T
 * marks the template's spans, U the caller's.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/template_case.h"

/* u: the caller's; bos: trusted by name; also inside of lists and dictionaries. */
static const char VARIABLES[] =
    "{\"u\":\"<|im_end|>\",\"bos\":\"<s>\",\"l\":[\"<|a|>\",\"b\"],\"d\":{\"k<|x|>\":\"v\"},\"n\":"
    "7,"
    "\"t\":\" <x> y \",\"f\":\"{} %s\",\"deep\":{\"bos\":\"no\"},\"empty\":[]}";

static void shows(const char *source, const char *spans)
{
    const char *const trusted_names[] = {"bos", NULL};
    struct cJSON *variables = cJSON_Parse(VARIABLES);
    struct chat_prompt prompt = {0};
    struct error_text error = {""};
    enum result result =
        template_case_render(source, strlen(source), variables, trusted_names, &prompt, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(result, RESULT_OK);
    char *shown = template_case_spans(&prompt);
    assert_string_equal(shown, spans);
    free(shown);
    chat_prompt_fini(&prompt);
    cJSON_Delete(variables);
}

static void output_keeps_apart(void **state)
{
    (void)state;
    shows("<|im_start|>{{ u }}<|im_end|>", "T<|im_start|>U<|im_end|>T<|im_end|>");
    shows("{{ bos }}{{ u }}", "T<s>U<|im_end|>");
    shows("{{ deep.bos }}", "Uno");
    shows("a{{ n }}{{ none }}{{ 1.5 }}{{ empty }}", "Ta7None1.5[]");
    shows("{% for x in l %}[{{ x }}]{% endfor %}", "T[U<|a|>T][UbT]");
    shows("{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", "Uk<|x|>T=Uv");
    shows("{{ l[0][1:3] }}{{ u[0] }}{{ u[-1] }}", "U|a<>");
}

static void building_keeps_each_byte(void **state)
{
    (void)state;
    shows("{{ '<s>' + u + '</s>' }}", "T<s>U<|im_end|>T</s>");
    shows("{{ 'a' ~ u ~ n }}", "TaU<|im_end|>T7");
    shows("{{ ('[' + t + ']').strip('[ ]') }}", "U<x> y");
    shows("{{ ('<|' + l[1] + '|>')[1:4] }}", "T|UbT|");
    shows("{{ ('-' + l[1] + '-')[::-1] }}", "T-UbT-");
    shows("{{ ('A' + l[1]) * 2 }}", "TAUbTAUb");
    shows("{{ l | join('<sep>') }}", "U<|a|>T<sep>Ub");
    shows("{{ ','.join(l) }}", "U<|a|>T,Ub");
    shows("{{ 'x-y' | replace('-', u) }}", "TxU<|im_end|>Ty");
    shows("{{ u.replace('im', '<t>') }}", "U<|T<t>U_end|>");
    shows("{{ ('a ' + t).split() | join('+') }}", "Ta+U<x>T+Uy");
    shows("{{ '<%s>' % l[1] }}{{ '<%s>' | format(l[1]) }}", "T<UbT><UbT>");
    shows("{{ '<{}>'.format(l[1]) }}", "T<UbT>");
    shows("{{ f.format('x') }}{{ f % 'y' }}", "TxU %s{} Ty");
    shows("{{ 'a\nb' | indent(l[1]) }}", "Ta\nUbTb");
    shows("{{ l[1] | center(3) }}{{ l[1].rjust(2, '*') }}", "T UbT *Ub");
}

static void blocks_keep_each_byte(void **state)
{
    (void)state;
    shows("{% set x %}<{{ u }}>{% endset %}{{ x }}", "T<U<|im_end|>T>");
    shows("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(u) }}{{ m('t') }}", "T<U<|im_end|>T><t>");
    shows("{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}{{ u }}{% endcall %}",
          "T[U<|im_end|>T]");
    shows("{% set ns = namespace(s='') %}{% for x in l %}{% set ns.s = ns.s + '<' + x %}"
          "{% endfor %}{{ ns.s }}",
          "T<U<|a|>T<Ub");
    shows("{% generation %}a{{ u }}{% endgeneration %}", "TaU<|im_end|>");
    shows("{{ u if true else 'x' }}{{ u or 'x' }}{{ '' or u }}", "U<|im_end|><|im_end|><|im_end|>");
    shows("{{ u | default('d') }}{{ missing | default('d') }}", "U<|im_end|>Td");
}

static void other_filters_give_the_callers(void **state)
{
    (void)state;
    shows("{{ u | upper }}{{ 'a' | upper }}", "U<|IM_END|>TA");
    shows("{{ ('a' + u) | lower }}", "Ua<|im_end|>");
    shows("{{ l | tojson }}{{ [1, 'a'] | tojson }}", "U[\"<|a|>\", \"b\"]T[1, \"a\"]");
    shows("{{ {'role': 'x', 'c': u} | tojson }}", "U{\"role\": \"x\", \"c\": \"<|im_end|>\"}");
    shows("{{ l }}{{ d }}", "U['<|a|>', 'b']{'k<|x|>': 'v'}");
    shows("{{ [1, 'a'] }}", "T[1, 'a']");
    shows("{{ '%r' % u }}", "U'<|im_end|>'");
    shows("{{ u | e }}{{ '<' | e }}", "U&lt;|im_end|&gt;T&lt;");
    shows("{{ u | urlencode }}{{ u | title }}", "U%3C%7Cim_end%7C%3E<|im_end|>");
    shows("{{ 'a' | tojson(separators=(l[1], ':')) }}", "U\"a\"");
}

/* What the test is about: special tokens in a message stay text, the template's own do not. */
static void messages_cannot_write_tokens(void **state)
{
    (void)state;
    shows(
        "{% for m in [{'role': 'user', 'content': u}] %}"
        "{{ '<|im_start|>' + m['role'] + '\n' + m['content'] | trim + '<|im_end|>' }}{% endfor %}",
        "T<|im_start|>user\nU<|im_end|>T<|im_end|>");
}

static void spans_cover_the_text(void **state)
{
    (void)state;
    const char source[] = "a{{ u }}b{{ '' }}{{ l[1] }}{{ l[0] }}";
    struct cJSON *variables = cJSON_Parse(VARIABLES);
    struct chat_prompt prompt = {0};
    struct error_text error;
    assert_int_equal(template_case_render(source, strlen(source), variables, NULL, &prompt, &error),
                     RESULT_OK);
    const char *at = prompt.text;
    for (size_t i = 0; i < prompt.span_count; i++) {
        assert_ptr_equal(prompt.spans[i].text, at);
        assert_true(prompt.spans[i].text_bytes > 0);
        assert_true(i == 0 || prompt.spans[i].trusted != prompt.spans[i - 1].trusted);
        at += prompt.spans[i].text_bytes;
    }
    assert_ptr_equal(at, prompt.text + prompt.text_bytes);
    chat_prompt_fini(&prompt);
    cJSON_Delete(variables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_keeps_apart),
        cmocka_unit_test(building_keeps_each_byte),
        cmocka_unit_test(blocks_keep_each_byte),
        cmocka_unit_test(other_filters_give_the_callers),
        cmocka_unit_test(messages_cannot_write_tokens),
        cmocka_unit_test(spans_cover_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
