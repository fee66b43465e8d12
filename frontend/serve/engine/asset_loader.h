/*
 * Opens model assets on its own thread, so that the server answers at once.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_ASSET_LOADER_H
#define SHOAL_FRONTEND_SERVE_ENGINE_ASSET_LOADER_H

#include "frontend/assets/model_assets.h"

struct event_base;
struct asset_loader;

struct asset_loader_config {
    struct event_base *base;
    struct model_assets_options assets;
    void *context;
    /* Called once, from the loop. `assets` belongs to the loader and lives as long; `error` is set
     * unless RESULT_OK. */
    void (*done)(void *context, enum result result, struct model_assets *assets,
                 const struct error_text *error);
};

struct asset_loader *asset_loader_create(const struct asset_loader_config *config);
/* Waits for the thread (some seconds at most); closes the assets. */
void asset_loader_destroy(struct asset_loader *loader);

#endif
