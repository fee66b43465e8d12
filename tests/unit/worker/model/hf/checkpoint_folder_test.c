/*
 * Folders with one file or several: what an index may say, which tensors must be there, and
 * refusals by path, file and reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/tiny_folder.h"
#include "worker/model/model.h"

static struct tiny_folder folder;

static int setup(void **state)
{
    (void)state;
    tiny_folder_create(&folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tiny_folder_destroy(&folder);
    return 0;
}

static void refuse(enum result result, const char *words)
{
    struct error_text error = {""};
    struct model *model = NULL;
    enum result opened = model_open(folder.path, &model, &error);
    if (opened != result || !strstr(error.text, words) || !strstr(error.text, folder.path))
        fail_msg("%s \"%s\", not %s with \"%s\"", result_name(opened), error.text,
                 result_name(result), words);
    assert_null(model);
}

static struct model *must_open(void)
{
    struct error_text error = {""};
    struct model *model = NULL;
    if (model_open(folder.path, &model, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    return model;
}

static void test_one_file(void **state)
{
    (void)state;
    tiny_folder_write_weights(&folder, "model.safetensors", 0, 1);
    struct model *model = must_open();
    assert_string_equal(model_config(model)->architecture, "llama");
    assert_string_equal(model_config(model)->name, strrchr(folder.path, '/') + 1);
    assert_string_equal(model_plan(model)->weights[0].name, "model.embed_tokens.weight");
    model_close(model);
}

static void test_several_files(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "part-%u.safetensors", i);
        tiny_folder_write_weights(&folder, name, i, 3);
    }
    tiny_folder_write_index(&folder, 3);
    model_close(must_open());
    unlink(tiny_folder_file(&folder, "part-1.safetensors"));
    refuse(RESULT_INVALID, "part-1.safetensors: No such file");
}

/* Links lead out of the folder, as in Hugging Face's cache. */
static void test_links(void **state)
{
    (void)state;
    tiny_folder_write_weights(&folder, "blob", 0, 1);
    assert_int_equal(symlink("blob", tiny_folder_file(&folder, "model.safetensors")), 0);
    model_close(must_open());
    unlink(tiny_folder_file(&folder, "blob"));
    refuse(RESULT_INVALID, "neither model.safetensors nor");
}

static void test_missing_files(void **state)
{
    (void)state;
    refuse(RESULT_INVALID, "neither model.safetensors nor model.safetensors.index.json");
    unlink(tiny_folder_file(&folder, "config.json"));
    refuse(RESULT_INVALID, "the folder has no config.json");
    tiny_folder_write(&folder, "config.json", "");
    refuse(RESULT_INVALID, "config.json: the file is empty");
    tiny_folder_write(&folder, "config.json", "{\"model_type\":");
    refuse(RESULT_INVALID, "config.json: no valid JSON");
    tiny_folder_write(&folder, "config.json", "[]");
    tiny_folder_write_weights(&folder, "model.safetensors", 0, 1);
    refuse(RESULT_INVALID, "config.json: not an object");
    unlink(tiny_folder_file(&folder, "config.json"));
    assert_int_equal(mkfifo(tiny_folder_file(&folder, "config.json"), 0600), 0);
    refuse(RESULT_INVALID, "config.json: not a regular file");
}

