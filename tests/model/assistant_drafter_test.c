/*
 * An assistant of Gemma 4 on the CPU proposes what transformers' does. Configs with one defect, or for another model, are
 * refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/assistant_trial.h"
#include "tests/support/tiny_folder.h"
#include "worker/model/model.h"

#define FOLDER "tests/golden/drafters/gemma4_assistant"
#define MODEL  "build/checkpoints/gemma4-f32"

static void test_proposals(void **state)
{
    (void)state;
    assistant_trial_run(&(struct assistant_trial){.tolerance = 2e-5});
}

/* Changes one piece of text of the golden config, to one of as many bytes. */
static void write_config(const char *folder, const char *from, const char *to)
{
    static char text[4096];
    char path[300];
    FILE *file = fopen(FOLDER "/config.json", "r");
    must(file);
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = '\0';
    char *at = strstr(text, from);
    must(at && strlen(from) == strlen(to));
    memcpy(at, to, strlen(to));
    snprintf(path, sizeof path, "%s/config.json", folder);
    file = fopen(path, "w");
    must(file && fwrite(text, 1, bytes, file) == bytes);
    fclose(file);
}

static void copy_weights(const char *folder)
{
    char path[300];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *from = fopen(FOLDER "/model.safetensors", "rb"), *to = fopen(path, "wb");
    must(from && to);
    for (int byte; (byte = fgetc(from)) != EOF;)
        must(fputc(byte, to) == byte);
    fclose(from);
    fclose(to);
}

/* The model stays usable. */
static void must_refuse(const char *checkpoint, const char *folder, const char *words)
{
    struct model *model;
    struct error_text error = {""};
    must(model_open(checkpoint, &model, &error) == RESULT_OK);
    must(model_open_drafter(model, folder, NULL, &error) != RESULT_OK);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
    assert_null(model_drafter(model));
    assert_false(model_plan(model)->keeps_hidden);
    model_close(model);
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"\"backbone_hidden_size\": 64", "\"backbone_hidden_size\": 63", "states of 63 columns"},
        {"\"backbone_hidden_size\"", "\"backbone_hidden_sizf\"", "backbone_hidden_size"},
        {"\"use_ordered_embeddings\": false", "\"use_ordered_embeddings\": true ",
         "logits by centroids"},
        {"\"vocab_size\": 263", "\"vocab_size\": 262", "vocabulary has 262 tokens"},
        {"\"sliding_window\": 8", "\"sliding_window\": 9", "layer 0: the model has no layer"},
        {"\"global_head_dim\": 32", "\"global_head_dim\": 16", "layer 1: the model has no layer"},
        {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4",
         "layer 0: the model has no layer"},
        {"\"hidden_size\": 32", "\"hidden_size\": 48", "tensor"},
        {"\"intermediate_size\": 32", "\"intermediate_size\": 33", "tensor"},
        {"\"text_config\"", "\"text_confih\"", "text_config is missing"},
        {"\"model_type\": \"gemma4_text\"", "\"model_type\": \"qwen3_text_\"", "qwen3_text_"},
    };
    struct tiny_folder folder;
    tiny_folder_create(&folder);
    copy_weights(folder.path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_config(folder.path, cases[i][0], cases[i][1]);
        must_refuse(MODEL, folder.path, cases[i][2]);
    }
    must_refuse("build/checkpoints/smollm3-f32", FOLDER, "for models of family gemma4");
    must_refuse("build/checkpoints/gemma4_moe-f32", FOLDER, "states of 64 columns");
    tiny_folder_destroy(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_proposals),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
