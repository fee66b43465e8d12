/*
 * Reads the environment (contract in hub_environment.h).
 */
#include "frontend/serve/settings/hub_environment.h"

#include <stdlib.h>

const char *hub_environment_value(const char *variable)
{
    const char *value = secure_getenv(variable);
    return value && value[0] ? value : NULL;
}
