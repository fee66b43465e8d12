/*
 * utf8_nfc: form C of every assigned character and of 30,000 sequences of combining ones is
 * Python's (tests/golden/tokenizer/nfc.txt); marks survive only whole; a long run of marks is
 * cheap.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/prompt/tokenizer/utf8_nfc.h"
#include "frontend/prompt/tokenizer/utf8_nfc_table.h"
#include "proto/utf8.h"
#include "tests/support/tokenizer_corpus.h"

static uint64_t hash_normal(uint64_t hash, const uint32_t chars[], size_t count)
{
    uint32_t *normal;
    size_t normal_count;
    assert_int_equal(utf8_nfc_normalize(chars, count, &normal, &normal_count), RESULT_OK);
    for (size_t i = 0; i < normal_count; i++) {
        char bytes[UTF8_MAX_CHAR_BYTES];
        size_t byte_count = utf8_encode(normal[i], bytes);
        for (size_t b = 0; b < byte_count; b++)
            hash = (hash ^ (uint8_t)bytes[b]) * 0x100000001B3u;
    }
    free(normal);
    return hash;
}

static uint64_t golden(const char *name, uint32_t **chars, size_t *count)
{
    size_t bytes;
    char *file = corpus_read_file("tests/golden/tokenizer/nfc.txt", "git checkout", &bytes);
    char *line = strstr(file, name);
    assert_non_null(line);
    uint64_t hash;
    assert_int_equal(sscanf(line + strlen(name), "%" SCNx64, &hash), 1);
    line = strstr(file, "ranges");
    assert_non_null(line);
    *chars = malloc(0x110000 * sizeof **chars);
    *count = 0;
    unsigned first;
    unsigned last;
    int used;
    for (line += 6; sscanf(line, " %x-%x%n", &first, &last, &used) == 2; line += used) {
        for (uint32_t code = first; code <= last; code++)
            (*chars)[(*count)++] = code;
    }
    free(file);
    return hash;
}

static void test_single_characters(void **state)
{
    (void)state;
    uint32_t *assigned;
    size_t count;
    uint64_t wanted = golden("single", &assigned, &count);
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < count; i++)
        hash = hash_normal(hash, &assigned[i], 1);
    free(assigned);
    assert_true(count > 250000);
    assert_true(hash == wanted);
}

/* Letters, and below U+3400 what combines, is combined, or is a Hangul letter: as the golden maker
 * picks them. */
static bool is_active(uint32_t code)
{
    if ((code >= 0x41 && code <= 0x7A) || (code >= 0x1100 && code <= 0x11FF))
        return true;
    if (code < 0xC0 || code >= 0x3400)
        return false;
    for (size_t i = 0; i < nfc_decomposition_count; i++) {
        if (nfc_decompositions[i].composed == code)
            return true;
    }
    for (size_t i = 0; i < nfc_class_count; i++) {
        if (nfc_classes[i].first <= code && code <= nfc_classes[i].last)
            return nfc_classes[i].combining_class != 0;
    }
    return false;
}

static void test_sequences(void **state)
{
    (void)state;
    uint32_t *active;
    size_t assigned_count;
    uint64_t wanted = golden("random", &active, &assigned_count);
    size_t count = 0;
    for (size_t i = 0; i < assigned_count; i++) {
        if (is_active(active[i]))
            active[count++] = active[i];
    }
    uint64_t hash = 0xCBF29CE484222325u;
    uint64_t random = 1;
    for (int sequence = 0; sequence < 30000; sequence++) {
        uint32_t chars[6];
        for (int i = 0; i < 6; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            chars[i] = active[(random >> 33) % count];
        }
        hash = hash_normal(hash, chars, 6);
    }
    free(active);
    assert_true(hash == wanted);
}

static void test_mark_survives_only_whole(void **state)
{
    (void)state;
    const uint32_t chars[] = {'e' | UTF8_NFC_MARK, 0x301 | UTF8_NFC_MARK, 'e' | UTF8_NFC_MARK,
                              0x301, 0xE9 | UTF8_NFC_MARK};
    uint32_t *normal;
    size_t count;
    assert_int_equal(utf8_nfc_normalize(chars, 5, &normal, &count), RESULT_OK);
    assert_int_equal(count, 3);
    assert_int_equal(normal[0], 0xE9 | UTF8_NFC_MARK);
    assert_int_equal(normal[1], 0xE9);
    assert_int_equal(normal[2], 0xE9 | UTF8_NFC_MARK);
    free(normal);
}

static void test_long_run_of_marks_is_ordered(void **state)
{
    (void)state;
    enum { COUNT = 1 << 20 };
    uint32_t *chars = malloc((COUNT + 1) * sizeof *chars);
    chars[0] = 'x';
    for (size_t i = 1; i <= COUNT; i++)
        chars[i] = i % 2 ? 0x302 : 0x323; /* classes 230 and 220 */
    uint32_t *normal;
    size_t count;
    assert_int_equal(utf8_nfc_normalize(chars, COUNT + 1, &normal, &count), RESULT_OK);
    assert_int_equal(count, COUNT + 1);
    for (size_t i = 1; i <= COUNT; i++)
        assert_true(normal[i] == (i <= COUNT / 2 ? 0x323u : 0x302u));
    free(normal);
    free(chars);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_characters),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_mark_survives_only_whole),
        cmocka_unit_test(test_long_run_of_marks_is_ordered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
