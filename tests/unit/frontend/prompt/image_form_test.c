/*
 * The form of an image and of a text that a template accepts. Templates of publishers are those of
 * tests/golden/templates; the others have only the lines by which their kind is detected.
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
#include "frontend/prompt/image_form.h"
#include "tests/support/template_case.h"

#define GOLDEN "tests/golden/templates/source/"

static struct chat_template *open_source(const char *source)
{
    struct chat_template *template;
    struct error_text error;
    assert_int_equal(chat_template_open(source, strlen(source), &template, &error), RESULT_OK);
    return template;
}

static struct image_form form_of(const char *source, const char *marker)
{
    struct chat_template *template = open_source(source);
    struct image_form form = image_form_find(template, marker);
    chat_template_close(template);
    return form;
}

static struct image_form form_of_file(const char *path, const char *marker)
{
    size_t bytes;
    char *source = template_case_read(path, &bytes);
    struct image_form form = form_of(source, marker);
    free(source);
    return form;
}

static void publishers_templates_take_images(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {GOLDEN "npm-lenml-gemma3.jinja", "<start_of_image>"},
        {GOLDEN "lcp-google-gemma-4-31B-it.jinja", "<|image|>"},
        {GOLDEN "lcp-Qwen3.5-4B.jinja", "<|image_pad|>"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct image_form form = form_of_file(rows[i][0], rows[i][1]);
        if (!form.type)
            fail_msg("%s takes none", rows[i][0]);
        assert_string_equal(form.type, "image");
        assert_false(form.texts_are_lists);
    }
}

static void text_templates_take_none(void **state)
{
    (void)state;
    assert_null(form_of_file(GOLDEN "npm-lenml-qwen3.jinja", "<|image_pad|>").type);
    assert_null(form_of_file(GOLDEN "google-gemma-2-2b-it.jinja", "<start_of_image>").type);
    assert_null(form_of("{{ raise_exception('no') }}", "<image>").type);
}

static const char of_lists[] =
    "{% for m in messages %}{{ m.role }}{% for line in m['content'] %}"
    "{% if line['type'] == 'text' %}{{ line['text'] }}{% elif line['type'] == 'image' %}"
    "{{ '<image>' }}{% endif %}{% endfor %}{% endfor %}";

static void some_print_nothing_of_a_string(void **state)
{
    (void)state;
    struct image_form form = form_of(of_lists, "<image>");
    assert_string_equal(form.type, "image");
    assert_true(form.texts_are_lists);
    cJSON *messages = cJSON_Parse("[{\"role\":\"user\",\"content\":\"hi\"},"
                                  "{\"role\":\"assistant\",\"content\":null}]");
    assert_int_equal(image_form_apply(&form, messages), RESULT_OK);
    char *text = cJSON_PrintUnformatted(messages);
    assert_string_equal(text,
                        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]},"
                        "{\"role\":\"assistant\",\"content\":null}]");
    free(text);
    cJSON_Delete(messages);
}

static void some_look_for_image_url(void **state)
{
    (void)state;
    struct image_form form =
        form_of("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
                "{% for p in m.content %}{% if p.type == 'image_url' %}<img>{% else %}{{ p.text }}"
                "{% endif %}{% endfor %}{% endif %}{% endfor %}",
                "<img>");
    assert_string_equal(form.type, "image_url");
    cJSON *messages = cJSON_Parse("[{\"role\":\"user\",\"content\":[{\"type\":\"image\"},"
                                  "{\"type\":\"text\",\"text\":\"image\"}]}]");
    assert_int_equal(image_form_apply(&form, messages), RESULT_OK);
    char *text = cJSON_PrintUnformatted(messages);
    assert_string_equal(text, "[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"},"
                              "{\"type\":\"text\",\"text\":\"image\"}]}]");
    free(text);
    cJSON_Delete(messages);
}

static void a_users_own_marker_does_not_count(void **state)
{
    (void)state;
    struct chat_prompt prompt;
    struct error_text error;
    struct chat_template *template = open_source(of_lists);
    cJSON *variables =
        cJSON_Parse("{\"messages\":[{\"role\":\"<image>\",\"content\":[{\"type\":\"image\"},"
                    "{\"type\":\"text\",\"text\":\"<image><image>\"},{\"type\":\"image\"}]}]}");
    assert_int_equal(chat_template_render(template, variables, (const char *const[]){NULL}, 0, NULL,
                                          &prompt, &error),
                     RESULT_OK);
    assert_string_equal(prompt.text, "<image><image><image><image><image>");
    assert_int_equal(image_form_count(&prompt, "<image>"), 2);
    chat_prompt_fini(&prompt);
    cJSON_Delete(variables);
    chat_template_close(template);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(publishers_templates_take_images),
        cmocka_unit_test(text_templates_take_none),
        cmocka_unit_test(some_print_nothing_of_a_string),
        cmocka_unit_test(some_look_for_image_url),
        cmocka_unit_test(a_users_own_marker_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
