/*
 * The environment variables of Hugging Face's tools. They state where the shared cache is, which hub
 * is used, and the access token; options of the same meaning come first.
 */
#ifndef SHOAL_FRONTEND_SERVE_SETTINGS_HUB_ENVIRONMENT_H
#define SHOAL_FRONTEND_SERVE_SETTINGS_HUB_ENVIRONMENT_H

/* The value, or NULL if the variable is not set or empty. */
const char *hub_environment_value(const char *variable);

#endif