static void test_bad_indices(void **state)
{
    (void)state;
    static const struct {
        const char *index;
        enum result result;
        const char *words;
    } cases[] = {
        {"[]", RESULT_INVALID, "no object weight_map"},
        {"{", RESULT_INVALID, "no valid JSON"},
        {"{}", RESULT_INVALID, "no object weight_map"},
        {"{\"weight_map\":[]}", RESULT_INVALID, "no object weight_map"},
        {"{\"weight_map\":{}}", RESULT_INVALID, "weight_map is empty"},
        {"{\"weight_map\":{\"a\":1}}", RESULT_INVALID, "malformed behind line 0"},
        {"{\"weight_map\":{\"a\":\"\"}}", RESULT_INVALID, "\"\" is not the plain name"},
        {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", RESULT_INVALID, "not the plain name"},
        {"{\"weight_map\":{\"a\":\"..\"}}", RESULT_INVALID, "not the plain name"},
        {"{\"weight_map\":{\"a\":\"/etc/x.safetensors\"}}", RESULT_INVALID, "not the plain name"},
        {"{\"weight_map\":{\"a\":\"b/x.safetensors\"}}", RESULT_INVALID, "not the plain name"},
        {"{\"weight_map\":{\"a\":\".x.safetensors\"}}", RESULT_INVALID, "not the plain name"},
        {"{\"weight_map\":{\"a\":\".safetensors\"}}", RESULT_INVALID, "not the plain name"},
        {"{\"weight_map\":{\"a\":\"model.safetensors.index.json\"}}", RESULT_INVALID,
         "not the plain name"},
        {"{\"weight_map\":{\"a\":\"pytorch_model.bin\"}}", RESULT_INVALID, "not the plain name"},
        {"{\"weight_map\":{\"a\":\"x\\u0000.safetensors\"}}", RESULT_INVALID, "malformed"},
        {"{\"weight_map\":{\"a\":\"x\\n.safetensors\"}}", RESULT_INVALID, "not the plain name"},
        {"{\"weight_map\":{\"a\":\"absent.safetensors\"}}", RESULT_INVALID,
         "absent.safetensors: No such file"},
        {"{\"weight_map\":{\"a\":\"folder.safetensors\"}}", RESULT_INVALID,
         "folder.safetensors: not a regular file"},
        {"{\"weight_map\":{\"a\":\"empty.safetensors\"}}", RESULT_INVALID,
         "empty.safetensors: the file is empty"},
        {"{\"weight_map\":{\"a\":\"text.safetensors\"}}", RESULT_TOO_LARGE,
         "text.safetensors: not a safetensors file"},
        {"{\"weight_map\":{\"a\":\"part-0.safetensors\"}}", RESULT_CORRUPT,
         "tensor a is not in part-0.safetensors"},
        {"{\"weight_map\":{\"model.norm.weight\":\"part-0.safetensors\","
         "\"model.norm.weight\":\"part-1.safetensors\"}}",
         RESULT_CORRUPT, "tensor model.norm.weight is not in part-"},
        {"{\"weight_map\":{\"model.embed_tokens.weight\":\"copy.safetensors\","
         "\"model.norm.weight\":\"part-1.safetensors\"}}",
         RESULT_CORRUPT, "is in both copy.safetensors and part-1.safetensors"},
    };
    assert_int_equal(mkdir(tiny_folder_file(&folder, "folder.safetensors"), 0700), 0);
    tiny_folder_write(&folder, "empty.safetensors", "");
    tiny_folder_write(&folder, "text.safetensors", "no tensors here");
    tiny_folder_write_weights(&folder, "part-0.safetensors", 0, 2);
    tiny_folder_write_weights(&folder, "part-1.safetensors", 1, 2);
    tiny_folder_write_weights(&folder, "copy.safetensors", 0, 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tiny_folder_write(&folder, "model.safetensors.index.json", cases[i].index);
        refuse(cases[i].result, cases[i].words);
    }
    rmdir(tiny_folder_file(&folder, "folder.safetensors"));
}

/* Each tensor once missing, once of another shape and once of another type; and one too many. */
static void test_tensors(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < folder.tensor_count; i++) {
        struct tiny_folder_tensor kept = folder.tensors[i];
        snprintf(folder.tensors[i].name, sizeof folder.tensors[i].name, "other.weight");
        tiny_folder_write_weights(&folder, "model.safetensors", 0, 1);
        refuse(RESULT_INVALID, kept.name);
        folder.tensors[i] = kept;
        folder.tensors[i].dimensions[0]++;
        tiny_folder_write_weights(&folder, "model.safetensors", 0, 1);
        refuse(RESULT_INVALID, kept.name);
        folder.tensors[i] = kept;
        folder.tensors[i].type = "I16";
        tiny_folder_write_weights(&folder, "model.safetensors", 0, 1);
        refuse(RESULT_UNSUPPORTED, "is of type I16, not F32, F16 or BF16");
        folder.tensors[i] = kept;
    }
    tiny_folder_add_tensor(&folder, "model.layers.0.self_attn.q_proj.bias", 1, 16);
    tiny_folder_write_weights(&folder, "model.safetensors", 0, 1);
    refuse(RESULT_UNSUPPORTED, "self_attn.q_proj.bias is not part of architecture llama");
}

