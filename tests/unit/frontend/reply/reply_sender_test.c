/*
 * reply_sender: text is sent in order and in whole characters; only the end of a section sends a
 * part of one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/reply/reply_sender.h"

static char seen[256];

static void note(void *context, const struct reply_event *event)
{
    (void)context;
    static const char kinds[] = {[REPLY_CONTENT] = 'c',
                                 [REPLY_REASONING] = 'r',
                                 [REPLY_CALL_BEGIN] = 'B',
                                 [REPLY_CALL_ARGUMENTS] = 'A',
                                 [REPLY_CALL_END] = 'E'};
    size_t length = strlen(seen);
    seen[length] = kinds[event->kind];
    if (event->length > 0)
        memcpy(seen + length + 1, event->bytes, event->length);
    seen[length + 1 + event->length] = '\0';
}

static void characters_are_sent_whole_within_a_section(void **state)
{
    (void)state;
    struct reply_sender sender = {.sink = {NULL, note}, .text_kind = REPLY_CONTENT};
    seen[0] = '\0';
    reply_sender_text(&sender, REPLY_CONTENT, "a\xc3", 2);
    reply_sender_flush(&sender, false);
    assert_string_equal(seen, "ca");
    reply_sender_text(&sender, REPLY_CONTENT, "\xbc", 1);
    reply_sender_flush(&sender, false);
    reply_sender_flush(&sender, false); /* nothing is left */
    assert_string_equal(seen, "cac\xc3\xbc");
    reply_sender_text(&sender, REPLY_CONTENT, "\xe2\x82", 2);
    reply_sender_flush(&sender, true);
    assert_string_equal(seen, "cac\xc3\xbc"
                              "c\xe2\x82");
    reply_sender_fini(&sender);
}

static void a_change_of_kind_sends_all_text_first(void **state)
{
    (void)state;
    struct reply_sender sender = {.sink = {NULL, note}, .text_kind = REPLY_CONTENT};
    seen[0] = '\0';
    reply_sender_text(&sender, REPLY_REASONING, "b\xc3", 2);
    reply_sender_text(&sender, REPLY_CONTENT, "x", 1);
    assert_string_equal(seen, "rb\xc3");
    reply_sender_flush(&sender, false);
    assert_string_equal(seen, "rb\xc3"
                              "cx");
    reply_sender_fini(&sender);
}

static void a_call_is_sent_once_its_name_and_arguments_are_known(void **state)
{
    (void)state;
    struct reply_sender sender = {.sink = {NULL, note}, .text_kind = REPLY_CONTENT};
    struct call_writer writer = {0};
    seen[0] = '\0';
    call_writer_clear(&writer);
    reply_sender_text(&sender, REPLY_CONTENT, "x\xc3", 2);
    reply_sender_call(&sender, &writer);
    assert_true(call_writer_set_name(&writer, "f", 1));
    reply_sender_call(&sender, &writer);
    assert_string_equal(seen, "");
    assert_true(call_writer_put_text(&writer, "{\"\xe2\x82"));
    reply_sender_call(&sender, &writer); /* all text comes first */
    assert_string_equal(seen, "cx\xc3"
                              "BfA{\"");
    assert_int_equal(sender.calls, 1);
    reply_sender_call(&sender, &writer);
    assert_true(call_writer_put_text(&writer, "\xac\":1}"));
    reply_sender_call_end(&sender, &writer);
    assert_string_equal(seen, "cx\xc3"
                              "BfA{\"A\xe2\x82\xac\":1}E");
    assert_int_equal(sender.calls, 1);
    call_writer_clear(&writer);
    assert_true(call_writer_set_name(&writer, "g", 1));
    assert_true(call_writer_put_text(&writer, "{}"));
    seen[0] = '\0';
    reply_sender_call_end(&sender, &writer);
    assert_string_equal(seen, "BgA{}E");
    assert_int_equal(sender.calls, 2);
    call_writer_fini(&writer);
    reply_sender_fini(&sender);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_are_sent_whole_within_a_section),
        cmocka_unit_test(a_change_of_kind_sends_all_text_first),
        cmocka_unit_test(a_call_is_sent_once_its_name_and_arguments_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
