/*
 * Images of all kinds and sizes give the same results as PIL and Hugging Face's image processors
 * (tests/golden/images/PROVENANCE.md): decoded pixels within 1, resized pixels, tiles, tokens and
 * the text that replaces a marker equal; also of several images in one request.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/image/image_decoder.h"
#include "frontend/image/image_processor.h"
#include "proto/mapped_file.h"
#include "proto/must.h"
#include "tests/support/drawn_image.h"
#include "tests/support/sanitized.h"

#define FOLDER         "tests/golden/images/"
#define SETTINGS_MAX   64u
#define FIELDS_MAX     8
#define FILES_AT_LEAST 38
#define CASES_AT_LEAST 500
#define REQUESTS       120
/* Of a source or a result whose pixels are looked at: under sanitizers the loops are the same ones
 * for less, and twenty times slower. */
#if SANITIZED_ADDRESS
#define PIXELS_MOST 200000u
#else
#define PIXELS_MOST LIMIT_SOURCE_IMAGE_PIXELS
#endif

/* --- the recorded data ------------------------------------------------------------------------ */

struct settings {
    char name[32];
    struct image_processor processor;
};

struct golden {
    struct settings settings[SETTINGS_MAX];
    unsigned settings_count;
    unsigned cases;
    unsigned wrong;
    struct image_pixels drawn; /* the last one, which several settings in a row are given */
    uint32_t seed;
};

static struct mapped_file map(const char *name)
{
    char path[256];
    struct mapped_file file;
    struct error_text error;
    (void)snprintf(path, sizeof path, FOLDER "%s", name);
    if (mapped_file_open(AT_FDCWD, path, &file, &error) != RESULT_OK)
        fail_msg("%s: %s", path, error.text);
    return file;
}

/* name.rgb: width, height, pixels; borrowed from the mapping. */
static struct image_pixels recorded_pixels(const struct mapped_file *file)
{
    struct image_pixels pixels = {0};
    memcpy(&pixels.width, file->bytes, 4);
    memcpy(&pixels.height, (const uint8_t *)file->bytes + 4, 4);
    assert_int_equal(file->byte_count, 8 + image_pixels_bytes(pixels.width, pixels.height));
    pixels.rgb = (uint8_t *)file->bytes + 8;
    return pixels;
}

static struct json_value open_json(const char *text)
{
    struct json_value value = {0};
    struct error_text error;
    assert_int_equal(json_value_open(text, strlen(text), LIMIT_CONFIG_BYTES, &value, &error),
                     RESULT_OK);
    return value;
}

static const struct settings *find_settings(const struct golden *golden, const char *name)
{
    for (unsigned i = 0; i < golden->settings_count; i++) {
        if (strcmp(golden->settings[i].name, name) == 0)
            return &golden->settings[i];
    }
    fail_msg("no settings %s", name);
    return NULL;
}

/* settings, name, six numbers, config, preprocessor, processor */
static void take_settings(struct golden *golden, char *const fields[])
{
    struct settings *s = &golden->settings[golden->settings_count++];
    struct error_text error = {""};
    struct image_processor_files files = {.config = open_json(fields[3]),
                                          .preprocessor = open_json(fields[4]),
                                          .processor = open_json(fields[5])};
    must(golden->settings_count <= SETTINGS_MAX);
    (void)snprintf(s->name, sizeof s->name, "%s", fields[1]);
    if (image_processor_open(&files, &s->processor, &error) != RESULT_OK)
        fail_msg("%s: %s", s->name, error.text);
    char *at = fields[2];
    for (unsigned i = 0; i < 2 * IMAGE_CHANNELS; i++) {
        double wanted = strtod(at, &at);
        double byte = i < IMAGE_CHANNELS ? 0 : 255;
        unsigned c = i % IMAGE_CHANNELS;
        double got = byte * (double)s->processor.scale[c] + (double)s->processor.bias[c];
        if (fabs(got - wanted) > 2e-6)
            fail_msg("%s: byte %g of channel %u becomes %g, not %g", s->name, byte, c, got, wanted);
    }
}

