/* eitp pack: writes text as a token file. */
#include "data/data.h"
#include "files.h"
#include "model/model.h"
#include "output.h"
#include "process.h"
#include "result_file.h"

static void print_info(const option_set *o, const char *path, const eitp_sample_file_info *info) {
    text_buffer t = {NULL, 0, 0};
    double bytes_per_token = (double)info->text_bytes / (double)info->token_count;
    if (options_integer(o, OPTION_JSON)) {
        text_format(&t, "{");
        text_json_member_string(&t, "output", path);
        text_json_member_integer(&t, "tokens", (int64_t)info->token_count);
        text_json_member_integer(&t, "documents", (int64_t)info->document_count);
        text_json_member_integer(&t, "end_of_text", info->end_of_text);
        text_json_member_integer(&t, "text_bytes", (int64_t)info->text_bytes);
        text_json_member_integer(&t, "invalid_bytes", (int64_t)info->invalid_bytes);
        text_json_member_number(&t, "bytes_per_token", bytes_per_token);
        text_json_member_number(&t, "unigram_entropy", info->unigram_entropy);
        text_format(&t, "}\n");
    } else {
        text_format(&t,
                    "%s: %llu tokens in %llu document%s, %.3f bytes per token, unigram entropy %.4f nats per token\n",
                    path, (unsigned long long)info->token_count, (unsigned long long)info->document_count,
                    info->document_count == 1 ? "" : "s", bytes_per_token, info->unigram_entropy);
    }
    output_result(t.data, t.size);
    text_release(&t);
}

static eitp_status pack(const option_set *o, eitp_error *error) {
    const eitp_host host = command_host();
    const char *path = options_text(o, OPTION_OUTPUT);
    eitp_tokenizer *tokenizer = NULL;
    eitp_sample_file_info info;
    char *target = NULL;
    int is_token_file;
    eitp_status status = options_require(o, OPTION_DATA, error);
    if (!status)
        status = options_require(o, OPTION_OUTPUT, error);
    if (!status)
        status = data_is_token_file(o, OPTION_DATA, &is_token_file, error);
    if (!status && is_token_file)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "'%s' is already a token file; name text files",
                              options_text(o, OPTION_DATA));
    if (!status)
        status = model_load_tokenizer(options_text(o, OPTION_TOKENIZER), NULL, &tokenizer, error);
    if (!status && !tokenizer)
        status = model_use_bytes(&tokenizer, error);
    if (!status && !(target = result_file_target(path, error)))
        status = error->status;
    if (!status)
        status = data_pack(&host, o, OPTION_DATA, tokenizer, target, &info, error);
    if (!status) {
        output_start();
        print_info(o, path, &info);
    }
    free(target);
    eitp_tokenizer_destroy(tokenizer);
    return status;
}

int command_pack(int count, char **arguments) {
    option_set o;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    process_catch_signals();
    status = options_read(&o, "pack", OPTIONS_PACK, count, arguments, &ended, &error);
    if (!status && !ended && options_integer(&o, OPTION_PRINT_CONFIG))
        options_print(&o, (int)options_integer(&o, OPTION_JSON));
    else if (!status && !ended)
        status = pack(&o, &error);
    if (status)
        code = output_fail(&error);
    if (status == EITP_ERROR_INTERRUPTED && process_stop_signal())
        code = 128 + process_stop_signal();
    options_release(&o);
    return code;
}
