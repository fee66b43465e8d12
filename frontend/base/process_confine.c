/*
 * Limits that nothing can lift again: of descriptors, resources and, by Landlock, of files. The
 * Landlock rights that the running kernel knows depend on its version, so the ruleset is made for
 * that version; a right that it does not know cannot be denied.
 */
#include "frontend/base/process_confine.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

void process_confine_descriptors(int kept_fd)
{
    unsigned first = (unsigned)kept_fd + 1;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, ~0u, 0) == 0)
        return;
#endif
    struct rlimit limit = {.rlim_cur = 1024};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    for (unsigned fd = first; fd < limit.rlim_cur && fd < 65536; fd++)
        (void)close((int)fd);
}

bool process_confine_resources(const struct resource_limit *limits, size_t count)
{
    bool set = true;
    for (size_t i = 0; i < count; i++) {
        rlim_t later = limits[i].resource == RLIMIT_CPU ? 1 : 0;
        struct rlimit limit = {limits[i].most, limits[i].most + later};
        struct rlimit now;
        if (getrlimit((__rlimit_resource_t)limits[i].resource, &now) == 0 &&
            now.rlim_max < limit.rlim_max) {
            limit.rlim_max = now.rlim_max;
            limit.rlim_cur = limit.rlim_cur < now.rlim_max ? limit.rlim_cur : now.rlim_max;
        }
        set = setrlimit((__rlimit_resource_t)limits[i].resource, &limit) == 0 && set;
    }
    return set;
}

/* --- Landlock --------------------------------------------------------------------------------- */

/* As <linux/landlock.h> of Linux 6.12, which a build machine may not have. */
struct landlock_attributes {
    uint64_t files;
    uint64_t network;
    uint64_t scoped;
};
struct landlock_folder {
    uint64_t files;
    int32_t fd;
} __attribute__((packed));
#define LANDLOCK_CREATE       444
#define LANDLOCK_ADD          445
#define LANDLOCK_RESTRICT     446
#define LANDLOCK_VERSION      1u
#define LANDLOCK_BENEATH      1
#define LANDLOCK_EXECUTE      (1u << 0)
#define LANDLOCK_READ_FILE    (1u << 2)
#define LANDLOCK_READ_DIR     (1u << 3)
#define LANDLOCK_READ_EXECUTE (LANDLOCK_EXECUTE | LANDLOCK_READ_FILE)

static void readable_add(int ruleset, const char *path)
{
    int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct landlock_folder rule = {.files = LANDLOCK_READ_EXECUTE | LANDLOCK_READ_DIR,
                                   .fd = folder};
    if (folder < 0) {
        rule = (struct landlock_folder){.files = LANDLOCK_READ_EXECUTE,
                                        .fd = open(path, O_PATH | O_CLOEXEC)};
    }
    if (rule.fd < 0)
        return;
    (void)syscall(LANDLOCK_ADD, ruleset, LANDLOCK_BENEATH, &rule, 0);
    (void)close(rule.fd);
}

bool process_confine_files(const char *const *readable, size_t count)
{
    long version = syscall(LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION);
    if (version < 1)
        return false;
    unsigned file_rights = version >= 5 ? 16 : version >= 3 ? 15 : version >= 2 ? 14 : 13;
    const struct landlock_attributes all = {.files = (1ull << file_rights) - 1,
                                            .network = version >= 4 ? 3 : 0,
                                            .scoped = version >= 6 ? 3 : 0};
    size_t bytes = version >= 6   ? sizeof all
                   : version >= 4 ? offsetof(struct landlock_attributes, scoped)
                                  : offsetof(struct landlock_attributes, network);
    long ruleset = syscall(LANDLOCK_CREATE, &all, bytes, 0);
    if (ruleset < 0)
        return false;
    for (size_t i = 0; i < count; i++)
        readable_add((int)ruleset, readable[i]);
    bool denied = syscall(LANDLOCK_RESTRICT, (int)ruleset, 0) == 0;
    (void)close((int)ruleset);
    return denied;
}