/* --- cases ------------------------------------------------------------------------------------ */

static void check_text(const struct settings *s, const struct image_plan *plan, uint64_t hash,
                       char *words, size_t capacity)
{
    struct text_buffer text = {0};
    image_processor_expand(&s->processor, plan, &text);
    must(!text.failed);
    const char *token = s->processor.tokens.soft;
    size_t soft = 0, length = strlen(token);
    for (size_t at = 0; at + length <= text.length;) {
        bool here = memcmp(text.bytes + at, token, length) == 0;
        soft += here;
        at += here ? length : 1;
    }
    if (drawn_image_text_hash(text.bytes, text.length) != hash ||
        soft != plan->token_count + plan->apart_tokens)
        (void)snprintf(words, capacity, "text differs: %.100s", text.bytes);
    text_buffer_fini(&text);
}

static void check_pixels(const struct settings *s, const struct image_plan *plan,
                         const struct image_pixels *pixels, uint64_t hash, char *words,
                         size_t capacity)
{
    struct error_text error;
    uint8_t content[IMAGE_HASH_BYTES];
    struct image_plan whole;
    bool apart = image_plan_apart(plan, &whole);
    size_t bytes = plan->byte_count + (apart ? whole.byte_count : 0);
    uint8_t *out = malloc(bytes);
    must(out != NULL);
    if (image_processor_run(&s->processor, plan, pixels, out, content, &error) != RESULT_OK ||
        (apart && image_processor_run(&s->processor, &whole, pixels, out + plan->byte_count,
                                      content, &error) != RESULT_OK))
        (void)snprintf(words, capacity, "%s", error.text);
    else if (drawn_image_hash(out, bytes) != hash)
        (void)snprintf(words, capacity, "pixels differ");
    free(out);
}

/* `wanted` is the last field of a line; empty `words` when all is equal. */
static void check_case(const struct settings *s, const struct image_pixels *pixels,
                       const struct image_request *request, const char *wanted, char *words,
                       size_t capacity)
{
    struct image_plan plan;
    struct error_text error = {""};
    uint32_t w = 0, h = 0, tiles = 0, rows = 0, columns = 0, tokens = 0;
    uint64_t text = 0, hash = 0;
    enum result result =
        image_processor_plan(&s->processor, pixels->width, pixels->height, request, &plan, &error);
    if (strcmp(wanted, "refused") == 0) {
        if (result != RESULT_INVALID || !error.text[0])
            (void)snprintf(words, capacity, "not refused");
        return;
    }
    must(sscanf(wanted, "%u %u %u %u %u %u %" SCNx64 " %" SCNx64, &w, &h, &tiles, &rows, &columns,
                &tokens, &text, &hash) == 8);
    if (result != RESULT_OK) {
        (void)snprintf(words, capacity, "%s", error.text);
        return;
    }
    uint32_t all = plan.tiles + (plan.apart_tokens > 0 ? 1 : 0);
    if (plan.tile_width != w || plan.tile_height != h || all != tiles || plan.rows != rows ||
        plan.columns != columns || plan.token_count + plan.apart_tokens != tokens) {
        (void)snprintf(words, capacity, "%u x %u, %u tiles (%u x %u), %u tokens", plan.tile_width,
                       plan.tile_height, plan.tiles, plan.rows, plan.columns, plan.token_count);
        return;
    }
    check_text(s, &plan, text, words, capacity);
    bool small = pixels->width * pixels->height <= PIXELS_MOST &&
                 plan.byte_count / IMAGE_CHANNELS <= PIXELS_MOST;
    if (hash && small && !words[0])
        check_pixels(s, &plan, pixels, hash, words, capacity);
}

