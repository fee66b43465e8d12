/*
 * The directory of --state-dir: names, hidden files, writes that fail, foreign entries, and which
 * directories are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "frontend/api/responses/response_journal.h"

static char folder[64];
static struct response_journal *journal;

static int set_up(void **state)
{
    (void)state;
    struct error_text error;
    strcpy(folder, "/tmp/shoal-journal-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    return response_journal_open(folder, &journal, &error) == RESULT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    response_journal_close(journal);
    journal = NULL;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static bool exists(const char *name)
{
    struct stat facts;
    return fstatat(response_journal_directory(journal), name, &facts, AT_SYMLINK_NOFOLLOW) == 0;
}

static void file_make(const char *name, const char *bytes)
{
    int fd = openat(response_journal_directory(journal), name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, strlen(bytes)), strlen(bytes));
    close(fd);
}

static bool journal_writes(const char *id, const char *bytes)
{
    struct text_buffer buffer = {0};
    text_buffer_append_text(&buffer, bytes);
    bool written = response_journal_write(journal, id, &buffer);
    text_buffer_fini(&buffer);
    return written;
}

static enum result entry_read(const struct response_journal_entry *entry, const char *expected)
{
    struct text_buffer bytes = {0};
    struct error_text error;
    enum result result = response_journal_read(journal, entry, &bytes, &error);
    if (result == RESULT_OK) {
        assert_int_equal(bytes.length, strlen(expected));
        assert_memory_equal(bytes.bytes, expected, bytes.length);
    }
    text_buffer_fini(&bytes);
    return result;
}

/* The only file that is listed; fails if there are none or more. */
static struct response_journal_entry only_entry(void)
{
    size_t count;
    struct response_journal_entry *list = response_journal_list(journal, &count);
    assert_int_equal(count, 1);
    struct response_journal_entry entry = list[0];
    free(list);
    return entry;
}

static void a_written_file_is_listed_and_read(void **state)
{
    (void)state;
    assert_true(journal_writes("resp_0a", "first"));
    assert_true(journal_writes("resp_0a", "second time"));
    struct response_journal_entry entry = only_entry();
    assert_string_equal(entry.id, "resp_0a");
    assert_false(entry.hidden);
    assert_int_equal(entry.bytes, strlen("second time"));
    assert_true(entry.changed_ns > 0);
    assert_int_equal(entry_read(&entry, "second time"), RESULT_OK);
    assert_int_equal(response_journal_figures(journal).written, 2);
    response_journal_remove(journal, "resp_0a");
    assert_false(exists("resp_0a.response"));
}

static void a_hidden_file_keeps_its_contents(void **state)
{
    (void)state;
    assert_true(journal_writes("resp_0a", "text"));
    response_journal_hide(journal, "resp_0a");
    struct response_journal_entry entry = only_entry();
    assert_true(entry.hidden);
    assert_int_equal(entry_read(&entry, "text"), RESULT_OK);
    response_journal_remove(journal, "resp_0a");
    assert_false(exists("resp_0a.hidden"));
    response_journal_hide(journal, "resp_0b"); /* there is no such file */
    response_journal_remove(journal, "resp_0b");
}

/* --- the journal's thread -------------------------------------------------------------------- */

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool encoding, open;
    int released;
};

static void gate_encode(void *context, struct text_buffer *out)
{
    struct gate *gate = context;
    pthread_mutex_lock(&gate->mutex);
    gate->encoding = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
    text_buffer_append_text(out, "later");
}

static void gate_release(void *context)
{
    struct gate *gate = context;
    pthread_mutex_lock(&gate->mutex);
    gate->released++;
    pthread_mutex_unlock(&gate->mutex);
}

