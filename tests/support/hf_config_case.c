/*
 * The JSON text is static: json_value_open() keeps pointers into it while the family reads it.
 */
#include "tests/support/hf_config_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum result hf_config_case_read(const char *base, const char *more, struct model_config *config,
                                struct error_text *error)
{
    static char json[8192];
    struct json_value root;
    const struct model_family *family;
    error->text[0] = '\0';
    int length = snprintf(json, sizeof json, "{%s%s%s}", base, more[0] ? "," : "", more);
    assert_in_range(length, 0, sizeof json - 1);
    if (json_value_open(json, (size_t)length, LIMIT_CONFIG_BYTES, &root, error) != RESULT_OK)
        fail_msg("%s: %s", json, error->text);
    return family_registry_read_hf(root, &family, config, error);
}

void hf_config_case_must_read(const char *base, const char *more, struct model_config *config)
{
    struct error_text error;
    if (hf_config_case_read(base, more, config, &error) != RESULT_OK)
        fail_msg("%s: %s", more, error.text);
}

void hf_config_case_must_refuse(const char *base, const char *more, const char *words)
{
    struct model_config config;
    struct error_text error;
    if (hf_config_case_read(base, more, &config, &error) == RESULT_OK)
        fail_msg("%s is accepted", more);
    if (!strstr(error.text, words))
        fail_msg("%s: \"%s\" lacks \"%s\"", more, error.text, words);
}