static void draw(struct golden *golden, uint32_t width, uint32_t height, uint32_t seed)
{
    struct error_text error;
    if (golden->drawn.width == width && golden->drawn.height == height && golden->seed == seed)
        return;
    image_pixels_fini(&golden->drawn);
    must(image_pixels_init(&golden->drawn, width, height, &error) == RESULT_OK);
    golden->seed = seed;
    drawn_image_fill(golden->drawn.rgb, width, height, seed);
}

/* file|drawn|low|boxed, what, settings, outcome */
static void take_case(struct golden *golden, char *const fields[])
{
    char words[256] = "";
    struct image_request request = {0};
    struct image_pixels pixels = {0};
    struct mapped_file file = {0};
    uint32_t seed = 0;
    if (strcmp(fields[0], "file") == 0) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s.rgb", fields[1]);
        file = map(name);
        pixels = recorded_pixels(&file);
    } else {
        must(sscanf(fields[1], "%u %u %u %u %u", &pixels.width, &pixels.height, &seed,
                    &request.box_width, &request.box_height) >= 3);
        if (pixels.width * pixels.height <= PIXELS_MOST && strcmp(fields[3], "refused") != 0 &&
            strcmp(strrchr(fields[3], ' '), " 0") != 0) {
            draw(golden, pixels.width, pixels.height, seed);
            pixels = golden->drawn;
        }
    }
    request.detail = strcmp(fields[0], "low") == 0 ? IMAGE_DETAIL_LOW : IMAGE_DETAIL_AUTO;
    check_case(find_settings(golden, fields[2]), &pixels, &request, fields[3], words, sizeof words);
    golden->cases++;
    if (words[0]) {
        golden->wrong++;
        print_error("%s %s with %s: %s; wanted %s\n", fields[0], fields[1], fields[2], words,
                    fields[3]);
    }
    mapped_file_close(&file);
}

/* What a request's images become together. */
struct request {
    uint32_t tokens;
    struct text_buffer text;
    uint8_t *bytes; /* owned */
    size_t byte_count;
};

static void run_plan(const struct settings *s, const struct image_plan *plan,
                     const struct image_pixels *pixels, struct request *request)
{
    struct error_text error;
    uint8_t content[IMAGE_HASH_BYTES];
    request->bytes = realloc(request->bytes, request->byte_count + plan->byte_count);
    must(request->bytes != NULL);
    if (image_processor_run(&s->processor, plan, pixels, request->bytes + request->byte_count,
                            content, &error) != RESULT_OK)
        fail_msg("%s: %s", s->name, error.text);
    request->byte_count += plan->byte_count;
}

/* "width height seed" of one image of so many. */
static void add_image(struct golden *golden, const struct settings *s, const char *image,
                      uint32_t images, struct request *request)
{
    uint32_t width, height, seed;
    struct error_text error;
    struct image_plan plan, apart;
    must(sscanf(image, "%u %u %u", &width, &height, &seed) == 3);
    draw(golden, width, height, seed);
    const struct image_request asked = {.images = images};
    if (image_processor_plan(&s->processor, width, height, &asked, &plan, &error) != RESULT_OK)
        fail_msg("%s, %s: %s", s->name, image, error.text);
    image_processor_expand(&s->processor, &plan, &request->text);
    request->tokens += plan.token_count + plan.apart_tokens;
    run_plan(s, &plan, &golden->drawn, request);
    if (image_plan_apart(&plan, &apart))
        run_plan(s, &apart, &golden->drawn, request);
}

/* images, settings, tokens and hashes */
static void take_request(struct golden *golden, char *const fields[])
{
    struct request request = {0};
    uint32_t tokens;
    uint64_t text, hash;
    char *images = fields[0];
    uint32_t count = 1;
    for (const char *at = images; (at = strchr(at, ',')) != NULL; at++)
        count++;
    const struct settings *s = find_settings(golden, fields[1]);
    must(sscanf(fields[2], "%u %" SCNx64 " %" SCNx64, &tokens, &text, &hash) == 3);
    for (char *image; (image = strsep(&images, ",")) != NULL;)
        add_image(golden, s, image, count, &request);
    must(!request.text.failed);
    if (request.tokens != tokens ||
        drawn_image_text_hash(request.text.bytes, request.text.length) != text ||
        drawn_image_hash(request.bytes, request.byte_count) != hash) {
        golden->wrong++;
        print_error("%s, the request that ends with seed %u: %u tokens, wanted %s\n", s->name,
                    golden->seed, request.tokens, fields[2]);
    }
    text_buffer_fini(&request.text);
    free(request.bytes);
}

