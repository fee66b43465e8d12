/*
 * GGUF files with one number changed, or truncated: every one is refused with the error text listed
 * beside it. Split files: complete ones open; those with a part missing or from another model do
 * not.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/tiny_checkpoint.h"
#include "tests/support/tiny_folder.h"

/* `value` of `width` bytes is written `delta` bytes after the end of the first `name` in the file,
 * or `delta` bytes into the file if `name` is NULL. If `width` is 0, the file is truncated: to
 * `delta` bytes, or by -delta bytes. */
struct broken_place {
    const char *name;
    int delta;
    uint32_t width;
    uint64_t value;
    const char *words;
};

/* clang-format off */
static const struct broken_place places[] = {
    {NULL, 0, 4, 0, "not a GGUF file: it does not start with \"GGUF\""},
    {NULL, 0, 4, 1179010887, "not a GGUF file: it does not start with \"GGUF\""},
    {NULL, 0, 4, 1179993926, "not a GGUF file: it does not start with \"GGUF\""},
    {NULL, 4, 4, 0, "GGUF version 0, not 2 or 3"},
    {NULL, 4, 4, 1, "GGUF version 1, not 2 or 3"},
    {NULL, 4, 4, 4, "GGUF version 4, not 2 or 3"},
    {NULL, 4, 4, 50331648, "the file is big-endian"},
    {NULL, 4, 4, 196608, "the file is big-endian"},
    {NULL, 8, 8, 0, "tensor token_embd.weight is missing"},
    {NULL, 8, 8, 1, "tensor blk.0.attn_norm.weight is missing"},
    {NULL, 8, 8, 65537, "65537 tensors, over 65536"},
    {NULL, 8, 8, 0x10000000000u, "1099511627776 tensors, over 65536"},
    {NULL, 8, 8, 0xffffffffffffffffu, "18446744073709551615 tensors, over 65536"},
    {NULL, 16, 8, 0, "tensor general.architecture: 8 dimensions, not 1 to 4"},
    {NULL, 16, 8, 1, "tensor llama.context_length: type 288884 has no reader"},
    {NULL, 16, 8, 4097, "4097 metadata keys, over 4096"},
    {NULL, 16, 8, 0x10000000000u, "1099511627776 metadata keys, over 4096"},
    {NULL, 16, 8, 0xffffffffffffffffu, "18446744073709551615 metadata keys, over 4096"},
    {NULL, 16, 8, 300, "the file ends inside the name of metadata key 9"},
    {NULL, 24, 8, 0, "metadata key 0 has an empty name"},
    {NULL, 24, 8, 257, "the name of metadata key 0 has 257 bytes, over 256"},
    {NULL, 24, 8, 0x4000000000000000u, "the file ends inside the name of metadata key 0"},
    {NULL, 24, 8, 0xffffffffffffffffu, "the file ends inside the name of metadata key 0"},
    {"general.architecture", -20, 1, 10, "the name of metadata key 0 holds a control character"},
    {"general.architecture", -20, 1, 120, "key general.architecture is missing or no string"},
    {"general.architecture", 0, 4, 4, "the file ends inside the name of metadata key 1"},
    {"general.architecture", 0, 4, 9, "key general.architecture: 7881700033987346432 elements of type 5 do not fit in the file"},
    {"general.architecture", 0, 4, 13, "key general.architecture: value type 13 is not known"},
    {"general.architecture", 0, 4, 255, "key general.architecture: value type 255 is not known"},
    {"general.architecture", 0, 4, 0xffffffffu, "key general.architecture: value type 4294967295 is not known"},
    {"general.architecture", 4, 8, 0x4000000000000u, "key general.architecture: string 0 runs past the end"},
    {"general.architecture", 4, 8, 0, "the file ends inside the name of metadata key 1"},
    {"llama.block_count", 0, 4, 6, "key llama.block_count is not a 32-bit count"},
    {"llama.block_count", 0, 4, 8, "key llama.block_count: string 0 runs past the end"},
    {"llama.block_count", 0, 4, 12, "the file ends inside the name of metadata key 7"},
    {"llama.block_count", 0, 4, 9, "the file ends inside the name of metadata key 7"},
    {"llama.block_count", 4, 4, 0, "key llama.block_count is 0, less than 1"},
    {"llama.block_count", 4, 4, 2, "tensor blk.1.attn_norm.weight is missing"},
    {"llama.block_count", 4, 4, 513, "key llama.block_count is 513, more than 512"},
    {"llama.block_count", 4, 4, 0xffffffffu, "key llama.block_count is 4294967295, more than 512"},
    {"llama.block_count", -17, 1, 107, "key llama.block_count is missing"},
    {"llama.embedding_length", 4, 4, 0, "key llama.embedding_length is 0, less than 1"},
    {"llama.embedding_length", 4, 4, 17, "hidden size 17 is no multiple of 4 heads"},
    {"llama.embedding_length", 4, 4, 65537, "key llama.embedding_length is 65537, more than 65536"},
    {"llama.embedding_length", 4, 4, 0xffffffffu, "key llama.embedding_length is 4294967295, more than 65536"},
    {"llama.attention.head_count", 4, 4, 0, "key llama.attention.head_count is 0, less than 1"},
    {"llama.attention.head_count", 4, 4, 3, "3 attention heads do not share 2 key-value heads evenly"},
    {"llama.attention.head_count", 4, 4, 1025, "key llama.attention.head_count is 1025, more than 1024"},
    {"llama.feed_forward_length", 4, 4, 0, "key llama.feed_forward_length is 0, less than 1"},
    {"llama.feed_forward_length", 4, 4, 21, "tensor blk.0.ffn_gate.weight is [16, 20, 1, 1], not [16, 21] (fastest first)"},
    {"llama.feed_forward_length", 4, 4, 0xffffffffu, "key llama.feed_forward_length is 4294967295, more than 262144"},
    {"llama.context_length", 4, 4, 0, "key llama.context_length is 0, less than 1"},
    {"llama.context_length", 4, 4, 0xffffffffu, "key llama.context_length is 4294967295, more than 1048576"},
    {"llama.attention.layer_norm_rms_epsilon", 4, 4, 0, "key llama.attention.layer_norm_rms_epsilon is 0, not within 1e-12 to 0.1"},
    {"llama.attention.layer_norm_rms_epsilon", 4, 4, 2143289344, "key llama.attention.layer_norm_rms_epsilon is not a finite float"},
    {"llama.attention.layer_norm_rms_epsilon", 4, 4, 2139095040, "key llama.attention.layer_norm_rms_epsilon is not a finite float"},
    {"llama.attention.layer_norm_rms_epsilon", 4, 4, 0xbf800000u, "key llama.attention.layer_norm_rms_epsilon is -1, not within 1e-12 to 0.1"},
    {"blk.0.attn_q.weight", 0, 4, 0, "tensor blk.0.attn_q.weight: 0 dimensions, not 1 to 4"},
    {"blk.0.attn_q.weight", 0, 4, 1, "tensor blk.0.attn_q.weight: rows of 16 are not whole blocks of 256 (IQ2_XXS)"},
    {"blk.0.attn_q.weight", 0, 4, 3, "the file ends inside the name of tensor 4"},
    {"blk.0.attn_q.weight", 0, 4, 5, "tensor blk.0.attn_q.weight: 5 dimensions, not 1 to 4"},
    {"blk.0.attn_q.weight", 0, 4, 0xffffffffu, "tensor blk.0.attn_q.weight: 4294967295 dimensions, not 1 to 4"},
    {"blk.0.attn_q.weight", 4, 8, 0, "tensor blk.0.attn_q.weight: dimension 0 is 0"},
    {"blk.0.attn_q.weight", 4, 8, 15, "tensor blk.0.attn_q.weight is [15, 16, 1, 1], not [16, 16] (fastest first)"},
    {"blk.0.attn_q.weight", 4, 8, 32, "tensors blk.0.attn_q.weight and blk.0.attn_k.weight overlap"},
    {"blk.0.attn_q.weight", 4, 8, 0x4000000000000000u, "tensor blk.0.attn_q.weight: its dimensions overflow 64 bits"},
    {"blk.0.attn_q.weight", 4, 8, 0xffffffffffffffffu, "tensor blk.0.attn_q.weight: its dimensions overflow 64 bits"},
    {"blk.0.attn_q.weight", 12, 8, 0, "tensor blk.0.attn_q.weight: dimension 1 is 0"},
    {"blk.0.attn_q.weight", 12, 8, 15, "tensor blk.0.attn_q.weight is [16, 15, 1, 1], not [16, 16] (fastest first)"},
    {"blk.0.attn_q.weight", 12, 8, 0x1000000000000000u, "tensor blk.0.attn_q.weight: its dimensions overflow 64 bits"},
    {"blk.0.attn_q.weight", 20, 4, 2, "tensor blk.0.attn_q.weight: rows of 16 are not whole blocks of 32 (Q4_0)"},
    {"blk.0.attn_q.weight", 20, 4, 4, "tensor blk.0.attn_q.weight: type 4 has no reader"},
    {"blk.0.attn_q.weight", 20, 4, 5, "tensor blk.0.attn_q.weight: type 5 has no reader"},
    {"blk.0.attn_q.weight", 20, 4, 9, "tensor blk.0.attn_q.weight: type Q8_1 has no reader"},
    {"blk.0.attn_q.weight", 20, 4, 16, "tensor blk.0.attn_q.weight: rows of 16 are not whole blocks of 256 (IQ2_XXS)"},
    {"blk.0.attn_q.weight", 20, 4, 19, "tensor blk.0.attn_q.weight: rows of 16 are not whole blocks of 256 (IQ1_S)"},
    {"blk.0.attn_q.weight", 20, 4, 23, "tensor blk.0.attn_q.weight: rows of 16 are not whole blocks of 256 (IQ4_XS)"},
    {"blk.0.attn_q.weight", 20, 4, 24, "tensor blk.0.attn_q.weight: type I8 has no reader"},
    {"blk.0.attn_q.weight", 20, 4, 27, "tensor blk.0.attn_q.weight: type I64 has no reader"},
    {"blk.0.attn_q.weight", 20, 4, 34, "tensor blk.0.attn_q.weight: rows of 16 are not whole blocks of 256 (TQ1_0)"},
    {"blk.0.attn_q.weight", 20, 4, 40, "tensor blk.0.attn_q.weight: rows of 16 are not whole blocks of 64 (NVFP4_64)"},
    {"blk.0.attn_q.weight", 20, 4, 200, "tensor blk.0.attn_q.weight: type 200 has no reader"},
    {"blk.0.attn_q.weight", 20, 4, 0xffffffffu, "tensor blk.0.attn_q.weight: type -1 has no reader"},
    {"blk.0.attn_q.weight", 24, 8, 1, "tensor blk.0.attn_q.weight: offset 1 is not aligned to 32"},
    {"blk.0.attn_q.weight", 24, 8, 8, "tensor blk.0.attn_q.weight: offset 8 is not aligned to 32"},
    {"blk.0.attn_q.weight", 24, 8, 1048576, "tensor blk.0.attn_q.weight: 1024 bytes at 1048576 pass the 7616 bytes of data"},
    {"blk.0.attn_q.weight", 24, 8, 0x8000000000000000u, "tensor blk.0.attn_q.weight: 1024 bytes at 9223372036854775808 pass the 7616 bytes of data"},
    {"blk.0.attn_q.weight", 24, 8, 0, "tensors token_embd.weight and blk.0.attn_q.weight overlap"},
    {"blk.0.attn_q.weight", -8, 8, 1048576, "the name of tensor 3 holds a control character"},
    {"blk.0.attn_q.weight", -19, 1, 66, "tensor blk.0.attn_q.weight is missing"},
    {"blk.0.attn_q.weight", -19, 1, 127, "the name of tensor 3 holds a control character"},
    {"blk.0.attn_q.weight", -27, 8, 0, "tensor 3 has an empty name"},
    {"blk.0.attn_q.weight", -27, 8, 1000, "the name of tensor 3 has 1000 bytes, over 256"},
    {"blk.0.attn_q.weight", -27, 8, 0xffffffffffffffffu, "the file ends inside the name of tensor 3"},
    {"token_embd.weight", 4, 8, 8, "tensor token_embd.weight is [8, 8, 1, 1], not [16, 8] (fastest first)"},
    {"token_embd.weight", 12, 8, 9, "tensors token_embd.weight and output_norm.weight overlap"},
    {"output_norm.weight", 0, 4, 2, "the file ends inside the name of tensor 2"},
    {"output_norm.weight", -18, 1, 120, "tensor output_norm.weight is missing"},
    {"blk.0.attn_norm.weight", 4, 8, 17, "tensors blk.0.attn_norm.weight and blk.0.attn_q.weight overlap"},
    {"blk.0.attn_norm.weight", 12, 4, 8, "tensor blk.0.attn_norm.weight: rows of 16 are not whole blocks of 32 (Q8_0)"},
    {NULL, 0, 0, 0, "not a GGUF file: it does not start with \"GGUF\""},
    {NULL, 3, 0, 0, "not a GGUF file: it does not start with \"GGUF\""},
    {NULL, 4, 0, 0, "the file ends inside its header"},
    {NULL, 7, 0, 0, "the file ends inside its header"},
    {NULL, 8, 0, 0, "the file ends inside its header"},
    {NULL, 16, 0, 0, "the file ends inside its header"},
    {NULL, 23, 0, 0, "the file ends inside its header"},
    {NULL, 24, 0, 0, "8 keys and 11 tensors do not fit in 0 bytes"},
    {NULL, 40, 0, 0, "8 keys and 11 tensors do not fit in 16 bytes"},
    {NULL, 100, 0, 0, "8 keys and 11 tensors do not fit in 76 bytes"},
    {NULL, 400, 0, 0, "8 keys and 11 tensors do not fit in 376 bytes"},
    {NULL, 900, 0, 0, "the file ends inside the name of tensor 9"},
    {NULL, 1500, 0, 0, "tensor token_embd.weight: 512 bytes at 0 pass the 476 bytes of data"},
    {NULL, -32, 0, 0, "tensor blk.0.ffn_down.weight: 1280 bytes at 6336 pass the 7584 bytes of data"},
    {NULL, -2000, 0, 0, "tensor blk.0.ffn_up.weight: 1280 bytes at 5056 pass the 5616 bytes of data"},
};
/* clang-format on */

