/* Files of a checkpoint that are held open stay the recorded ones, whatever happens to their names. */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/limits.h"
#include "proto/mapped_file.h"
#include "proto/opened_files.h"

static char folder[] = "/tmp/shoal-opened-XXXXXX";
static char paths[4][200];

static const char *path_of(const char *file)
{
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, file);
    return path;
}

static void put(const char *file, const char *text)
{
    FILE *out = fopen(path_of(file), "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

/* Other bytes under the same name, in another inode. */
static void replace(const char *file, const char *text)
{
    put("new", text);
    assert_int_equal(rename(path_of("new"), path_of(file)), 0);
}

static char *record(const char *file, const char *mmproj)
{
    char *text;
    assert_int_equal(
        checkpoint_files_read(path_of(file), mmproj ? path_of(mmproj) : NULL, &text, NULL),
        RESULT_OK);
    return text;
}

static enum result open_files(const char *file, const char *mmproj, const char *recorded,
                              struct opened_files *files, struct error_text *error)
{
    return opened_files_open(path_of(file), mmproj ? path_of(mmproj) : NULL, recorded, files,
                             error);
}

static void assert_bytes(const struct opened_files *files, const char *name, const char *bytes)
{
    struct mapped_file file;
    struct error_text error = {""};
    assert_int_equal(mapped_file_open_of(files, -1, name, &file, &error), RESULT_OK);
    assert_int_equal(file.byte_count, strlen(bytes));
    assert_memory_equal(file.bytes, bytes, strlen(bytes));
    mapped_file_close(&file);
}

static void replaced_and_removed_files_stay(void **state)
{
    (void)state;
    char name[CHECKPOINT_FILE_NAME_BYTES];
    struct opened_files files;
    assert_int_equal(mkdir(path_of("hf"), 0700), 0);
    put("hf/config.json", "{}");
    put("hf/model.safetensors", "weights");
    char *recorded = record("hf", NULL);
    assert_int_equal(open_files("hf", NULL, recorded, &files, NULL), RESULT_OK);
    struct mapped_file before;
    struct mapped_file after;
    assert_int_equal(mapped_file_open_of(&files, -1, "model.safetensors", &before, NULL),
                     RESULT_OK);
    usleep(20000); /* the clock of files ticks every few milliseconds */
    replace("hf/model.safetensors", "others!");
    assert_int_equal(unlink(path_of("hf/config.json")), 0);
    assert_false(opened_files_differ(&files, recorded, name));
    assert_bytes(&files, "config.json", "{}");
    assert_bytes(&files, "/some/where/model.safetensors", "weights");
    /* The removal changed the inode's time, not the identity that weights and KV cache are kept under. */
    assert_int_equal(mapped_file_open_of(&files, -1, "model.safetensors", &after, NULL), RESULT_OK);
    struct stat status;
    assert_int_equal(fstat(opened_files_find(&files, "model.safetensors")->fd, &status), 0);
    assert_true((int64_t)status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec >
                before.changed_ns);
    assert_int_equal(after.changed_ns, before.changed_ns);
    assert_int_equal(after.inode, before.inode);
    mapped_file_close(&before);
    mapped_file_close(&after);
    assert_int_equal(
        mapped_file_open_of(&files, AT_FDCWD, path_of("hf/tokenizer.json"), &after, NULL),
        RESULT_NOT_FOUND);
    free(recorded);
    opened_files_close(&files);
    opened_files_close(&files);
}

static void a_file_written_in_place_differs(void **state)
{
    (void)state;
    char name[CHECKPOINT_FILE_NAME_BYTES];
    struct opened_files files;
    put("a.gguf", "weights");
    char *recorded = record("a.gguf", NULL);
    assert_int_equal(open_files("a.gguf", NULL, recorded, &files, NULL), RESULT_OK);
    assert_false(opened_files_differ(&files, recorded, name));
    usleep(20000);
    put("a.gguf", "othersx");
    assert_true(opened_files_differ(&files, recorded, name));
    assert_string_equal(name, "a.gguf");
    free(recorded);
    opened_files_close(&files);
}

/* The worker's side: numbers and times in, the same files found. */
static void a_worker_inherits_parts_and_projector(void **state)
{
    (void)state;
    struct opened_files files;
    struct opened_files inherited;
    assert_int_equal(mkdir(path_of("towers"), 0700), 0);
    put("m-00001-of-00002.gguf", "one");
    put("m-00002-of-00002.gguf", "two");
    put("towers/mmproj-m.gguf", "tower");
    char *recorded = record("m-00001-of-00002.gguf", "towers/mmproj-m.gguf");
    assert_int_equal(
        open_files("m-00001-of-00002.gguf", "towers/mmproj-m.gguf", recorded, &files, NULL),
        RESULT_OK);
    assert_int_equal(files.count, 3);
    assert_int_equal(opened_files_parse(files.text, recorded, &inherited, NULL), RESULT_OK);
    assert_int_equal(inherited.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(inherited.list[i].fd, files.list[i].fd);
        assert_int_equal(inherited.list[i].changed_ns, files.list[i].changed_ns);
    }
    replace("m-00002-of-00002.gguf", "2");
    assert_bytes(&inherited, path_of("m-00002-of-00002.gguf"), "two");
    assert_bytes(&inherited, path_of("towers/mmproj-m.gguf"), "tower");
    opened_files_close(&inherited);
    for (size_t i = 0; i < 3; i++)
        files.list[i].fd = -1; /* the same descriptors */
    opened_files_close(&files);
    free(recorded);
}

static void others_than_the_recorded_are_not_held(void **state)
{
    (void)state;
    struct opened_files files;
    struct error_text error = {""};
    put("b.gguf", "weights");
    char *recorded = record("b.gguf", NULL);
    replace("b.gguf", "others!");
    assert_int_equal(open_files("b.gguf", NULL, recorded, &files, &error), RESULT_IO);
    assert_string_equal(error.text, "b.gguf was just replaced");
    assert_int_equal(files.count, 0);
    assert_int_equal(unlink(path_of("b.gguf")), 0);
    assert_int_equal(open_files("b.gguf", NULL, recorded, &files, &error), RESULT_IO);
    assert_string_equal(error.text, "b.gguf: No such file or directory");
    free(recorded);

    put("c.gguf", "text");
    assert_int_equal(mkdir(path_of("twin"), 0700), 0);
    put("twin/c.gguf", "tower");
    recorded = record("c.gguf", "twin/c.gguf");
    assert_int_equal(open_files("c.gguf", "twin/c.gguf", recorded, &files, &error),
                     RESULT_UNSUPPORTED);
    assert_int_equal(files.count, 0);
    free(recorded);
}

static void files_are_a_small_part_of_the_descriptors(void **state)
{
    (void)state;
    struct rlimit before;
    struct opened_files files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(mkdir(path_of("many"), 0700), 0);
    for (uint32_t i = 0; i < 4; i++) {
        char file[64];
        snprintf(file, sizeof file, "many/%u.safetensors", i);
        put(file, "x");
    }
    char *recorded = record("many", NULL);
    struct rlimit small = {.rlim_cur = 63, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    assert_int_equal(open_files("many", NULL, recorded, &files, NULL), RESULT_TOO_LARGE);
    small.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    assert_int_equal(open_files("many", NULL, recorded, &files, NULL), RESULT_OK);
    opened_files_close(&files);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    free(recorded);

    char *lines = calloc(LIMIT_OPENED_FILES + 2, 16);
    for (uint32_t i = 0; i <= LIMIT_OPENED_FILES; i++)
        sprintf(lines + strlen(lines), "1 2 3 4 f%u\n", i);
    assert_int_equal(open_files("many", NULL, lines, &files, NULL), RESULT_TOO_LARGE);
    free(lines);
}

static void as_many_files_as_allowed_are_opened(void **state)
{
    (void)state;
    struct rlimit before, wide;
    struct opened_files files;
    struct error_text error = {""};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    wide = (struct rlimit){.rlim_cur = 16 * LIMIT_OPENED_FILES, .rlim_max = before.rlim_max};
    if (wide.rlim_cur > wide.rlim_max)
        skip();
    assert_int_equal(mkdir(path_of("most"), 0700), 0);
    for (uint32_t i = 0; i < LIMIT_OPENED_FILES; i++) {
        char file[64];
        snprintf(file, sizeof file, "most/%u.safetensors", i);
        put(file, "x");
    }
    char *recorded = record("most", NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &wide), 0);
    if (open_files("most", NULL, recorded, &files, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(files.count, LIMIT_OPENED_FILES);
    opened_files_close(&files);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    free(recorded);
}

/* The lowest number that is free. */
static int free_descriptor(void)
{
    int fd = dup(STDERR_FILENO);
    close(fd);
    return fd;
}

static void no_descriptor_stays_open_or_is_lost(void **state)
{
    (void)state;
    struct opened_files files;
    int before = free_descriptor();
    assert_int_equal(mkdir(path_of("two"), 0700), 0);
    put("two/1.safetensors", "x");
    put("two/2.safetensors", "x");
    char *recorded = record("two", NULL);
    assert_int_equal(open_files("two", NULL, recorded, &files, NULL), RESULT_OK);
    opened_files_close(&files);
    assert_int_equal(free_descriptor(), before);
    /* Of files that are not all there, only those that were opened are closed. */
    assert_int_equal(unlink(path_of("two/1.safetensors")), 0);
    assert_int_equal(open_files("two", NULL, recorded, &files, NULL), RESULT_IO);
    assert_int_equal(free_descriptor(), before);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        assert_true(fcntl(fd, F_GETFD) >= 0);
    free(recorded);
}

/* A descriptor of number 0 is one like any other. */
static void standard_input_may_be_closed(void **state)
{
    (void)state;
    struct opened_files files;
    put("d.gguf", "weights");
    put("a.gguf", "another file of the projector's name, opened first");
    put("two/a.gguf", "tower");
    char *recorded = record("d.gguf", "two/a.gguf");
    int saved = dup(STDIN_FILENO);
    assert_true(saved > 0);
    close(STDIN_FILENO);
    enum result result = open_files("d.gguf", "two/a.gguf", recorded, &files, NULL);
    bool used = fcntl(STDIN_FILENO, F_GETFD) >= 0;
    opened_files_close(&files);
    bool closed = fcntl(STDIN_FILENO, F_GETFD) == -1;
    assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
    close(saved);
    assert_int_equal(result, RESULT_OK);
    assert_true(used && closed);
    free(recorded);
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char recorded[] = "1 2 3 4 a\n1 5 6 7 b\n";
    static const char *const texts[] = {"",
                                        "7",
                                        "7:1",
                                        "7:1 ",
                                        "7:1 8:",
                                        "7:1 8:2 9:3",
                                        "7:1 8:2x",
                                        "7:1 8:2 ",
                                        "7:1,8:2",
                                        "2:1 8:2",
                                        "-7:1 8:2",
                                        "7:1 8:99999999999999999999",
                                        "7:1 4294967303:2"};
    struct opened_files files;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(opened_files_parse(texts[i], recorded, &files, NULL), RESULT_INVALID);
        assert_int_equal(files.count, 0);
    }
    assert_int_equal(opened_files_parse("7:1 8:-2", recorded, &files, NULL), RESULT_OK);
    assert_int_equal(opened_files_find(&files, "x/b")->fd, 8);
    assert_int_equal(files.list[1].changed_ns, -2);
    assert_null(opened_files_find(&files, "c"));
    free(files.list); /* 7 and 8 are not this process's to close */
    static const char three[] = "1 2 3 4 a\n1 5 6 7 b\n1 8 9 1 c\n";
    assert_int_equal(opened_files_parse("19:1 20:2 2147483647:3", three, &files, NULL), RESULT_OK);
    assert_int_equal(opened_files_find(&files, "a")->fd, 19);
    assert_int_equal(opened_files_find(&files, "b")->fd, 20);
    assert_int_equal(opened_files_find(&files, "c")->fd, INT32_MAX);
    free(files.list);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[200];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaced_and_removed_files_stay),
        cmocka_unit_test(a_file_written_in_place_differs),
        cmocka_unit_test(a_worker_inherits_parts_and_projector),
        cmocka_unit_test(others_than_the_recorded_are_not_held),
        cmocka_unit_test(files_are_a_small_part_of_the_descriptors),
        cmocka_unit_test(as_many_files_as_allowed_are_opened),
        cmocka_unit_test(no_descriptor_stays_open_or_is_lost),
        cmocka_unit_test(standard_input_may_be_closed),
        cmocka_unit_test(other_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
