/*
 * Images in the bodies of all three APIs: what they become in the messages, what is noted of
 * them, and what is refused with its place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/chat/chat_request.h"
#include "frontend/api/messages/messages_request.h"
#include "frontend/api/responses/responses_request.h"
#include "tests/support/tiny_vision.h"

static struct model_assets assets;

static int setup(void **state)
{
    (void)state;
    tiny_vision_open(&assets, (struct media_policy){.most_bytes = 1000});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tiny_vision_close(&assets);
    return 0;
}

typedef enum result parser(const struct parse_context *context, const char *json, size_t json_bytes,
                           struct generation_request *request, struct api_error *error);

static parser *const parsers[] = {chat_request_parse, messages_request_parse,
                                  responses_count_parse};
enum { CHAT, MESSAGES, RESPONSES };

static enum result parse(int api, const char *fields, struct generation_request *request,
                         struct api_error *error)
{
    char body[4000];
    snprintf(body, sizeof body, "{\"model\":\"tiny\",%s%s}",
             api == MESSAGES ? "\"max_tokens\":9," : "", fields);
    return parsers[api](&(struct parse_context){.assets = &assets, .random_seed = 1}, body,
                        strlen(body), request, error);
}

static void expect(int api, const char *fields, const char *messages, const char *images)
{
    struct generation_request request;
    struct api_error error;
    char noted[1000] = "";
    if (parse(api, fields, &request, &error) != RESULT_OK)
        fail_msg("%s: %s", fields, error.message);
    char *text = cJSON_PrintUnformatted(request.messages);
    assert_string_equal(text, messages);
    for (uint32_t i = 0; i < request.images.count; i++) {
        const struct request_image *image = &request.images.items[i];
        size_t length = strlen(noted);
        snprintf(noted + length, sizeof noted - length, "%s %d%s %s;", image->place,
                 (int)image->naming, image->detail == IMAGE_DETAIL_LOW ? "low" : "", image->name);
    }
    assert_string_equal(noted, images);
    free(text);
    generation_request_fini(&request);
}

static void refuse(int api, const char *fields, const char *param, const char *says)
{
    struct generation_request request;
    struct api_error error;
    assert_int_equal(parse(api, fields, &request, &error), RESULT_INVALID);
    assert_int_equal(error.status, 400);
    assert_string_equal(error.param, param);
    if (!strstr(error.message, says))
        fail_msg("%s", error.message);
}

#define USER(content) "\"messages\":[{\"role\":\"user\",\"content\":" content "}]"
#define URL(name)     "{\"type\":\"image_url\",\"image_url\":{\"url\":\"" name "\"}}"
#define TEXT(words)   "{\"type\":\"text\",\"text\":\"" words "\"}"
#define IMAGE         "{\"type\":\"image\"}"
#define B64(data)                                                                                  \
    "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/"                  \
    "png\",\"data\":\"" data "\"}}"

static void chats_keep_images_in_their_place(void **state)
{
    (void)state;
    expect(CHAT, USER("[" TEXT("a") "," URL("data:,x") "," TEXT("b") "," TEXT("c") "]"),
           "[{\"role\":\"user\",\"content\":[" TEXT("a") "," IMAGE
                                                         "," TEXT("b") "," TEXT("c") "]}]",
           "messages[0].content[1] 1 data:,x;");
    expect(CHAT,
           USER("[{\"type\":\"image_url\",\"image_url\":\"http://x\"},"
                "{\"type\":\"input_image\",\"image_url\":\"data:,y\",\"detail\":\"low\"},"
                "{\"type\":\"image_url\",\"image_url\":{\"url\":\"z\",\"detail\":\"high\"}}]"),
           "[{\"role\":\"user\",\"content\":[" IMAGE "," IMAGE "," IMAGE "]}]",
           "messages[0].content[0] 1 http://x;messages[0].content[1] 1low data:,y;"
           "messages[0].content[2] 1 z;");
    expect(CHAT,
           "\"messages\":[{\"role\":\"user\",\"content\":[" TEXT("a") "," TEXT(
               "b") "]},"
                    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\","
                    "\"function\":"
                    "{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
                    "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":[" URL("data:,x") "]}]",
           "[{\"role\":\"user\",\"content\":\"a\\nb\"},"
           "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"function\":"
           "{\"name\":\"f\",\"arguments\":{}}}]},"
           "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":[" IMAGE "]}]",
           "messages[2].content[0] 1 data:,x;");
}

static void anthropics_blocks_become_parts(void **state)
{
    (void)state;
    expect(MESSAGES,
           USER("[" TEXT("a") "," TEXT("b") "," B64(
               "AAAA") ","
                       "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"http://x\"},"
                       "\"cache_control\":{\"type\":\"ephemeral\"}}," TEXT("c") "]"),
           "[{\"role\":\"user\",\"content\":[" TEXT("a\\nb") "," IMAGE "," IMAGE
                                                             "," TEXT("c") "]}]",
           "messages[0].content[2] 2 AAAA;messages[0].content[3] 1 http://x;");
    /* Neighbours of one role are one turn, and a result is a turn of its own between them. */
    expect(
        MESSAGES,
        "\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
        "[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\","
        "\"is_error\":true,\"content\":[" B64("BBBB") "," TEXT("r") "]}," B64("CCCC") "]}]",
        "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"tool_calls\":[{\"id\":"
        "\"t\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{}}}],"
        "\"content\":null},"
        "{\"role\":\"tool\",\"tool_call_id\":\"t\",\"name\":\"f\",\"content\":[" TEXT(
            "Error: ") "," IMAGE "," TEXT("r") "]},"
                                               "{\"role\":\"user\",\"content\":[" IMAGE "]}]",
        "messages[2].content[0].content[0] 2 BBBB;messages[2].content[1] 2 CCCC;");
}