static struct tiny_checkpoint tiny;

static void build_whole(void)
{
    tiny_checkpoint_init_llama(&tiny, 1);
    model_close(tiny_checkpoint_must_open(&tiny));
}

static size_t find_end(const char *name)
{
    size_t length = strlen(name);
    const uint8_t *at = memmem(tiny.file.bytes, tiny.file.byte_count, name, length);
    if (!at)
        fail_msg("%s is not in the file", name);
    return (size_t)(at - tiny.file.bytes) + length;
}

static void break_place(const struct broken_place *place)
{
    if (place->width == 0) {
        size_t kept =
            place->delta >= 0 ? (size_t)place->delta : tiny.file.byte_count - (size_t)-place->delta;
        tiny.file.byte_count = kept;
        return;
    }
    size_t base = place->name ? find_end(place->name) : 0;
    memcpy(tiny.file.bytes + (ptrdiff_t)base + place->delta, &place->value, place->width);
}

/* Checks every case before it fails, so that one run shows all that changed. */
static void test_broken_places(void **state)
{
    (void)state;
    uint32_t wrong = 0;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct error_text error = {""};
        struct model *model = NULL;
        build_whole();
        break_place(&places[i]);
        enum result result =
            model_open_bytes(tiny.file.bytes, tiny.file.byte_count, &model, &error);
        bool as_listed = result != RESULT_OK && !model && strstr(error.text, places[i].words);
        if (!as_listed)
            print_message("place %zu: %s\n", i, result == RESULT_OK ? "it opens" : error.text);
        wrong += !as_listed;
        model_close(model);
    }
    assert_int_equal(wrong, 0);
}

