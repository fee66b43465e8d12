/*
 * Writes the tiny tokenizer.json. Byte-level vocabularies name byte b by a printable character:
 * itself where printable in Latin-1, else the next free one from U+0100 on (GPT-2's table).
 */
#include "tests/support/tiny_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

#include "frontend/base/text_buffer.h"
#include "proto/must.h"

static unsigned byte_character(unsigned byte)
{
    unsigned next = 256;
    for (unsigned b = 0;; b++) {
        int printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
        unsigned character = printable ? b : next++;
        if (b == byte)
            return character;
    }
}

char *tiny_tokenizer_json(size_t *json_bytes)
{
    char *json = NULL;
    FILE *out = open_memstream(&json, json_bytes);
    if (!out)
        abort();
    fputs(
        "{\"version\":\"1.0\",\"added_tokens\":["
        "{\"id\":258,\"content\":\"<|im_start|>\",\"single_word\":false,\"lstrip\":false,"
        "\"rstrip\":false,\"normalized\":false,\"special\":true},"
        "{\"id\":259,\"content\":\"<|im_end|>\",\"single_word\":false,\"lstrip\":false,"
        "\"rstrip\":false,\"normalized\":false,\"special\":true},"
        "{\"id\":260,\"content\":\"<|image_pad|>\",\"single_word\":false,\"lstrip\":false,"
        "\"rstrip\":false,\"normalized\":false,\"special\":true}],"
        "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
        "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,"
        "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,"
        "\"use_regex\":true},\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
        "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
        "\"byte_fallback\":false,\"vocab\":{",
        out);
    for (unsigned byte = 0; byte < 256; byte++)
        fprintf(out, "\"\\u%04x\":%u,", byte_character(byte), byte);
    fputs("\"he\":256,\"ll\":257},\"merges\":[\"h e\",\"l l\"]}}", out);
    fclose(out);
    return json;
}

struct tokenizer *tiny_tokenizer_open(void)
{
    size_t json_bytes;
    struct tokenizer *tokenizer = NULL;
    char *json = tiny_tokenizer_json(&json_bytes);
    must(tokenizer_open_json(json, json_bytes, &tokenizer, NULL) == RESULT_OK);
    free(json);
    return tokenizer;
}

struct tokenizer *tiny_pieces_open(const char *scheme)
{
    struct text_buffer json = {0};
    text_buffer_append_format(
        &json,
        "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":5,\"content\":\"<s>\",\"single_word\":"
        "false,"
        "\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}],"
        "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\","
        "\"prepend_scheme\":\"%s\",\"split\":true},\"post_processor\":null,"
        "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"%s\","
        "\"split\":true},\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":\"<unk>\","
        "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
        "\"byte_fallback\":false,\"vocab\":{\"<unk>\":0,\"a\":1,\"\\u2581\":2,\"\\u2581a\":3,"
        "\"a\\u2581\":4},\"merges\":[\"\\u2581 a\",\"a \\u2581\"]}}",
        scheme, scheme);
    struct tokenizer *pieces = NULL;
    must(tokenizer_open_json(json.bytes, json.length, &pieces, NULL) == RESULT_OK);
    text_buffer_fini(&json);
    return pieces;
}
