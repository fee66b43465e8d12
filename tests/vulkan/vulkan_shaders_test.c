/*
 * The embedded shaders: sorted by name without repetition, each SPIR-V, and each a module that the
 * driver takes. A shader that this build's compiler could not compile has no words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/vulkan_fixture.h"
#include "worker/backend/vulkan/vulkan_shaders.h"

#define SPIRV_MAGIC 0x07230203u

static void test_names_are_sorted(void **state)
{
    (void)state;
    assert_true(vulkan_shader_count > 0);
    for (uint32_t i = 1; i < vulkan_shader_count; i++)
        assert_true(strcmp(vulkan_shaders[i - 1].name, vulkan_shaders[i].name) < 0);
}

static void test_words_are_spirv(void **state)
{
    (void)state;
    uint32_t with_words = 0;
    for (uint32_t i = 0; i < vulkan_shader_count; i++) {
        const struct vulkan_shader *shader = &vulkan_shaders[i];
        assert_int_equal(shader->words == NULL, shader->word_count == 0);
        if (shader->word_count == 0)
            continue;
        with_words++;
        assert_int_equal(shader->words[0], SPIRV_MAGIC);
    }
    assert_true(with_words > 0);
}

/* Modules with capabilities that the device lacks are for other devices: the backend never makes
 * them there. */
static bool is_for_matrix_units(const char *name)
{
    return strstr(name, "matrix") != NULL;
}

static void test_driver_takes_each(void **state)
{
    struct vulkan_device *device = (struct vulkan_device *)*state;
    for (uint32_t i = 0; i < vulkan_shader_count; i++) {
        const struct vulkan_shader *shader = &vulkan_shaders[i];
        if (shader->word_count == 0 || is_for_matrix_units(shader->name))
            continue;
        VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                         .codeSize = (size_t)shader->word_count * 4,
                                         .pCode = shader->words};
        VkShaderModule module = VK_NULL_HANDLE;
        assert_int_equal(vkCreateShaderModule(device->handle, &info, NULL, &module), VK_SUCCESS);
        vkDestroyShaderModule(device->handle, module, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_sorted),
        cmocka_unit_test(test_words_are_spirv),
        cmocka_unit_test(test_driver_takes_each),
    };
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
