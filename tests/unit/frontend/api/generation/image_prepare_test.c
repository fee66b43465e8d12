/*
 * From bodies with images to prompts and to what the worker gets: placeholders where the images
 * stand, records that hold, pixels, and refusals that name the image.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/chat/chat_format.h"
#include "frontend/api/generation/generation_prepare.h"
#include "frontend/api/generation/generation_share.h"
#include "frontend/api/messages/messages_count.h"
#include "tests/support/direct_reader.h"
#include "tests/support/tiny_tokenizer.h"
#include "tests/support/tiny_vision.h"

static struct model_assets assets;
static char *red;  /* 16 x 8: 2 placeholders */
static char *blue; /* 32 x 16: 8 */
static enum preparation_lane lane;

static int setup(void **state)
{
    (void)state;
    static const char *const hosts[] = {"example.com"};
    tiny_vision_open(
        &assets, (struct media_policy){
                     .hosts = hosts, .host_count = 1, .most_bytes = 4000, .fetch_timeout_s = 1});
    red = tiny_vision_png(16, 8, 0xff0000);
    blue = tiny_vision_png(32, 16, 0x0000ff);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(assets.vision->budget.used_bytes, 0);
    free(red);
    free(blue);
    tiny_vision_close(&assets);
    return 0;
}

/* `parts`: JSON of a user's content, in which %s are data of images. */
static enum result prepare(const char *parts, const char *first, const char *second,
                           struct prepared_generation *prepared, struct api_error *error)
{
    char content[12000], body[12100];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(content, sizeof content, parts, first, second);
#pragma GCC diagnostic pop
    snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":[%s]}]}", content);
    lane = PREPARATION_IMAGES;
    return generation_prepare(
        &chat_format,
        &(struct parse_context){.assets = &assets, .reader = &direct_reader, .lane = &lane}, body,
        strlen(body), 0, prepared, error);
}

#define IMAGE       "{\"type\":\"image_url\",\"image_url\":\"data:;base64,%s\"}"
#define TEXT(words) "{\"type\":\"text\",\"text\":\"" words "\"}"

static void placeholders_stand_where_images_do(void **state)
{
    (void)state;
    struct prepared_generation prepared;
    struct api_error error;
    assert_int_equal(
        prepare(TEXT("a") "," IMAGE "," TEXT("b") "," IMAGE, red, blue, &prepared, &error),
        RESULT_OK);
    const uint32_t expected[] = {TINY_START, 'a',        TINY_IMAGE, TINY_IMAGE, 'b',
                                 TINY_IMAGE, TINY_IMAGE, TINY_IMAGE, TINY_IMAGE, TINY_IMAGE,
                                 TINY_IMAGE, TINY_IMAGE, TINY_IMAGE, TINY_END,   TINY_START};
    assert_int_equal(prepared.prompt.count, 15);
    assert_memory_equal(prepared.prompt.ids, expected, sizeof expected);
    struct image_set *set = prepared.images;
    struct error_text fault;
    assert_int_equal(image_set_count(set), 2);
    assert_int_equal(image_record_check(image_set_part(set), 2, 15, image_set_bytes(set), &fault),
                     RESULT_OK);
    const struct image_record *record = image_set_record(set, 1);
    assert_int_equal(record->first_token, 5);
    assert_int_equal(record->span_tokens, 8);
    assert_int_equal(record->token_count, 8);
    assert_int_equal(record->width, 32);
    assert_int_equal(record->height, 16);
    assert_int_equal(record->tiles, 1);
    const uint8_t *pixels = image_set_pixels(set, 1);
    for (size_t i = 0; i < 32 * 16; i++)
        assert_true(pixels[3 * i] == 0 && pixels[3 * i + 1] == 0 && pixels[3 * i + 2] == 255);
    assert_int_equal(image_set_record(set, 0)->first_token, 2);
    assert_int_equal(image_set_pixels(set, 0)[0], 255);
    assert_memory_not_equal(image_set_record(set, 0)->content_hash, record->content_hash,
                            IMAGE_HASH_BYTES);
    prepared_generation_fini(&prepared);
}

static void users_words_make_no_image(void **state)
{
    (void)state;
    struct prepared_generation prepared;
    struct api_error error;
    assert_int_equal(prepare(TEXT("<|image_pad|>") "," IMAGE, red, "", &prepared, &error),
                     RESULT_OK);
    assert_int_equal(image_set_record(prepared.images, 0)->first_token, 1 + 13);
    prepared_generation_fini(&prepared);
    assert_int_equal(prepare(TEXT("<|image_pad|>"), "", "", &prepared, &error), RESULT_OK);
    assert_null(prepared.images);
    assert_int_equal(prepared.prompt.count, 1 + 13 + 2);
    prepared_generation_fini(&prepared);
}

static void refusals_name_the_image(void **state)
{
    (void)state;
    static const struct {
        const char *parts;
        const char *says;
    } rows[] = {
        {"{\"type\":\"image_url\",\"image_url\":\"data:;base64,%s!\"}", "base64"},
        {"{\"type\":\"image_url\",\"image_url\":\"data:,GIF87\"}", ""},
        {"{\"type\":\"image_url\",\"image_url\":\"/etc/passwd\"}", "none of"},
        {"{\"type\":\"image_url\",\"image_url\":\"file:///etc/passwd\"}", "--allow-media-path"},
    };
    struct prepared_generation prepared;
    struct api_error error;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char parts[300];
        snprintf(parts, sizeof parts, "%s,%s", TEXT("a"), rows[i].parts);
        assert_true(prepare(parts, red, "", &prepared, &error) != RESULT_OK);
        assert_int_equal(error.status, 400);
        assert_string_equal(error.param, "messages[0].content[1]");
        if (strncmp(error.message, "messages[0].content[1]: ", 24) != 0 ||
            !strstr(error.message, rows[i].says))
            fail_msg("%s", error.message);
    }
}

