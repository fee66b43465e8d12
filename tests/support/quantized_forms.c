/*
 * The ids are the unquantized checkpoint's; only the logits are each form's own.
 */
#include "tests/support/quantized_forms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

double quantized_forms_difference(const char *family, const char *form, const struct form_run *how)
{
    static struct form_golden golden;
    static struct form_result result;
    char path[FORM_NAME_BYTES * 2];
    checkpoint_forms_read(family, &golden);
    snprintf(path, sizeof path, "tests/golden/quantized/%s.f32", form);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be read", path);
    assert_int_equal(fread(golden.logits, sizeof golden.logits, 1, file), 1);
    fclose(file);
    snprintf(path, sizeof path, "%s-%s", family, form);
    checkpoint_forms_run(path, &golden, how, &result);
    return checkpoint_forms_difference(&golden, &result);
}
