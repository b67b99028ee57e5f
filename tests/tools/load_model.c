/* Loads a model; prints why it cannot. tests/tools/test_switches.sh links it with implementations that read no GGUF
   files. */
#include "eitp.h"
#include <stdio.h>

int main(int argc, char **argv) {
    const eitp_context_config settings = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_model *model = NULL;
    eitp_error error;
    eitp_status status = eitp_context_create(&settings, &context, &error);
    if (!status)
        status = eitp_model_load(context, argc > 1 ? argv[1] : "", &model, &error);
    if (status)
        printf("%s\n", error.message);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    return status != EITP_OK;
}
