/*
 * Which files of a repository are taken for a model.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/hub/hub_choice_policy.h"

/* `files` and `wanted` are separated by spaces, in the same order; `model` "" is the folder. */
static void expect(const char *files, const char *quant, const char *model, const char *projector,
                   const char *wanted)
{
    struct hub_listing listing = {{0}, NULL, 0, 0};
    struct hub_choice choice;
    struct error_text error;
    char text[1024], chosen[1024] = "";
    snprintf(text, sizeof text, "%s", files);
    for (char *name = strtok(text, " "); name; name = strtok(NULL, " "))
        assert_int_equal(hub_listing_add(&listing, &(struct hub_file){.name = name}, &error),
                         RESULT_OK);
    if (hub_choice_make(&listing, quant, &choice, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    for (uint32_t i = 0; i < choice.count; i++) {
        size_t length = strlen(chosen);
        snprintf(chosen + length, sizeof chosen - length, "%s%s", i ? " " : "",
                 listing.files[choice.files[i]].name);
    }
    assert_string_equal(chosen, wanted);
    assert_string_equal(choice.model ? choice.model : "", model);
    assert_string_equal(choice.projector ? choice.projector : "", projector);
    hub_choice_fini(&choice);
    hub_listing_fini(&listing);
}

static void refuse_with(const char *files, const char *quant, enum result result,
                        struct error_text *error)
{
    struct hub_listing listing = {{0}, NULL, 0, 0};
    struct hub_choice choice;
    char text[1024];
    snprintf(text, sizeof text, "%s", files);
    for (char *name = strtok(text, " "); name; name = strtok(NULL, " "))
        assert_int_equal(hub_listing_add(&listing, &(struct hub_file){.name = name}, error),
                         RESULT_OK);
    assert_int_equal(hub_choice_make(&listing, quant, &choice, error), result);
    assert_null(choice.files);
    hub_listing_fini(&listing);
}

static void refuse(const char *files, const char *quant, enum result result, const char *words)
{
    struct error_text error = {""};
    refuse_with(files, quant, result, &error);
    if (!strstr(error.text, words))
        fail_msg("%s", error.text);
}

static void a_quantization_is_a_whole_word(void **state)
{
    (void)state;
    static const char files[] = "m-IQ4_NL.gguf m-Q4_K_M.gguf m-Q4_K_S.gguf m-bf16.gguf m-f16.gguf "
                                "m.Q4_0.gguf m-UD-Q4_K_M.gguf";
    expect(files, "Q4_K_M", "m-Q4_K_M.gguf", "", "m-Q4_K_M.gguf");
    expect(files, "ud-q4_k_m", "m-UD-Q4_K_M.gguf", "", "m-UD-Q4_K_M.gguf");
    expect(files, "F16", "m-f16.gguf", "", "m-f16.gguf");
    expect(files, "Q4_0", "m.Q4_0.gguf", "", "m.Q4_0.gguf");
    expect(files, "M.q4_0.GGUF", "m.Q4_0.gguf", "", "m.Q4_0.gguf");
    refuse(files, "Q4_K", RESULT_NOT_FOUND, "it has no GGUF file 'Q4_K', but m-IQ4_NL.gguf, ");
    refuse(files, "Q4", RESULT_NOT_FOUND, "it has no GGUF file 'Q4'");
    refuse("README.md m.bin", "Q4_0", RESULT_NOT_FOUND, "it has no GGUF file");
}

static void types_have_an_order(void **state)
{
    (void)state;
    expect("a-F16.gguf a-Q8_0.gguf a-Q4_0.gguf a-Q4_K_M.gguf", "", "a-Q4_K_M.gguf", "",
           "a-Q4_K_M.gguf");
    expect("a-BF16.gguf a-Q8_0.gguf a-IQ2_XS.gguf", "", "a-Q8_0.gguf", "", "a-Q8_0.gguf");
    expect("b.gguf a.gguf imatrix_a.gguf", "", "a.gguf", "", "a.gguf");
    expect("a-00002-of-00002.gguf a-00001-of-00002.gguf", "", "a-00001-of-00002.gguf", "",
           "a-00002-of-00002.gguf a-00001-of-00002.gguf");
    expect("a-00001-of-00000.gguf", "", "a-00001-of-00000.gguf", "", "a-00001-of-00000.gguf");
    expect("a-00002-of-00001.gguf", "", "a-00002-of-00001.gguf", "", "a-00002-of-00001.gguf");
    refuse("a-00001-of-00003.gguf a-00003-of-00003.gguf b-00002-of-00003.gguf", "", RESULT_CORRUPT,
           "only 2 of 3 parts are there");
}

static void a_projector_comes_along(void **state)
{
    (void)state;
    expect("m-Q8_0.gguf mmproj-BF16.gguf mmproj-F16.gguf mmproj-F32.gguf x.txt", "", "m-Q8_0.gguf",
           "mmproj-F16.gguf", "m-Q8_0.gguf mmproj-F16.gguf");
    refuse("mmproj-F16.gguf", "", RESULT_NOT_FOUND, "it has neither");
    refuse("mmproj-F16.gguf", "F16", RESULT_NOT_FOUND, "it has no GGUF file");
}

/* Each before the next, whatever the names' order. */
static void projectors_have_an_order(void **state)
{
    (void)state;
    static const char *const names[] = {"e/mmproj-f16.gguf",  "d/mmproj-BF16.gguf",
                                        "c/mmproj-Q8_0.gguf", "b/mmproj-F32.gguf",
                                        "a/mmproj-f31.gguf",  "a/mmproj.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (size_t j = 0; j < sizeof names / sizeof names[0]; j++)
            assert_int_equal(hub_projector_comes_before(names[i], names[j]), i < j);
    assert_true(hub_projector_comes_before("a-f16.gguf", "b-f16.gguf"));
    assert_false(hub_projector_comes_before("b-f16.gguf", "a-f16.gguf"));
}

/* Of names with the quantization the shorter, then the first by name. */
static void the_plainer_name_is_taken(void **state)
{
    (void)state;
    expect("m-UD-Q4_0.gguf m-Q4_0.gguf m-imat-Q4_0.gguf", "Q4_0", "m-Q4_0.gguf", "", "m-Q4_0.gguf");
    expect("b-Q4_0.gguf a-Q4_0.gguf c-Q4_0.gguf", "Q4_0", "a-Q4_0.gguf", "", "a-Q4_0.gguf");
    expect("aa-Q4_0.gguf b-Q4_0.gguf", "", "b-Q4_0.gguf", "", "b-Q4_0.gguf");
}

/* A refusal lists the names that fit in 159 bytes. */
static void names_of_a_refusal_are_bounded(void **state)
{
    (void)state;
    char files[256], words[256], name[160];
    for (int extra = 0; extra < 2; extra++) {
        memset(name, 'n', sizeof name);
        name[159 - 2 - 2 * 5 - 1 + extra] = '\0';
        snprintf(files, sizeof files, "a.gguf %s.gguf", name);
        snprintf(words, sizeof words, "it has no GGUF file 'Q4_0', but a.gguf");
        if (!extra)
            snprintf(words + strlen(words), sizeof words - strlen(words), ", %s.gguf", name);
        struct error_text error = {""};
        refuse_with(files, "Q4_0", RESULT_NOT_FOUND, &error);
        assert_string_equal(error.text, words);
    }
}

/* Two split files of the same length and number of parts. */
static void parts_have_the_same_stem(void **state)
{
    (void)state;
    expect("a1-00001-of-00002.gguf a1-00002-of-00002.gguf a2-00001-of-00002.gguf "
           "a2-00002-of-00002.gguf a1-00002-of-00003.gguf",
           "", "a1-00001-of-00002.gguf", "", "a1-00001-of-00002.gguf a1-00002-of-00002.gguf");
}

static void a_folder_is_its_weights_and_settings(void **state)
{
    (void)state;
    expect("config.json model.safetensors onnx/config.json onnx/model.safetensors tokenizer.json "
           "vocab.json a-Q8_0.gguf pytorch_model.bin 2_Dense/model.safetensors",
           "", "", "", "config.json model.safetensors tokenizer.json 2_Dense/model.safetensors");
    expect("config.json model.safetensors a-Q8_0.gguf", "Q8_0", "a-Q8_0.gguf", "", "a-Q8_0.gguf");
    expect("config.json model.safetensors.index.json model-00001-of-00002.safetensors "
           "model-00002-of-00002.safetensors model.safetensors",
           "", "", "",
           "config.json model.safetensors.index.json model-00001-of-00002.safetensors "
           "model-00002-of-00002.safetensors");
    expect("config.json model.safetensors.index.json one.safetensors two.safetensors "
           "consolidated.safetensors",
           "", "", "", "config.json model.safetensors.index.json one.safetensors two.safetensors");
    refuse("config.json model.safetensors.index.json model-00001-of-00002.safetensors", "",
           RESULT_CORRUPT, "1 of 2 files");
    refuse("config.json model.safetensors.index.json", "", RESULT_CORRUPT, "0 of 0 files");
    refuse("config.json pytorch_model.bin", "", RESULT_NOT_FOUND, "it has neither a GGUF file");
    refuse("model.safetensors", "", RESULT_NOT_FOUND, "it has neither a GGUF file");
}

static void names_have_types(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"m-Q4_K_M.gguf", "Q4_K_M"},
                                           {"m.iq4_nl.gguf", "IQ4_NL"},
                                           {"Q2_K/m-00001-of-00002.gguf", "Q2_K"},
                                           {"m-bf16.gguf", "BF16"},
                                           {"model.gguf", ""},
                                           {"m-UD-Q4_K_XL.gguf", "Q4_K_XL"},
                                           {"m-f32.gguf", "F32"},
                                           {"m-Q4_K_L.gguf", "Q4_K_L"},
                                           {"m-Q3_K.gguf", "Q3_K"}};
    char quant[32];
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        hub_name_quant(pairs[i][0], quant);
        assert_string_equal(quant, pairs[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quantization_is_a_whole_word),
        cmocka_unit_test(types_have_an_order),
        cmocka_unit_test(a_projector_comes_along),
        cmocka_unit_test(projectors_have_an_order),
        cmocka_unit_test(the_plainer_name_is_taken),
        cmocka_unit_test(names_of_a_refusal_are_bounded),
        cmocka_unit_test(parts_have_the_same_stem),
        cmocka_unit_test(a_folder_is_its_weights_and_settings),
        cmocka_unit_test(names_have_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