/* The PNG's header with other sides: what a bomb says of itself. */
static void sizes_are_refused_before_pixels(void **state)
{
    (void)state;
    struct prepared_generation prepared;
    struct api_error error;
    char *cut = strdup(red);
    cut[60] = '\0'; /* no pixels at all: what is refused for its end was planned first */
    assert_true(prepare(IMAGE, cut, "", &prepared, &error) != RESULT_OK);
    assert_int_equal(error.status, 400);
    free(cut);
    uint32_t context = assets.context_tokens;
    assets.context_tokens = 8;
    assert_int_equal(prepare(IMAGE, blue, "", &prepared, &error), RESULT_CONTEXT_EXCEEDED);
    assert_string_equal(error.code, "context_length_exceeded");
    assets.context_tokens = context;
    assets.vision->budget.most_bytes = 500;
    assert_int_equal(prepare(IMAGE, red, "", &prepared, &error), RESULT_TOO_LARGE);
    assert_int_equal(error.status, 400);
    assets.vision->budget.most_bytes = 1u << 20;
}

static void all_images_share_a_budget(void **state)
{
    (void)state;
    struct prepared_generation first, second;
    struct api_error error;
    assets.vision->budget.most_bytes = 1000; /* red takes 128 + 384, twice */
    assert_int_equal(prepare(IMAGE, red, "", &first, &error), RESULT_OK);
    assert_int_equal(prepare(IMAGE, red, "", &second, &error), RESULT_FULL);
    assert_int_equal(error.status, 429);
    assert_true(error.retry_after_s > 0);
    /* Another answer to the same prompt shares them, and the last one lets go. */
    struct prepared_generation shared;
    first.request.choices = 2;
    assert_int_equal(generation_share_take(&first, assets.context_tokens, 1, &shared), RESULT_OK);
    assert_ptr_equal(shared.images, first.images);
    prepared_generation_fini(&first);
    assert_int_equal(prepare(IMAGE, red, "", &second, &error), RESULT_FULL);
    assert_int_equal(image_set_record(shared.images, 0)->width, 16);
    prepared_generation_fini(&shared);
    assert_int_equal(prepare(IMAGE, red, "", &second, &error), RESULT_OK);
    prepared_generation_fini(&second);
    assets.vision->budget.most_bytes = 1u << 20;
}

static void a_fetch_needs_the_network_lane(void **state)
{
    (void)state;
    struct prepared_generation prepared;
    struct api_error error;
    assert_int_equal(
        prepare("{\"type\":\"image_url\",\"image_url\":\"http://example.com/x\"}," IMAGE, red, "",
                &prepared, &error),
        RESULT_CANCELLED);
    assert_int_equal(lane, PREPARATION_NETWORK);
}

static void the_text_lane_reads_no_image(void **state)
{
    (void)state;
    static const char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":["
                               "{\"type\":\"image_url\",\"image_url\":\"data:;base64,AAAA\"}]}]}";
    struct prepared_generation prepared;
    struct api_error error;
    struct parse_context context = {.assets = &assets, .reader = &direct_reader, .lane = &lane};
    lane = PREPARATION_TEXT;
    assert_int_equal(
        generation_prepare(&chat_format, &context, body, sizeof body - 1, 0, &prepared, &error),
        RESULT_CANCELLED);
    assert_int_equal(lane, PREPARATION_IMAGES);
    assert_int_equal(
        generation_prepare(&chat_format, &context, body, sizeof body - 1, 0, &prepared, &error),
        RESULT_UNSUPPORTED); /* four bytes that are no image */
    assert_int_equal(lane, PREPARATION_IMAGES);
}

static void counted_tokens_include_placeholders(void **state)
{
    (void)state;
    char body[8000];
    struct text_buffer reply = {0};
    struct api_error error;
    snprintf(body, sizeof body,
             "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":"
             "{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"%s\"}}]}]}",
             blue);
    assets.vision->budget.most_bytes = 0; /* nothing is decoded */
    assert_int_equal(
        messages_count_tokens(&(struct parse_context){.assets = &assets, .reader = &direct_reader},
                              body, strlen(body), 0, &reply, &error),
        RESULT_OK);
    assert_string_equal(reply.bytes, "{\"input_tokens\":11}");
    text_buffer_fini(&reply);
    assets.vision->budget.most_bytes = 1u << 20;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placeholders_stand_where_images_do),
        cmocka_unit_test(users_words_make_no_image),
        cmocka_unit_test(refusals_name_the_image),
        cmocka_unit_test(sizes_are_refused_before_pixels),
        cmocka_unit_test(all_images_share_a_budget),
        cmocka_unit_test(a_fetch_needs_the_network_lane),
        cmocka_unit_test(the_text_lane_reads_no_image),
        cmocka_unit_test(counted_tokens_include_placeholders),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