#define ITEM(content) "\"input\":[{\"role\":\"user\",\"content\":" content "}]"
#define INPUT(name)   "{\"type\":\"input_image\",\"image_url\":\"" name "\"}"

static void responses_items_become_parts(void **state)
{
    (void)state;
    expect(RESPONSES,
           ITEM("[{\"type\":\"input_text\",\"text\":\"a\"}," INPUT(
               "data:,x") "]") ",\"instructions\":\"s\"",
           "[{\"role\":\"system\",\"content\":\"s\"},"
           "{\"role\":\"user\",\"content\":[" TEXT("a") "," IMAGE "]}]",
           "input[0].content[1] 1 data:,x;");
    expect(RESPONSES,
           "\"input\":[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\","
           "\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"c\","
           "\"output\":[" INPUT("data:,y") "]}]",
           "[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\","
           "\"function\":{\"name\":\"f\",\"arguments\":{}}}]},"
           "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":[" IMAGE "]}]",
           "input[1].output[0] 1 data:,y;");
}

static void broken_parts_are_refused(void **state)
{
    (void)state;
    static const char place[] = "messages[0].content[0]";
    refuse(CHAT, USER("[{\"type\":\"image_url\"}]"), place, "image_url");
    refuse(CHAT, USER("[{\"type\":\"image_url\",\"image_url\":{\"url\":7}}]"), place, "url");
    refuse(CHAT, USER("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"x\",\"detail\":\"no\"}}]"),
           place, "detail");
    refuse(CHAT, USER("[{\"type\":\"input_image\",\"file_id\":\"file-1\"}]"), place, "uploaded");
    refuse(CHAT, USER("[{\"type\":\"image\"}]"), place, "source");
    refuse(CHAT, USER("[{\"type\":\"image_url\",\"image_url\":\"x\"},{\"type\":\"music\"}]"),
           "messages[0].content", "music");
    refuse(CHAT, "\"messages\":[{\"role\":\"system\",\"content\":[" URL("data:,x") "]}]", place,
           "user and tool");
    refuse(CHAT, "\"messages\":[{\"role\":\"assistant\",\"content\":[" URL("data:,x") "]}]", place,
           "user and tool");
    refuse(MESSAGES,
           USER("[{\"type\":\"image\",\"source\":{\"type\":\"file\",\"file_id\":\"f\"}}]"), place,
           "file");
    refuse(MESSAGES, USER("[{\"type\":\"image\"}]"), place, "source");
    refuse(MESSAGES, USER("[" URL("data:,x") "]"), "messages[0].content[0].type", "image_url");
    refuse(RESPONSES, "\"input\":[{\"role\":\"assistant\",\"content\":[" INPUT("data:,x") "]}]",
           "input[0].content[0]", "input_image");
    refuse(RESPONSES, ITEM("[{\"type\":\"input_image\",\"file_id\":\"f\"}]"), "input[0].content[0]",
           "uploaded");
}

static void a_model_without_vision_refuses_images(void **state)
{
    (void)state;
    struct vision_assets *vision = assets.vision;
    assets.vision = NULL;
    refuse(CHAT, USER("[" URL("data:,x") "]"), "messages[0].content[0]", "takes no images");
    refuse(MESSAGES, USER("[" B64("AAAA") "]"), "messages[0].content[0]", "takes no images");
    refuse(RESPONSES, ITEM("[" INPUT("x") "]"), "input[0].content[0]", "takes no images");
    assets.vision = vision;
}