/* --- split files ------------------------------------------------------------------------------ */

enum { PARTS = 3 };

static struct tiny_folder folder;

static int make_folder(void **state)
{
    (void)state;
    tiny_folder_create(&folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    tiny_folder_destroy(&folder);
    return 0;
}

static const char *part_name(uint32_t number)
{
    static char name[64];
    snprintf(name, sizeof name, "tiny-%05u-of-%05u.gguf", number + 1, (unsigned)PARTS);
    return name;
}

/* The split.* keys of one part. */
struct part_facts {
    uint32_t number, count, tensors;
};

/* Part `number` holds every third tensor; the first has the metadata too. */
static void write_part(uint32_t number, struct part_facts facts)
{
    tiny_checkpoint_init_llama(&tiny, 1);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < tiny.tensor_count; i++)
        if (i % PARTS == number)
            tiny.tensors[kept++] = tiny.tensors[i];
    tiny.tensor_count = kept;
    if (number > 0)
        tiny.key_count = 0;
    tiny_checkpoint_set_u32(&tiny, "split.no", facts.number);
    tiny_checkpoint_set_u32(&tiny, "split.count", facts.count);
    tiny_checkpoint_set_u32(&tiny, "split.tensors.count", facts.tensors);
    struct error_text error = {""};
    struct model *model = NULL;
    assert_int_not_equal(tiny_checkpoint_open(&tiny, &model, &error), RESULT_OK); /* a part */
    FILE *file = fopen(tiny_folder_file(&folder, part_name(number)), "wb");
    must(file && fwrite(tiny.file.bytes, 1, tiny.file.byte_count, file) == tiny.file.byte_count);
    must(fclose(file) == 0);
}

