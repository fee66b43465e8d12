/*
 * Reads the golden corpus: a line with an escaped case for each line of digests. The files are part
 * of the repository and not checked.
 */
#include "tests/support/tokenizer_corpus.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

char *corpus_read_file(const char *path, const char *hint, size_t *byte_count)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s is missing: run %s", path, hint);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    bytes[size] = '\0';
    *byte_count = (size_t)size;
    return bytes;
}

void corpus_open(struct corpus *corpus, const char *folder, const char *name)
{
    char path[256];
    size_t bytes;
    snprintf(path, sizeof path, "%s/corpus.txt", folder);
    corpus->texts = corpus_read_file(path, "git checkout", &bytes);
    snprintf(path, sizeof path, "%s/%s.txt", folder, name);
    corpus->digests = corpus_read_file(path, "the maker in scripts/golden", &bytes);
    corpus->text_at = corpus->texts;
    corpus->digest_at = corpus->digests;
    corpus->line = 0;
}

void corpus_close(struct corpus *corpus)
{
    free(corpus->texts);
    free(corpus->digests);
}

void corpus_case_fini(struct corpus_case *done)
{
    free(done->bytes);
}

static char *take_line(char **at)
{
    char *line = *at;
    char *end = strchr(line, '\n');
    if (!end)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return line;
}

static size_t unescape(char *text)
{
    char *out = text;
    for (const char *in = text; *in; in++) {
        unsigned value;
        if (*in != '\\') {
            *out++ = *in;
            continue;
        }
        switch (*++in) {
        case 'n': *out++ = '\n'; break;
        case 'r': *out++ = '\r'; break;
        case 't': *out++ = '\t'; break;
        case 'x':
            assert_int_equal(sscanf(in + 1, "%2x", &value), 1);
            *out++ = (char)value;
            in += 2;
            break;
        default: *out++ = *in;
        }
    }
    return (size_t)(out - text);
}

int corpus_next(struct corpus *corpus, struct corpus_case *next)
{
    char *text = take_line(&corpus->text_at);
    char *digests = take_line(&corpus->digest_at);
    if (!text || !digests)
        return 0;
    *next = (struct corpus_case){.line = ++corpus->line};
    size_t repeats = 1;
    if (*text == '@') {
        repeats = strtoul(text + 1, &text, 10);
        text++;
    }
    size_t bytes = unescape(text);
    next->byte_count = bytes * repeats;
    next->bytes = malloc(next->byte_count + 1);
    assert_non_null(next->bytes);
    for (size_t i = 0; i < repeats; i++)
        memcpy(next->bytes + i * bytes, text, bytes);
    int fields = sscanf(digests, "%zu %" SCNx64 " | %zu %" SCNx64, &next->user_count,
                        &next->user_hash, &next->template_count, &next->template_hash);
    assert_true(fields == 2 || fields == 4);
    if (fields == 2) {
        next->template_count = next->user_count;
        next->template_hash = next->user_hash;
    }
    return 1;
}

uint64_t corpus_hash(const uint32_t ids[], size_t count)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < count; i++) {
        for (int shift = 0; shift < 32; shift += 8)
            hash = (hash ^ (ids[i] >> shift & 0xFF)) * 0x100000001B3u;
    }
    return hash;
}

static bool check_case(const struct corpus_case *wanted, const char *name, bool is_template,
                       corpus_encode *encode, void *tokenizer)
{
    uint32_t *ids = NULL;
    size_t wanted_count = is_template ? wanted->template_count : wanted->user_count;
    uint64_t wanted_hash = is_template ? wanted->template_hash : wanted->user_hash;
    size_t count = encode(tokenizer, wanted->bytes, wanted->byte_count, is_template, &ids);
    bool is_equal = count == wanted_count && corpus_hash(ids, count) == wanted_hash;
    if (!is_equal) {
        print_error("%s, corpus line %u as a %s: %zu tokens, wanted %zu:", name, wanted->line,
                    is_template ? "template's" : "user's", count, wanted_count);
        for (size_t i = 0; i < count && i < 16; i++)
            print_error(" %u", ids[i]);
        print_error("\n");
    }
    free(ids);
    return is_equal;
}

void corpus_check(const char *folder, const char *name, corpus_encode *encode, void *tokenizer)
{
    struct corpus corpus;
    struct corpus_case wanted;
    unsigned different = 0;
    corpus_open(&corpus, folder, name);
    while (corpus_next(&corpus, &wanted)) {
        different += !check_case(&wanted, name, false, encode, tokenizer);
        different += !check_case(&wanted, name, true, encode, tokenizer);
        corpus_case_fini(&wanted);
    }
    assert_true(corpus.line > 50);
    corpus_close(&corpus);
    assert_int_equal(different, 0);
}
