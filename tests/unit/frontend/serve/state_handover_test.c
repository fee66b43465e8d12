/* Messages of the server before: whole in whatever pieces they come, and a stream that breaks a rule ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>

#include "frontend/serve/server_handover.h"
#include "frontend/serve/state_handover.h"

static struct event_base *base;
static struct state_handover *handover;
static int server; /* the other side */
static char heard[4096];

static void note(const char *words)
{
    assert_true(strlen(heard) + strlen(words) < sizeof heard);
    strcat(heard, words);
}

static void on_left(void *context)
{
    assert_ptr_equal(context, heard);
    note("left ");
}

static void on_message(void *context, char kind, const char *bytes, size_t byte_count)
{
    char text[1200];
    assert_ptr_equal(context, heard);
    snprintf(text, sizeof text, "%c:%.*s ", kind, (int)byte_count, bytes);
    note(text);
}

static void on_ended(void *context)
{
    assert_ptr_equal(context, heard);
    note("ended ");
}

static int set_up(void **state)
{
    (void)state;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return -1;
    base = event_base_new();
    heard[0] = '\0';
    server = pair[0];
    handover = state_handover_create(&(struct state_handover_config){.base = base,
                                                                     .channel = pair[1],
                                                                     .most_bytes = 1000,
                                                                     .context = heard,
                                                                     .left = on_left,
                                                                     .message = on_message,
                                                                     .ended = on_ended});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    state_handover_destroy(handover);
    event_base_free(base);
    close(server);
    return 0;
}

static void turn(void)
{
    for (int i = 0; i < 5; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
}

static void send_bytes(const char *bytes, size_t count)
{
    assert_int_equal(send(server, bytes, count, MSG_NOSIGNAL), count);
}

/* `bytes` is what the head says. */
static void send_message(char kind, uint32_t bytes, const char *text)
{
    const char head[5] = {kind, (char)(bytes & 255), (char)(bytes >> 8 & 255),
                          (char)(bytes >> 16 & 255), (char)(bytes >> 24)};
    send_bytes(head, sizeof head);
    if (text[0])
        send_bytes(text, strlen(text));
}

static void both_sides_speak(void **state)
{
    (void)state;
    char byte;
    state_handover_ask(handover);
    turn();
    assert_int_equal(recv(server, &byte, 1, 0), 1);
    assert_int_equal(byte, SERVER_HANDOVER_ASK);
    send_message('L', 0, "");
    turn();
    assert_string_equal(heard, "left ");
    state_handover_report(handover);
    turn();
    assert_int_equal(recv(server, &byte, 1, 0), 1);
    assert_int_equal(byte, SERVER_HANDOVER_READY);
    send_message('F', 3, "one");
    send_message('D', 2, "id");
    send_message('F', 0, "");
    shutdown(server, SHUT_WR);
    turn();
    assert_string_equal(heard, "left F:one D:id F: ended ");
    state_handover_report(handover); /* the stream has ended */
}

static void pieces_are_put_together(void **state)
{
    (void)state;
    char whole[2200] = "L\0\0\0\0F\xe8\x03\0\0";
    size_t count = 10;
    memset(whole + count, 'x', 1000);
    memcpy(whole + count + 1000, "D\x01\0\0\0y", 6);
    count += 1006;
    for (size_t i = 0; i < count; i++) {
        send_bytes(whole + i, 1);
        turn();
    }
    assert_int_equal(strlen(heard), strlen("left F: D:y ") + 1000);
    assert_string_equal(heard + strlen(heard) - 6, "x D:y ");
}

static void a_broken_rule_ends_the_stream(void **state)
{
    static const struct {
        char kind;
        uint32_t bytes;
        bool after_left;
    } cases[] = {{'F', 1, false},   {'D', 1, false},         {'L', 0, true},
                 {'F', 1001, true}, {'F', UINT32_MAX, true}, {'L', UINT32_MAX, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].after_left)
            send_message('L', 0, "");
        send_message(cases[i].kind, cases[i].bytes, "abc");
        send_message('F', 1, "z");
        turn();
        assert_string_equal(heard, cases[i].after_left ? "left ended " : "ended ");
        tear_down(state);
        assert_int_equal(set_up(state), 0);
    }
}

static void a_stream_that_is_cut_gives_no_half_message(void **state)
{
    (void)state;
    send_message('L', 0, "");
    send_message('F', 5, "ab");
    close(server);
    server = -1;
    turn();
    assert_string_equal(heard, "left ended ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_sides_speak, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pieces_are_put_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_broken_rule_ends_the_stream, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stream_that_is_cut_gives_no_half_message, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