static uint32_t write_parts(void)
{
    tiny_checkpoint_init_llama(&tiny, 1);
    uint32_t tensors = tiny.tensor_count;
    for (uint32_t i = 0; i < PARTS; i++)
        write_part(i, (struct part_facts){i, PARTS, tensors});
    return tensors;
}

static void refuse_split(const char *name, const char *words)
{
    struct error_text error = {""};
    struct model *model = NULL;
    enum result result = model_open(tiny_folder_file(&folder, name), &model, &error);
    if (result == RESULT_OK || !strstr(error.text, words))
        fail_msg("\"%s\", not \"%s\"", result == RESULT_OK ? "it opens" : error.text, words);
}

static void test_split_files_open(void **state)
{
    (void)state;
    struct error_text error = {""};
    struct model *model = NULL;
    uint32_t tensors = write_parts();
    if (model_open(tiny_folder_file(&folder, part_name(0)), &model, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    struct model_fingerprint before = model_fingerprint(model);
    model_close(model);
    tiny_checkpoint_init_llama(&tiny, 1);
    model = tiny_checkpoint_must_open(&tiny);
    assert_int_equal(tensors, tiny.tensor_count);
    assert_true(before.file_bytes > model_fingerprint(model).file_bytes);
    model_close(model);
}

static void test_broken_splits(void **state)
{
    (void)state;
    uint32_t tensors = write_parts();
    refuse_split(part_name(1), "does not end in -00001-of-00003.gguf, the first's");
    write_part(1, (struct part_facts){2, PARTS, tensors});
    refuse_split(part_name(0), "tiny-00002-of-00003.gguf: keys split.no and split.count say part 2 "
                               "of 3, not 1 of 3");
    write_part(1, (struct part_facts){1, 4, tensors});
    refuse_split(part_name(0), "say part 1 of 4, not 1 of 3");
    write_part(1, (struct part_facts){1, PARTS, tensors + 1});
    refuse_split(part_name(0), "tiny-00002-of-00003.gguf: key split.tensors.count is");
    write_part(1, (struct part_facts){1, PARTS, tensors});
    write_part(0, (struct part_facts){0, 100000, tensors});
    refuse_split(part_name(0), "key split.count is 100000, more than 1024");
    write_part(0, (struct part_facts){0, 4, tensors});
    refuse_split(part_name(0), "does not end in -00001-of-00004.gguf");
    write_part(0, (struct part_facts){1, PARTS, tensors});
    refuse_split(part_name(0), "say part 1 of 3, not 0 of 3");
    for (uint32_t i = 0; i < PARTS; i++)
        write_part(i, (struct part_facts){i, PARTS, tensors + 1});
    refuse_split(part_name(0), "the 3 parts have");
    (void)write_parts();
    must(truncate(tiny_folder_file(&folder, part_name(2)), 100) == 0);
    refuse_split(part_name(0),
                 "tiny-00003-of-00003.gguf: 3 keys and 3 tensors do not fit in 76 bytes");
    must(unlink(tiny_folder_file(&folder, part_name(2))) == 0);
    refuse_split(part_name(0), "part 3 of 3 is missing: tiny-00003-of-00003.gguf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_places),
        cmocka_unit_test_setup_teardown(test_split_files_open, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_broken_splits, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
