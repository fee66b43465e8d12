/*
 * What formats share about the start of a reply.
 */
#include "frontend/api/generation/api_format.h"
#include "frontend/api/generation/prepared_generation.h"
#include "frontend/assets/adapter_set.h"

const char *reply_config_model(const struct reply_config *config)
{
    const struct adapter *adapter = config->prepared->request.adapter;
    return adapter ? adapter->name : config->assets->model_id;
}
