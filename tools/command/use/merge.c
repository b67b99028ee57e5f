/* eitp merge: adds adapters to the weights of their base model. */
#include "model/model.h"
#include "output.h"
#include "use/trained_model.h"

typedef struct merging {
    option_set options;
    trained_model trained;
} merging;

static eitp_status merging_check(const merging *m, eitp_error *error) {
    eitp_status status = options_require(&m->options, OPTION_ADAPTER, error);
    return status ? status : options_require(&m->options, OPTION_OUTPUT_DIR, error);
}

/* Loads the model, merges the adapters and writes the result. */
static eitp_status merging_fill(void *user, const char *directory, eitp_error *error) {
    merging *m = (merging *)user;
    trained_model *t = &m->trained;
    eitp_save_config config = eitp_save_config_default();
    eitp_status status;
    /* Merging in 16 bits would round the weights a second time. */
    options_set_text(&m->options, OPTION_PRECISION, "fp32", SOURCE_DEFAULT);
    config.dtype = (eitp_save_dtype)options_choice(&m->options, OPTION_SAVE_DTYPE);
    status = trained_model_read_within(&m->options, t, error);
    if (!status)
        status = eitp_model_check_head(t->model, error);
    if (!status)
        status = eitp_model_merge_lora(t->model, error);
    if (!status && t->tokenizer)
        eitp_model_set_special_tokens(t->model, eitp_tokenizer_special(t->tokenizer, EITP_BEGIN_OF_TEXT),
                                      eitp_tokenizer_special(t->tokenizer, EITP_END_OF_TEXT),
                                      eitp_tokenizer_special(t->tokenizer, EITP_PADDING));
    if (!status)
        status = eitp_model_save_with(t->model, directory, &config, error);
    return status || !t->tokenizer ? status : eitp_tokenizer_save(t->tokenizer, directory, error);
}

static void merging_print(const merging *m) {
    const trained_model *trained = &m->trained;
    const char *output = options_text(&m->options, OPTION_OUTPUT_DIR);
    eitp_lora_config lora = eitp_model_lora_config(trained->model);
    text_buffer t = {NULL, 0, 0};
    if (options_integer(&m->options, OPTION_JSON)) {
        text_format(&t, "{");
        text_json_member_string(&t, "model", trained->base);
        text_json_member_string(&t, "adapter", trained->adapter);
        text_json_member_string(&t, "directory", output);
        text_json_member_integer(&t, "rank", lora.rank);
        text_json_member_integer(&t, "parameters", eitp_model_parameter_count(trained->model));
        text_format(&t, "}\n");
    } else {
        text_format(&t, "merged the adapters of '%s' (rank %lld) into the weights of '%s': %s\n", trained->adapter,
                    (long long)lora.rank, trained->base, output);
    }
    output_result(t.data, t.size);
    text_release(&t);
}

int command_merge(int count, char **arguments) {
    merging m;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    memset(&m, 0, sizeof m);
    status = options_read(&m.options, "merge", OPTIONS_MERGE, count, arguments, &ended, &error);
    if (!status && !ended && options_integer(&m.options, OPTION_PRINT_CONFIG)) {
        options_print(&m.options, (int)options_integer(&m.options, OPTION_JSON));
        ended = 1;
    }
    if (!status && !ended)
        status = merging_check(&m, &error);
    if (!status && !ended)
        status = model_create_directory(&m.options, OPTION_OUTPUT_DIR, merging_fill, &m, &error);
    if (!status && !ended)
        merging_print(&m);
    if (status)
        code = output_fail(&error);
    trained_model_close(&m.trained);
    options_release(&m.options);
    return code;
}
