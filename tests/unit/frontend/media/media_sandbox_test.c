/*
 * What a process can do in the sandbox: decode, and nothing else. Each attempt runs in a process of
 * its own that enters the sandbox with some of its parts.
 */
// tags: no-sanitizers
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontend/image/image_decoder.h"
#include "frontend/media/media_record.h"
#include "frontend/media/media_sandbox.h"
#include "proto/limits.h"
#include "proto/mapped_file.h"
#include "proto/must.h"

#define GOLDEN       "tests/golden/images"
#define PART_MISSING 99 /* exit status: this kernel does not have the part */

/* What an attempt returns is the exit status of its process. */
typedef int attempt(void);

/* The status of waitpid() of a process that enters the sandbox and runs `run`. */
static int confined(uint32_t parts, attempt *run)
{
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        int status = media_sandbox_enter(STDERR_FILENO, parts) == parts ? run() : PART_MISSING;
        syscall(SYS_exit_group, status);
    }
    int status;
    must(waitpid(pid, &status, 0) == pid);
    return status;
}

static bool is_missing(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == PART_MISSING;
}

static void skip_for(const char *reason)
{
    print_message("  skipped: %s\n", reason);
    skip();
}

/* --- seccomp ---------------------------------------------------------------------------------- */

static int try_open(void)
{
    return open("/dev/null", O_RDONLY) < 0;
}

static int try_socket(void)
{
    return socket(AF_INET, SOCK_STREAM, 0) < 0;
}

static int try_exec(void)
{
    char *const none[] = {NULL};
    return execve("/bin/true", none, none);
}

static int try_fork(void)
{
    return (int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static int try_kill(void)
{
    return kill(getppid(), 0);
}

static int try_ptrace(void)
{
    return (int)ptrace(PTRACE_ATTACH, getppid(), 0, 0);
}

static int try_write(void)
{
    return (int)write(STDERR_FILENO, "", 0);
}

static int try_read(void)
{
    char byte;
    return (int)read(STDIN_FILENO, &byte, 0);
}

static int try_memory_file(void)
{
    return memfd_create("x", 0);
}

static int try_new_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
           MAP_FAILED;
}

static int try_protection(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mprotect(page, 4096, PROT_READ | PROT_EXEC);
}

static int try_other_memory(void)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {&byte, 1};
    return (int)process_vm_readv(1, &here, 1, &there, 1, 0);
}

static int try_limits(void)
{
    return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

#ifdef __x86_64__
/* The end of the process, by its number in x32. */
static int try_x32(void)
{
    return (int)syscall(0x40000000 + SYS_exit_group, 0);
}
#endif

static void other_system_calls_kill(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        attempt *run;
    } rows[] = {{"open", try_open},
                {"socket", try_socket},
                {"exec", try_exec},
                {"fork", try_fork},
                {"kill", try_kill},
                {"ptrace", try_ptrace},
                {"write", try_write},
                {"read", try_read},
                {"memfd_create", try_memory_file},
                {"executable memory", try_new_code},
                {"mprotect", try_protection},
                {"process_vm_readv", try_other_memory},
#ifdef __x86_64__
                {"x32", try_x32},
#endif
                {"prctl", try_limits}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int status = confined(MEDIA_SANDBOX_SECCOMP, rows[i].run);
        if (is_missing(status))
            skip_for("no seccomp filter in this kernel");
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
            fail_msg("%s: status %x instead of SIGSYS", rows[i].name, (unsigned)status);
    }
}

/* --- Landlock and limits, alone --------------------------------------------------------------- */

static int open_errno(const char *path, int flags)
{
    errno = 0;
    return open(path, flags, 0600) < 0 ? errno : 0;
}

static int try_files(void)
{
    return open_errno("/etc/passwd", O_RDONLY) == EACCES &&
           open_errno("/dev/shm/shoal-sandbox", O_CREAT | O_RDWR) == EACCES &&
           open_errno("/", O_RDONLY | O_DIRECTORY) == EACCES;
}

static void landlock_denies_files(void **state)
{
    (void)state;
    int status = confined(MEDIA_SANDBOX_LANDLOCK, try_files);
    if (is_missing(status))
        skip_for("no Landlock in this kernel");
    assert_int_equal(status, W_EXITCODE(1, 0));
}

static int try_memory(void)
{
    const size_t sizes[] = {LIMIT_MEDIA_MEMORY_BYTES / 2, LIMIT_MEDIA_MEMORY_BYTES};
    bool got[2];
    for (size_t i = 0; i < 2; i++)
        got[i] = mmap(NULL, sizes[i], PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
    return got[0] && !got[1];
}

static int try_descriptors(void)
{
    int last = 0, opened = 0;
    while (opened < 1000 && last >= 0) {
        last = dup(STDERR_FILENO);
        opened += last >= 0;
    }
    return last < 0 && opened < 20;
}

static void limits_bound_memory_and_descriptors(void **state)
{
    (void)state;
    assert_int_equal(confined(MEDIA_SANDBOX_LIMITS, try_memory), W_EXITCODE(1, 0));
    assert_int_equal(confined(MEDIA_SANDBOX_LIMITS, try_descriptors), W_EXITCODE(1, 0));
}

static int kept; /* a descriptor above standard error */

static int try_kept(void)
{
    return fcntl(kept, F_GETFD) < 0 && errno == EBADF;
}

static void descriptors_are_closed(void **state)
{
    (void)state;
    kept = dup(STDERR_FILENO);
    assert_true(kept > STDERR_FILENO);
    assert_int_equal(confined(0, try_kept), W_EXITCODE(1, 0));
    close(kept);
}

/* --- work ------------------------------------------------------------------------------------- */

static struct mapped_file file;

static int try_decoding(void)
{
    struct image_header header;
    struct image_pixels pixels;
    struct error_text error;
    if (image_decoder_probe(file.bytes, file.byte_count, &header, &error) != RESULT_OK)
        return 2;
    return image_decoder_run(file.bytes, file.byte_count, &header, 0, 0, &pixels, &error) ==
           RESULT_OK;
}

static void every_kind_is_decoded(void **state)
{
    (void)state;
    static const char *const names[] = {
        "rgb-444.jpg",          "progressive.jpg", "cmyk.jpg",   "rgb.png",
        "interlaced-alpha.png", "gray-16.png",     "lossy.webp", "lossless.webp",
        "alpha.webp",           "moving.webp",     "plain.gif",  "interlaced.gif"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[100];
        struct error_text error;
        snprintf(path, sizeof path, GOLDEN "/%s", names[i]);
        assert_int_equal(mapped_file_open(AT_FDCWD, path, &file, &error), RESULT_OK);
        int status = confined(MEDIA_SANDBOX_ALL, try_decoding);
        if (!is_missing(status) && status != W_EXITCODE(1, 0))
            fail_msg("%s: status %x", names[i], (unsigned)status);
        mapped_file_close(&file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_system_calls_kill),
        cmocka_unit_test(landlock_denies_files),
        cmocka_unit_test(limits_bound_memory_and_descriptors),
        cmocka_unit_test(descriptors_are_closed),
        cmocka_unit_test(every_kind_is_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
