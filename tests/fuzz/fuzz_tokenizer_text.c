/*
 * Any bytes as a prompt for a small tokenizer. The first byte chooses byte-level or pieces and the
 * places where the text is cut into spans. Must hold: the tokens' bytes are the text, with invalid
 * UTF-8 replaced; cutting a user's text into spans changes nothing; a user's text gives no special
 * token; a bound below the count is an error.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "proto/must.h"
#include "proto/utf8.h"

static const char added[] =
    "\"added_tokens\":[{\"id\":300,\"content\":\"<s>\",\"special\":true},{\"id\":301,\"content\":"
    "\"<s>"
    "</s>\",\"special\":true},{\"id\":302,\"content\":\"<t>\"},{\"id\":303,\"content\":\"aa\"}],";

static void write_byte_level(FILE *out)
{
    fprintf(out,
            "{%s\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
            "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{",
            added);
    unsigned next = 256;
    for (unsigned byte = 0; byte < 256; byte++) {
        bool plain = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        fprintf(out, "\"\\u%04x\":%u,", plain ? byte : next++, byte);
    }
    fputs("\"ab\":256,\"abc\":257,\"\\u0120a\":258,\"bb\":259,\"bbbb\":260},"
          "\"merges\":[\"a b\",\"ab c\",\"\\u0120 a\",\"b b\",\"bb bb\"]}}",
          out);
}

static void write_pieces(FILE *out)
{
    fprintf(out,
            "{%s\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
            "\"\\u2581\"},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","
            "\"pattern\":{\"String\":\"\\u2581\"},\"content\":\" \"},{\"type\":\"ByteFallback\"}]},"
            "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"fuse_unk\":true,\"vocab\":{",
            added);
    for (unsigned byte = 0; byte < 256; byte++)
        fprintf(out, "\"<0x%02X>\":%u,", byte, byte);
    fputs("\"a\":256,\"b\":257,\"c\":258,\"\\u2581\":259,\"\\u2581a\":260,\"ab\":261,\"bb\":262,"
          "\"bbbb\":263,\"\\u2581\\u2581\":264,\"b\\u2581\":265,\"\\u00e9\":266,\"\\u00e9a\":267},"
          "\"merges\":[\"\\u2581 a\",\"a b\",\"b b\",\"bb bb\",\"\\u2581 \\u2581\",\"b \\u2581\","
          "\"\\u00e9 a\"]}}",
          out);
}

static struct tokenizer *open_written(void (*write)(FILE *))
{
    char *json = NULL;
    size_t json_bytes = 0;
    struct tokenizer *tokenizer = NULL;
    FILE *out = open_memstream(&json, &json_bytes);
    must(out != NULL);
    write(out);
    fclose(out);
    must(tokenizer_open_json(json, json_bytes, &tokenizer, NULL) == RESULT_OK);
    free(json);
    return tokenizer;
}

/* The text with ill-formed bytes replaced and, for pieces, U+2581 as a space. */
static char *expected_text(const char *bytes, size_t byte_count, bool pieces, size_t *out_bytes)
{
    char *out = malloc(3 * byte_count + 1);
    size_t written = 0;
    must(out != NULL);
    for (size_t at = 0; at < byte_count;) {
        uint32_t code;
        char encoded[UTF8_MAX_CHAR_BYTES];
        at += utf8_decode(bytes + at, byte_count - at, &code);
        size_t length = utf8_encode(pieces && code == 0x2581 ? ' ' : code, encoded);
        memcpy(out + written, encoded, length);
        written += length;
    }
    *out_bytes = written;
    return out;
}

static void check_bytes(const struct tokenizer *tokenizer, const struct token_list *list,
                        const char *wanted, size_t wanted_bytes, bool user)
{
    size_t at = 0;
    for (size_t i = 0; i < list->count; i++) {
        const char *bytes;
        size_t byte_count;
        must(!user || !tokenizer_is_special(tokenizer, list->ids[i]));
        tokenizer_token_bytes(tokenizer, list->ids[i], &bytes, &byte_count);
        must(byte_count <= wanted_bytes - at);
        must(memcmp(bytes, wanted + at, byte_count) == 0);
        at += byte_count;
    }
    must(at == wanted_bytes);
}

static void check_text(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                       size_t cut, bool pieces)
{
    struct prompt_span whole = {text, bytes, false};
    struct prompt_span spans[] = {{text, cut, false}, {text + cut, bytes - cut, false}};
    struct token_list list = {0};
    struct token_list other = {0};
    size_t wanted_bytes;
    char *wanted = expected_text(text, bytes, pieces, &wanted_bytes);
    must(tokenizer_encode(tokenizer, &whole, 1, SIZE_MAX, NULL, &list) == RESULT_OK);
    check_bytes(tokenizer, &list, wanted, wanted_bytes, true);
    must(tokenizer_encode(tokenizer, spans, 2, list.count, NULL, &other) == RESULT_OK);
    must(other.count == list.count);
    must(list.count == 0 || memcmp(list.ids, other.ids, list.count * sizeof *list.ids) == 0);
    if (list.count > 0) {
        other.count = 0;
        must(tokenizer_encode(tokenizer, &whole, 1, list.count - 1, NULL, &other) ==
             RESULT_TOO_LARGE);
    }
    other.count = 0;
    spans[1].trusted = true;
    must(tokenizer_encode(tokenizer, spans, 2, SIZE_MAX, NULL, &other) == RESULT_OK);
    check_bytes(tokenizer, &other, wanted, wanted_bytes, false);
    token_list_fini(&list);
    token_list_fini(&other);
    free(wanted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tokenizer *tokenizers[2];
    if (size < 1)
        return 0;
    if (!tokenizers[0]) {
        tokenizers[0] = open_written(write_byte_level);
        tokenizers[1] = open_written(write_pieces);
    }
    bool pieces = data[0] & 1;
    size_t bytes = size - 1;
    size_t cut = bytes ? (size_t)(data[0] >> 1) * bytes / 128 : 0;
    char *text = malloc(bytes + 1);
    if (!text)
        return 0;
    memcpy(text, data + 1, bytes);
    check_text(tokenizers[pieces], text, bytes, cut, pieces);
    free(text);
    return 0;
}
