/*
 * A tenant belongs to the API key it came with: a client that knows another tenant's name, but not
 * its key, does not share its prefixes. The hash is keyed with a random number, so a worker never
 * sees a key or a name, and two tenants share a salt as rarely as two contents a hash. With
 * --state-dir the number is kept in a file, so that tenants find their saved prefixes after a restart,
 * and prompts with images find saved blocks and features.
 */
#include "frontend/serve/routes/tenant_salt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/log.h"

static const char file_name[] = "tenant-salt";

static bool key_read(int directory, struct keyed_hash_key *key)
{
    struct stat facts;
    int fd = openat(directory, file_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool valid = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size == sizeof *key &&
                 facts.st_uid == geteuid() && read(fd, key, sizeof *key) == sizeof *key;
    close(fd);
    return valid;
}

static void key_write(int directory, const struct keyed_hash_key *key)
{
    (void)unlinkat(directory, file_name, 0);
    int fd =
        openat(directory, file_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, key, sizeof *key) != sizeof *key)
        log_warn("%s in --state-dir cannot be written, so tenants lose their cached prefixes at "
                 "the next restart: %s",
                 file_name, strerror(errno));
    if (fd >= 0)
        close(fd);
}

struct keyed_hash_key tenant_salt_key(int directory)
{
    struct keyed_hash_key key;
    if (directory >= 0 && key_read(directory, &key))
        return key;
    key = keyed_hash_random_key();
    if (directory >= 0)
        key_write(directory, &key);
    return key;
}

struct cache_salt tenant_salt_make(const struct keyed_hash_key *key,
                                   const struct client_key *client, const char *tenant)
{
    static const struct client_key nobody;
    struct cache_salt salt = {{0}};
    if (!tenant && memcmp(client, &nobody, sizeof nobody) == 0)
        return salt;
    struct {
        struct client_key client;
        uint64_t tenant[2];
    } whose = {.client = *client};
    if (tenant)
        keyed_hash_wide(key, tenant, strlen(tenant), whose.tenant);
    uint64_t hash[2];
    keyed_hash_wide(key, &whose, sizeof whose, hash);
    _Static_assert(sizeof hash == sizeof salt, "128 bits");
    memcpy(&salt, hash, sizeof salt);
    return salt;
}