#define SOUND(name) "{\"type\":\"input_audio\",\"input_audio\":" name "}"

static void sounds_are_for_models_with_audio(void **state)
{
    (void)state;
    static const char *const broken[] = {"7",
                                         "null",
                                         "{}",
                                         "{\"data\":7}",
                                         "{\"data\":\"AA\",\"format\":\"midi\"}",
                                         "{\"data\":\"AA\",\"format\":7}"};
    refuse(CHAT, USER("[" SOUND("\"data:,x\"") "]"), "messages[0].content[0]", "takes no audio");
    refuse(RESPONSES, ITEM("[" SOUND("\"x\"") "]"), "input[0].content[0]", "takes no audio");
    assets.vision->audio.family = AUDIO_FAMILY_QWEN2_AUDIO;
    expect(
        CHAT,
        USER("[" SOUND(
            "{\"data\":\"AA\",\"format\":\"wav\"}") ","
                                                    "{\"type\":\"audio_url\",\"audio_url\":{"
                                                    "\"url\":\"data:,y\"}},"
                                                    "{\"type\":\"audio\",\"audio\":\"data:,z\"}]"),
        "[{\"role\":\"user\",\"content\":[{\"type\":\"audio\"},{\"type\":\"audio\"},"
        "{\"type\":\"audio\"}]}]",
        "messages[0].content[0] 2 AA;messages[0].content[1] 1 data:,y;"
        "messages[0].content[2] 1 data:,z;");
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char fields[200];
        snprintf(fields, sizeof fields, "%s%s%s",
                 "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\","
                 "\"input_audio\":",
                 broken[i], "}]}]");
        refuse(CHAT, fields, "messages[0].content[0]", i < 4 ? "must be a URL" : "format must be");
    }
    refuse(CHAT, "\"messages\":[{\"role\":\"system\",\"content\":[" SOUND("\"x\"") "]}]",
           "messages[0].content[0]", "user and tool");
    assets.vision->audio.family = AUDIO_FAMILY_NONE;
}

static void images_are_counted(void **state)
{
    (void)state;
    struct generation_request request;
    struct api_error error;
    for (uint32_t count = LIMIT_REQUEST_IMAGES; count <= LIMIT_REQUEST_IMAGES + 1; count++) {
        struct text_buffer body = {0};
        text_buffer_append_text(&body, "{\"messages\":[{\"role\":\"user\",\"content\":[");
        for (uint32_t i = 0; i < count; i++)
            text_buffer_append_text(&body, i > 0 ? "," URL("data:,x") : URL("data:,x"));
        text_buffer_append_text(&body, "]}]}");
        enum result result = chat_request_parse(&(struct parse_context){.assets = &assets},
                                                body.bytes, body.length, &request, &error);
        assert_int_equal(result, count > LIMIT_REQUEST_IMAGES ? RESULT_INVALID : RESULT_OK);
        if (result == RESULT_OK)
            generation_request_fini(&request);
        text_buffer_fini(&body);
    }
}

static void resize_shape_is_a_box(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        uint32_t width, height;
    } rows[] = {{"64", 64, 64}, {"[64]", 64, 64}, {"[64,32]", 64, 32}, {"null", 0, 0}};
    static const char *const broken[] = {"0", "[]", "[1,2,3]", "1.5", "\"64\"", "[64,-1]", "99999"};
    char fields[200];
    struct generation_request request;
    struct api_error error;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(fields, sizeof fields, "%s,\"resize_shape\":%s", USER("\"x\""), rows[i].value);
        assert_int_equal(parse(CHAT, fields, &request, &error), RESULT_OK);
        assert_int_equal(request.box_width, rows[i].width);
        assert_int_equal(request.box_height, rows[i].height);
        generation_request_fini(&request);
    }
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        snprintf(fields, sizeof fields, "%s,\"resize_shape\":%s", USER("\"x\""), broken[i]);
        refuse(CHAT, fields, "resize_shape", "whole numbers");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chats_keep_images_in_their_place),
        cmocka_unit_test(anthropics_blocks_become_parts),
        cmocka_unit_test(responses_items_become_parts),
        cmocka_unit_test(broken_parts_are_refused),
        cmocka_unit_test(a_model_without_vision_refuses_images),
        cmocka_unit_test(sounds_are_for_models_with_audio),
        cmocka_unit_test(images_are_counted),
        cmocka_unit_test(resize_shape_is_a_box),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
