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
    size_t length = strlen(seen);
    seen[length] = event->kind == REPLY_REASONING ? 'r' : 'c';
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_are_sent_whole_within_a_section),
        cmocka_unit_test(a_change_of_kind_sends_all_text_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