static void gate_wait_encoding(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    while (!gate->encoding)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

static void gate_open(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

/* One is hidden while it is encoded, one while it waits; the third is not. Closing writes all. */
static void files_hidden_before_they_are_written_are_hidden(void **state)
{
    (void)state;
    struct gate gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    const struct response_journal_source source = {
        .context = &gate, .encode = gate_encode, .release = gate_release};
    response_journal_write_later(journal, "resp_0a", &source);
    response_journal_write_later(journal, "resp_0b", &source);
    response_journal_write_later(journal, "resp_0c", &source);
    gate_wait_encoding(&gate);
    response_journal_hide(journal, "resp_0a");
    response_journal_hide(journal, "resp_0b");
    gate_open(&gate);
    response_journal_close(journal);
    assert_int_equal(gate.released, 3);
    struct error_text error;
    assert_int_equal(response_journal_open(folder, &journal, &error), RESULT_OK);
    assert_true(exists("resp_0a.hidden") && !exists("resp_0a.response"));
    assert_true(exists("resp_0b.hidden") && !exists("resp_0b.response"));
    assert_true(exists("resp_0c.response") && !exists("resp_0c.hidden"));
}

/* --- to a successor ---------------------------------------------------------------------------- */

static int channel[2]; /* [0] is the successor's */

static void leave(void)
{
    const struct timeval patience = {.tv_sec = 20};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel), 0);
    assert_int_equal(setsockopt(channel[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience),
                     0);
    response_journal_leave(journal, channel[1]);
}

static void assert_message(char kind, const char *expected)
{
    char head[RESPONSE_MESSAGE_HEAD], bytes[64];
    assert_int_equal(recv(channel[0], head, sizeof head, MSG_WAITALL), sizeof head);
    assert_int_equal(head[0], kind);
    assert_int_equal((unsigned char)head[1], strlen(expected));
    assert_true(head[2] == 0 && head[3] == 0 && head[4] == 0);
    if (expected[0])
        assert_int_equal(recv(channel[0], bytes, strlen(expected), MSG_WAITALL), strlen(expected));
    assert_memory_equal(bytes, expected, strlen(expected));
}

static struct response_journal *successor_open(void)
{
    struct response_journal *successor;
    struct error_text error;
    assert_int_equal(response_journal_open_waiting(folder, &successor, &error), RESULT_OK);
    return successor;
}

/* What is queued is written first; the lock is free once LEAVE is there, and not before. */
static void the_directory_is_left_with_everything_written(void **state)
{
    (void)state;
    struct error_text error;
    struct gate gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    const struct response_journal_source source = {
        .context = &gate, .encode = gate_encode, .release = gate_release};
    struct response_journal *successor = successor_open();
    assert_int_equal(response_journal_take(successor, &error), RESULT_INVALID);
    response_journal_write_later(journal, "resp_0a", &source);
    response_journal_write_later(journal, "resp_0b", &source);
    gate_wait_encoding(&gate);
    assert_false(response_journal_is_left(journal));
    leave();
    assert_true(response_journal_is_left(journal));
    assert_int_equal(response_journal_take(successor, &error), RESULT_INVALID);
    gate_open(&gate);
    assert_message(RESPONSE_MESSAGE_LEAVE, "");
    assert_true(exists("resp_0a.response") && exists("resp_0b.response"));
    assert_int_equal(response_journal_take(successor, &error), RESULT_OK);
    response_journal_close(successor);
    close(channel[0]);
}

static void *write_one(void *context)
{
    (void)context;
    return journal_writes("resp_0d", "four") ? journal : NULL;
}

/* Writers wait for the successor; then it gets all, and nothing is written here. */
static void a_successor_gets_what_follows(void **state)
{
    (void)state;
    pthread_t writer;
    void *written;
    char first;
    struct error_text error;
    struct response_journal *successor = successor_open();
    assert_true(journal_writes("resp_0a", "one"));
    assert_true(journal_writes("resp_0b", "two"));
    leave();
    assert_message(RESPONSE_MESSAGE_LEAVE, "");
    assert_int_equal(response_journal_take(successor, &error), RESULT_OK);
    response_journal_withdraw(journal, "resp_0a");
    response_journal_remove(journal, "resp_0a");
    response_journal_hide(journal, "resp_0b"); /* evicted here only */
    assert_int_equal(pthread_create(&writer, NULL, write_one, NULL), 0);
    usleep(20000);
    assert_int_equal(recv(channel[0], &first, 1, MSG_DONTWAIT), -1);
    response_journal_forward(journal);
    assert_int_equal(pthread_join(writer, &written), 0);
    assert_non_null(written);
    assert_int_equal(recv(channel[0], &first, 1, MSG_PEEK), 1);
    if (first == RESPONSE_MESSAGE_WITHDRAW) { /* sent by another thread than the response */
        assert_message(RESPONSE_MESSAGE_WITHDRAW, "resp_0a");
        assert_message(RESPONSE_MESSAGE_RESPONSE, "four");
    } else {
        assert_message(RESPONSE_MESSAGE_RESPONSE, "four");
        assert_message(RESPONSE_MESSAGE_WITHDRAW, "resp_0a");
    }
    response_journal_return(journal); /* has no effect any more */
    assert_true(journal_writes("resp_0e", "five"));
    assert_message(RESPONSE_MESSAGE_RESPONSE, "five");
    assert_true(exists("resp_0a.response") && exists("resp_0b.response"));
    assert_false(exists("resp_0d.response") || exists("resp_0e.response"));
    response_journal_close(successor);
    close(channel[0]);
    assert_false(journal_writes("resp_0f", "six")); /* it reads no more */
    assert_int_equal(response_journal_figures(journal).failed, 1);
}

/* The successor failed: what was written, hidden and removed meanwhile is done here. */
static void the_directory_comes_back(void **state)
{
    (void)state;
    pthread_t writer;
    void *written;
    struct error_text error;
    assert_true(journal_writes("resp_0a", "one"));
    assert_true(journal_writes("resp_0b", "two"));
    leave();
    assert_message(RESPONSE_MESSAGE_LEAVE, "");
    response_journal_withdraw(journal, "resp_0a");
    response_journal_remove(journal, "resp_0a");
    response_journal_hide(journal, "resp_0b");
    assert_int_equal(pthread_create(&writer, NULL, write_one, NULL), 0);
    struct response_journal *successor = successor_open();
    assert_int_equal(response_journal_take(successor, &error), RESULT_OK);
    response_journal_close(successor);
    response_journal_return(journal);
    assert_int_equal(pthread_join(writer, &written), 0);
    assert_non_null(written);
    assert_false(response_journal_is_left(journal));
    response_journal_close(journal);
    assert_int_equal(response_journal_open(folder, &journal, &error), RESULT_OK);
    assert_true(exists("resp_0d.response") && exists("resp_0b.hidden"));
    assert_false(exists("resp_0a.response") || exists("resp_0b.response"));
    close(channel[0]);
}

/* A server that ends while a successor has the directory writes nothing into it. */
static void a_server_without_its_directory_ends(void **state)
{
    (void)state;
    struct error_text error;
    struct gate gate = {
        .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .open = true};
    const struct response_journal_source source = {
        .context = &gate, .encode = gate_encode, .release = gate_release};
    leave();
    assert_message(RESPONSE_MESSAGE_LEAVE, "");
    struct response_journal *successor = successor_open();
    assert_int_equal(response_journal_take(successor, &error), RESULT_OK);
    response_journal_write_later(journal, "resp_0a", &source);
    response_journal_close(journal);
    assert_int_equal(gate.released, 1);
    journal = successor;
    assert_false(exists("resp_0a.response"));
    close(channel[0]);
}

/* --- failures -------------------------------------------------------------------------------- */

static void a_write_that_fails_leaves_the_old_file(void **state)
{
    (void)state;
    assert_true(journal_writes("resp_0a", "old"));
    assert_int_equal(mkdirat(response_journal_directory(journal), "resp_0a.tmp", 0700), 0);
    assert_false(journal_writes("resp_0a", "new"));
    struct response_journal_figures figures = response_journal_figures(journal);
    assert_int_equal(figures.written, 1);
    assert_int_equal(figures.failed, 1);
    struct response_journal_entry entry = {.id = "resp_0a", .bytes = 3};
    assert_int_equal(entry_read(&entry, "old"), RESULT_OK);
    assert_int_equal(unlinkat(response_journal_directory(journal), "resp_0a.tmp", AT_REMOVEDIR), 0);
    assert_true(journal_writes("resp_0a", "new"));
}

static void a_buffer_without_memory_is_not_written(void **state)
{
    (void)state;
    assert_true(journal_writes("resp_0a", "old"));
    const struct text_buffer failed = {.failed = true};
    assert_false(response_journal_write(journal, "resp_0a", &failed));
    assert_false(exists("resp_0a.tmp"));
    struct response_journal_entry entry = only_entry();
    assert_int_equal(entry_read(&entry, "old"), RESULT_OK);
}

static void unfinished_files_are_removed_and_foreign_ones_are_not(void **state)
{
    (void)state;
    static const char *const foreign[] = {
        "resp_.response",    "resp_0A.response", "resp_0a.responses", "resp_0a",
        "xresp_0a.response", "resp_0a.hidden.x", "prefix-cache-0",    "tenant-salt"};
    char name[RESPONSE_ID_BYTES + 16];
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        file_make(foreign[i], "x");
    /* An id that has no room in an entry. */
    snprintf(name, sizeof name, "resp_%0*d.response", (int)RESPONSE_ID_BYTES - 5, 0);
    file_make(name, "x");
    file_make("resp_0b.tmp", "half");
    assert_true(journal_writes("resp_0c", "whole"));
    assert_string_equal(only_entry().id, "resp_0c");
    assert_false(exists("resp_0b.tmp"));
    assert_true(exists(name));
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        assert_true(exists(foreign[i]));
}

static void only_regular_files_are_read(void **state)
{
    (void)state;
    int directory = response_journal_directory(journal);
    assert_int_equal(symlinkat("/etc/passwd", directory, "resp_0a.response"), 0);
    assert_int_equal(mkfifoat(directory, "resp_0b.response", 0600), 0);
    assert_int_equal(mkdirat(directory, "resp_0c.response", 0700), 0);
    const struct {
        const char *id;
        enum result result;
    } cases[] = {{"resp_0a", RESULT_IO},
                 {"resp_0b", RESULT_UNSUPPORTED},
                 {"resp_0c", RESULT_UNSUPPORTED},
                 {"resp_0d", RESULT_IO}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct response_journal_entry entry = {.bytes = 100};
        strcpy(entry.id, cases[i].id);
        assert_int_equal(entry_read(&entry, ""), cases[i].result);
    }
}

static void a_file_that_changes_after_it_was_listed_is_read_up_to_its_listed_size(void **state)
{
    (void)state;
    file_make("resp_0a.response", "0123456789");
    struct response_journal_entry entry = only_entry();
    file_make("resp_0a.response", "0123");
    assert_int_equal(entry_read(&entry, "0123"), RESULT_OK);
    entry.bytes = 2;
    assert_int_equal(entry_read(&entry, "01"), RESULT_OK);
}

/* --- directories ----------------------------------------------------------------------------- */

static void assert_refused(const char *path, enum result expected, const char *words)
{
    struct response_journal *other = NULL;
    struct error_text error = {""};
    assert_int_equal(response_journal_open(path, &other, &error), expected);
    assert_null(other);
    assert_non_null(strstr(error.text, words));
}

static void directories_that_are_not_safe_are_refused(void **state)
{
    (void)state;
    char path[160];
    assert_refused(folder, RESULT_INVALID, "is used by another server");
    snprintf(path, sizeof path, "%s/missing/state", folder);
    assert_refused(path, RESULT_IO, "cannot be created");
    file_make("file", "");
    snprintf(path, sizeof path, "%s/file", folder);
    assert_refused(path, RESULT_IO, "cannot be opened");
    snprintf(path, sizeof path, "%s/open", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0770), 0);
    assert_refused(path, RESULT_INVALID, "is writable by other users (mode 0770)");
    snprintf(path, sizeof path, "%s/locked", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/lock");
    assert_int_equal(symlink("/tmp/shoal-no-such-file", path), 0);
    snprintf(path, sizeof path, "%s/locked", folder);
    assert_refused(path, RESULT_IO, "cannot be written to");
    assert_int_equal(response_journal_directory(NULL), -1);
}

static void a_closed_journal_lets_another_server_in(void **state)
{
    (void)state;
    struct error_text error;
    response_journal_close(journal);
    assert_int_equal(response_journal_open(folder, &journal, &error), RESULT_OK);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_written_file_is_listed_and_read),
        TEST(a_hidden_file_keeps_its_contents),
        TEST(files_hidden_before_they_are_written_are_hidden),
        TEST(the_directory_is_left_with_everything_written),
        TEST(a_successor_gets_what_follows),
        TEST(the_directory_comes_back),
        TEST(a_server_without_its_directory_ends),
        TEST(a_write_that_fails_leaves_the_old_file),
        TEST(a_buffer_without_memory_is_not_written),
        TEST(unfinished_files_are_removed_and_foreign_ones_are_not),
        TEST(only_regular_files_are_read),
        TEST(a_file_that_changes_after_it_was_listed_is_read_up_to_its_listed_size),
        TEST(directories_that_are_not_safe_are_refused),
        TEST(a_closed_journal_lets_another_server_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
