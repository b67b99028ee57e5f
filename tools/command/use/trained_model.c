#include "use/trained_model.h"

#include "model/adapt.h"
#include "model/model.h"
#include "output.h"

const char *trained_model_checkpoint(const trained_model *m) {
    return m->adapter ? m->adapter : m->directory;
}

/* That of --tokenizer, else of --model, of the weights, or of the adapters. */
static eitp_status load_tokenizer(const option_set *o, trained_model *m, eitp_error *error) {
    const char *const directories[] = {m->directory, m->base, m->adapter};
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < COMMAND_COUNT(directories) && !status && !m->tokenizer; i++)
        status = model_load_tokenizer(options_text(o, OPTION_TOKENIZER), directories[i], &m->tokenizer, error);
    return status;
}

typedef eitp_status (*admission)(void *user, const char *base, const char *adapter, eitp_error *error);

static eitp_status open_once(const option_set *o, trained_model *m, admission admit, void *user, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (options_has(o, OPTION_MODEL))
        status = model_find_directory(options_text(o, OPTION_MODEL), &m->directory, error);
    if (!status)
        status = adapt_find_model(o, m->directory, &m->base, &m->adapter, error);
    if (!status)
        status = load_tokenizer(o, m, error);
    if (!status)
        status = model_create_context(o, &m->context, error);
    if (!status && admit)
        status = admit(user, m->base, m->adapter, error);
    return status ? status : adapt_load(m->context, m->base, m->adapter, &m->model, error);
}

eitp_status trained_model_check_language(const trained_model *m, eitp_error *error) {
    const eitp_transformer_config config = eitp_model_config(m->model);
    return model_check_language(&config, m->base, error);
}

eitp_status trained_model_open_if(const option_set *o, trained_model *m, admission admit,
                                  eitp_status (*read)(void *user, eitp_error *error), void *user, eitp_error *error) {
    const char *model = options_text(o, OPTION_MODEL), *adapter = options_text(o, OPTION_ADAPTER);
    int attempts = 0;
    for (;;) {
        eitp_status status;
        output_progress("loading the model ...");
        status = open_once(o, m, admit, user, error);
        if (!status && read)
            status = read(user, error);
        if (!status || !(model_read_again(model, m->directory, &attempts, error) ||
                         model_read_again(adapter, m->adapter, &attempts, error)))
            return status ? error->status : EITP_OK;
        trained_model_close(m);
    }
}

eitp_status trained_model_open(const option_set *o, trained_model *m,
                               eitp_status (*read)(void *user, eitp_error *error), void *user, eitp_error *error) {
    return trained_model_open_if(o, m, NULL, read, user, error);
}

void trained_model_close(trained_model *m) {
    eitp_model_destroy(m->model);
    eitp_tokenizer_destroy(m->tokenizer);
    eitp_context_destroy(m->context);
    free(m->directory);
    free(m->base);
    free(m->adapter);
    memset(m, 0, sizeof *m);
}