static void take_requests(struct golden *golden)
{
    char line[512];
    unsigned count = 0;
    FILE *file = fopen(FOLDER "requests.txt", "r");
    assert_non_null(file);
    for (; fgets(line, sizeof line, file); count++) {
        char *fields[3] = {NULL}, *at = line;
        for (unsigned i = 0; i < 3; i++)
            fields[i] = strsep(&at, "\t");
        must(fields[2] != NULL);
        take_request(golden, fields);
    }
    (void)fclose(file);
    assert_int_equal(count, REQUESTS);
}

static void test_processors_agree(void **state)
{
    (void)state;
    struct golden *golden = must_alloc(1, sizeof *golden);
    FILE *file = fopen(FOLDER "cases.txt", "r");
    char line[4096];
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        char *fields[FIELDS_MAX] = {NULL};
        unsigned count = 0;
        line[strcspn(line, "\n")] = '\0';
        for (char *at = line, *field; count < FIELDS_MAX && (field = strsep(&at, "\t")) != NULL;)
            fields[count++] = field;
        if (strcmp(fields[0], "settings") == 0 && count == 6)
            take_settings(golden, fields);
        else if (count == 4)
            take_case(golden, fields);
        else
            fail_msg("a line of %u fields", count);
    }
    (void)fclose(file);
    assert_true(golden->cases >= CASES_AT_LEAST);
    take_requests(golden);
    assert_int_equal(golden->wrong, 0);
    image_pixels_fini(&golden->drawn);
    free(golden);
}

/* --- decoding --------------------------------------------------------------------------------- */

static void check_file(const char *name)
{
    char reference[300];
    struct error_text error = {""};
    struct image_header header;
    struct image_pixels decoded;
    (void)snprintf(reference, sizeof reference, "%s.rgb", name);
    struct mapped_file file = map(name), recorded = map(reference);
    struct image_pixels wanted = recorded_pixels(&recorded);
    if (image_decoder_probe(file.bytes, file.byte_count, &header, &error) != RESULT_OK)
        fail_msg("%s: %s", name, error.text);
    if (header.width != wanted.width || header.height != wanted.height)
        fail_msg("%s: %u x %u instead of %u x %u", name, header.width, header.height, wanted.width,
                 wanted.height);
    if (image_decoder_run(file.bytes, file.byte_count, &header, 1, 1, &decoded, &error) !=
        RESULT_OK)
        fail_msg("%s: %s", name, error.text);
    assert_int_equal(decoded.width, wanted.width);
    assert_int_equal(decoded.height, wanted.height);
    for (size_t i = 0; i < image_pixels_bytes(wanted.width, wanted.height); i++) {
        if (abs(decoded.rgb[i] - wanted.rgb[i]) > 1)
            fail_msg("%s: byte %zu is %u instead of %u", name, i, decoded.rgb[i], wanted.rgb[i]);
    }
    image_pixels_fini(&decoded);
    mapped_file_close(&file);
    mapped_file_close(&recorded);
}

static void test_files_decode_as_pil_does(void **state)
{
    (void)state;
    unsigned files = 0;
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *ending = strrchr(entry->d_name, '.');
        if (entry->d_name[0] == '.' || !ending || strcmp(ending, ".rgb") == 0 ||
            strcmp(ending, ".txt") == 0 || strcmp(ending, ".md") == 0)
            continue;
        check_file(entry->d_name);
        files++;
    }
    (void)closedir(folder);
    assert_true(files >= FILES_AT_LEAST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_decode_as_pil_does),
        cmocka_unit_test(test_processors_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
