/*
 * The embedded shaders are sorted by name without repetition, each is SPIR-V, and the driver
 * accepts each module. A shader that this build's compiler cannot compile has no words.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/vulkan_fixture.h"
#include "worker/backend/vulkan/device/vulkan_shaders.h"

#define SPIRV_MAGIC              0x07230203u
#define SPIRV_HEADER_WORDS       5u
#define SPIRV_CAPABILITY         (2u << 16 | 17u) /* OpCapability, of two words */
#define SPIRV_COOPERATIVE_MATRIX 6022u
#define SPIRV_NV_MATRIX2_FIRST   5430u /* reductions, conversions, per element, tensor addressing */
#define SPIRV_NV_MATRIX2_LAST    5439u /* of matrices, block loads, tensor addressing */

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

/* Whether the backend would use the module on this device: not all have matrix instructions. A
 * module begins with its capabilities, each an instruction of two words. */
static bool is_for(const struct vulkan_shader *shader, const struct vulkan_facts *facts)
{
    for (uint32_t i = SPIRV_HEADER_WORDS; i + 1 < shader->word_count; i += 2) {
        if (shader->words[i] != SPIRV_CAPABILITY)
            break;
        uint32_t capability = shader->words[i + 1];
        if (capability == SPIRV_COOPERATIVE_MATRIX && !facts->matrix_khr)
            return false;
        if (capability >= SPIRV_NV_MATRIX2_FIRST && capability <= SPIRV_NV_MATRIX2_LAST &&
            !facts->matrix_nv2)
            return false;
    }
    return true;
}

static void test_driver_takes_each(void **state)
{
    struct vulkan_device *device = (struct vulkan_device *)*state;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < vulkan_shader_count; i++) {
        const struct vulkan_shader *shader = &vulkan_shaders[i];
        if (shader->word_count == 0 || !is_for(shader, &device->facts))
            continue;
        taken++;
        VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                         .codeSize = (size_t)shader->word_count * 4,
                                         .pCode = shader->words};
        VkShaderModule module = VK_NULL_HANDLE;
        assert_int_equal(vkCreateShaderModule(device->handle, &info, NULL, &module), VK_SUCCESS);
        vkDestroyShaderModule(device->handle, module, NULL);
    }
    assert_true(taken > 0);
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
