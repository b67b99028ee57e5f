/* eitp export: writes a model as a GGUF file. */
#include "files.h"
#include "options/table.h"
#include "output.h"
#include "result_file.h"
#include "use/modelfile.h"
#include "use/trained_model.h"

#include <stdlib.h>

typedef struct exporting {
    option_set options;
    trained_model trained;
    char type[16];
} exporting;

static int is_adapter_only(const exporting *x) {
    return options_integer(&x->options, OPTION_ADAPTER_ONLY) != 0;
}

/* Sets the type of the file. */
static eitp_status exporting_choose_type(exporting *x, eitp_error *error) {
    const int is_named = x->options.values[OPTION_TYPE].source != SOURCE_DEFAULT;
    option_choice_name(option_of(OPTION_TYPE)->words, options_choice(&x->options, OPTION_TYPE), x->type,
                       sizeof x->type);
    if (!is_adapter_only(x))
        return EITP_OK;
    if (is_named && strcmp(x->type, "f32"))
        return command_fail(error, EITP_ERROR_ARGUMENT, "--adapter-only writes f32; leave out --type");
    if (options_integer(&x->options, OPTION_MODELFILE))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--modelfile describes a whole model; leave out --adapter-only");
    snprintf(x->type, sizeof x->type, "f32");
    return EITP_OK;
}

static eitp_status exporting_check(exporting *x, eitp_error *error) {
    eitp_status status = options_require(&x->options, OPTION_OUTPUT, error);
    if (!status && is_adapter_only(x))
        status = options_require(&x->options, OPTION_ADAPTER, error);
    if (!status && !options_has(&x->options, OPTION_MODEL) && !options_has(&x->options, OPTION_ADAPTER))
        status = options_require(&x->options, OPTION_MODEL, error);
    return status ? status : exporting_choose_type(x, error);
}

/* Merges adapters and writes the model, and its Modelfile. */
static eitp_status exporting_write_model(const exporting *x, const char *path, eitp_error *error) {
    const trained_model *t = &x->trained;
    eitp_export_config config = eitp_export_config_default();
    eitp_status status = EITP_OK;
    config.type = x->type;
    if (!t->tokenizer)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "'%s' has no tokenizer; pass its directory with --tokenizer",
                              t->directory);
    if (!status)
        status = eitp_model_check_head(t->model, error);
    if (!status && t->adapter)
        status = eitp_model_merge_lora(t->model, error);
    if (!status)
        status = eitp_model_export(t->model, t->tokenizer, path, &config, error);
    return status || !options_integer(&x->options, OPTION_MODELFILE) ? status
                                                                     : modelfile_write(t->tokenizer, path, error);
}

static eitp_status exporting_write(exporting *x, eitp_error *error) {
    char *path;
    eitp_status status;
    /* Weights in 16 bits would be rounded a second time. */
    options_set_text(&x->options, OPTION_PRECISION, "fp32", SOURCE_DEFAULT);
    status = trained_model_read_within(&x->options, &x->trained, error);
    if (status)
        return status;
    path = result_file_target(options_text(&x->options, OPTION_OUTPUT), error);
    if (!path)
        return error->status;
    status =
        is_adapter_only(x) ? eitp_lora_export(x->trained.model, path, error) : exporting_write_model(x, path, error);
    free(path);
    return status;
}

static void exporting_print(const exporting *x) {
    const trained_model *trained = &x->trained;
    const char *output = options_text(&x->options, OPTION_OUTPUT);
    const uint64_t size = files_info(output).size;
    const char *kind = !trained->adapter ? "" : is_adapter_only(x) ? ": only its adapters" : " with its adapters";
    text_buffer t = {NULL, 0, 0};
    char bytes[32];
    if (options_integer(&x->options, OPTION_JSON)) {
        text_format(&t, "{");
        text_json_member_string(&t, "model", trained->base);
        if (trained->adapter)
            text_json_member_string(&t, "adapter", trained->adapter);
        text_json_member_string(&t, "file", output);
        text_json_member_string(&t, "type", x->type);
        text_json_member_integer(&t, "bytes", (int64_t)size);
        text_format(&t, "}\n");
    } else {
        text_format(&t, "wrote '%s'%s, %s: %s, %s\n", trained->base, kind, x->type, output,
                    eitp_format_bytes(size, bytes, sizeof bytes));
    }
    output_result(t.data, t.size);
    text_release(&t);
}

int command_export(int count, char **arguments) {
    exporting x;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    memset(&x, 0, sizeof x);
    status = options_read(&x.options, "export", OPTIONS_EXPORT, count, arguments, &ended, &error);
    if (!status && !ended && options_integer(&x.options, OPTION_PRINT_CONFIG)) {
        options_print(&x.options, (int)options_integer(&x.options, OPTION_JSON));
        ended = 1;
    }
    if (!status && !ended)
        status = exporting_check(&x, &error);
    if (!status && !ended)
        status = exporting_write(&x, &error);
    if (!status && !ended)
        exporting_print(&x);
    if (status)
        code = output_fail(&error);
    trained_model_close(&x.trained);
    options_release(&x.options);
    return code;
}