/* A copy of a tied embedding and stored rotary frequencies are ignored. */
static void test_harmless(void **state)
{
    (void)state;
    tiny_folder_add_tensor(&folder, "lm_head.weight", 8, 16);
    tiny_folder_add_tensor(&folder, "model.layers.0.self_attn.rotary_emb.inv_freq", 1, 2);
    tiny_folder_write_weights(&folder, "model.safetensors", 0, 1);
    model_close(must_open());
}

static void test_cut_short(void **state)
{
    (void)state;
    struct error_text error;
    struct model *model = NULL;
    tiny_folder_write_weights(&folder, "model.safetensors", 0, 1);
    struct stat status;
    const char *path = tiny_folder_file(&folder, "model.safetensors");
    assert_int_equal(stat(path, &status), 0);
    for (off_t bytes = status.st_size - 1; bytes >= 0; bytes -= 37) {
        assert_int_equal(truncate(path, bytes), 0);
        assert_int_not_equal(model_open(folder.path, &model, &error), RESULT_OK);
        assert_non_null(strstr(error.text, "model.safetensors"));
        assert_null(model);
    }
}

static struct model_fingerprint fingerprint(void)
{
    struct model *model = must_open();
    struct model_fingerprint found = model_fingerprint(model);
    model_close(model);
    return found;
}

static void test_fingerprint(void **state)
{
    (void)state;
    tiny_folder_write_weights(&folder, "part-0.safetensors", 0, 2);
    tiny_folder_write_weights(&folder, "part-1.safetensors", 1, 2);
    tiny_folder_write_index(&folder, 2);
    struct model_fingerprint first = fingerprint(), again = fingerprint();
    assert_memory_equal(&first, &again, sizeof first);
    /* a new modification time of any file is another fingerprint */
    static const char *const files[] = {"config.json", "part-0.safetensors", "part-1.safetensors",
                                        "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000 + (time_t)i}};
        assert_int_equal(utimensat(0, tiny_folder_file(&folder, files[i]), times, 0), 0);
        struct model_fingerprint touched = fingerprint();
        assert_true(touched.header_hash != first.header_hash);
        assert_int_equal(touched.file_bytes, first.file_bytes);
        first = touched;
    }
}

/* The text part of a multimodal model, with an older version's tensor names. */
static void test_text_part(void **state)
{
    (void)state;
    static const char whole[] =
        "{\"model_type\":\"mistral3\",\"tie_word_embeddings\":false,\"vision_config\":{},"
        "\"text_config\":{\"model_type\":\"ministral3\",\"hidden_size\":16,"
        "\"intermediate_size\":20,\"num_hidden_layers\":1,\"num_attention_heads\":4,"
        "\"num_key_value_heads\":2,\"head_dim\":4,\"vocab_size\":8,"
        "\"tie_word_embeddings\":true}}";
    tiny_folder_write(&folder, "config.json", whole);
    for (uint32_t i = 0; i < folder.tensor_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "language_model.%.48s", folder.tensors[i].name);
        memcpy(folder.tensors[i].name, name, sizeof name);
    }
    tiny_folder_add_tensor(&folder, "vision_tower.ln_pre.weight", 1, 16);
    tiny_folder_write_weights(&folder, "model.safetensors", 0, 1);
    refuse(RESULT_INVALID, "lm_head.weight is missing");
    tiny_folder_add_tensor(&folder, "language_model.lm_head.weight", 8, 16);
    tiny_folder_write_weights(&folder, "model.safetensors", 0, 1);
    struct model *model = must_open();
    assert_string_equal(model_config(model)->architecture, "mistral3");
    assert_int_equal(model_config(model)->context_tokens, 262144);
    assert_false(model_config(model)->tied_embeddings);
    model_close(model);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_file),      TEST(test_several_files), TEST(test_links),
        TEST(test_missing_files), TEST(test_bad_indices),   TEST(test_tensors),
        TEST(test_text_part),     TEST(test_harmless),      TEST(test_cut_short),
        TEST(test_fingerprint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
