#include "model/model.h"

#include "files.h"
#include "model/hub.h"
#include "output.h"

/* Warns of a damaged checkpoint. A checkpoint named by its own path is not verified when it is found, unlike those of
   an output directory. It is still used: its weights may have been changed on purpose. */
static void report_damage(const char *directory) {
    const eitp_host host = command_host();
    eitp_error error;
    if ((files_is_file(directory, "manifest.json") || files_is_file(directory, "trainer_state.json")) &&
        eitp_checkpoint_verify(&host, directory, &error) == EITP_ERROR_FORMAT &&
        files_info(directory).kind == EITP_PATH_DIRECTORY)
        output_warning("%s; using it anyway", error.message);
}

eitp_status model_find_directory(const char *path, char **directory, eitp_error *error) {
    const eitp_host host = command_host();
    const int is_missing = files_info(path).kind == EITP_PATH_MISSING;
    char found[MODEL_PATH_SIZE], *cached = is_missing ? hub_find(path) : NULL;
    eitp_status status =
        eitp_run_find_checkpoint(&host, cached ? cached : path, EITP_RUN_BEST, found, sizeof found, error);
    *directory = status ? NULL : command_copy(found);
    if (!status && cached)
        output_info("using model '%s' from the hub's cache: '%s'", path, cached);
    if (!status && !strcmp(path, found))
        report_damage(found);
    if (status == EITP_ERROR_ARGUMENT && is_missing)
        hub_add_hint(path, error);
    free(cached);
    return status;
}

eitp_status model_add_hint(eitp_status status, eitp_error *error) {
    static const char *const advice[] = {"start from its weights", "load the right weights"};
    const size_t size = strlen(error->message);
    for (size_t i = 0; i < COMMAND_COUNT(advice) && status; i++) {
        const size_t length = strlen(advice[i]);
        if (size >= length && !strcmp(error->message + size - length, advice[i]))
            snprintf(error->message + size, sizeof error->message - size, " with --model");
    }
    return status;
}

int model_read_again(const char *given, const char *directory, int *attempts, eitp_error *error) {
    if (!given || !directory || files_info(directory).kind != EITP_PATH_MISSING)
        return 0;
    if (strcmp(given, directory))
        return ++*attempts < MODEL_ATTEMPTS;
    command_fail(error, EITP_ERROR_ARGUMENT,
                 "'%s' was removed while it was being read: a run training there keeps only its newest checkpoints; "
                 "pass the output directory, or best_model or latest_model in it",
                 directory);
    return 0;
}

eitp_status model_read_directory(const char *given, char **directory,
                                 eitp_status (*read)(void *user, const char *directory, eitp_error *error), void *user,
                                 eitp_error *error) {
    int attempts = 0;
    for (;;) {
        eitp_status status = *directory ? EITP_OK : model_find_directory(given, directory, error);
        if (!status)
            status = read(user, *directory, error);
        if (!status || !model_read_again(given, *directory, &attempts, error))
            return status ? error->status : EITP_OK;
        free(*directory);
        *directory = NULL;
    }
}

/* "cpu-avx512-openblas.SkylakeX", with or without "-" and a precision, gives isa "avx512" and products "openblas". All
   other products are eitp's own. */
static void read_numerics(const char *numerics, char *isa, size_t size, const char **products) {
    const char *first = strchr(numerics, '-'), *second = first ? strchr(first + 1, '-') : NULL;
    *isa = 0;
    *products = NULL;
    if (!second)
        return;
    snprintf(isa, size, "%.*s", (int)(second - first - 1), first + 1);
    *products = strncmp(second + 1, "openblas", 8) ? "own" : "openblas";
}

eitp_context_config model_context_config(const option_set *o, const char *numerics, char isa[MODEL_ISA_SIZE]) {
    static const char *const precisions[] = {"auto", "fp32", "bf16", "fp16"};
    eitp_context_config config = eitp_context_config_default();
    config.host = command_host();
    config.device = options_text(o, OPTION_DEVICE);
    config.threads = (int)options_integer(o, OPTION_THREADS);
    config.allow_tf32 = (int)options_integer(o, OPTION_TF32);
    config.precision = precisions[options_choice(o, OPTION_PRECISION)];
    config.parameters = EITP_PARAMETERS_ROUNDED;
    *isa = 0;
    if (numerics && !strncmp(numerics, "cpu-", 4)) {
        read_numerics(numerics, isa, MODEL_ISA_SIZE, &config.products);
        config.isa = *isa ? isa : NULL;
    }
    return config;
}

eitp_status model_create_context(const option_set *o, eitp_context **context, eitp_error *error) {
    char isa[MODEL_ISA_SIZE];
    const eitp_context_config config = model_context_config(o, NULL, isa);
    eitp_status status = eitp_context_create(&config, context, error);
    if (!status)
        model_warn_null(*context);
    return status;
}

void model_warn_null(const eitp_context *context) {
    if (!strncmp(eitp_context_description(context), "null", 4))
        output_warning("the backend is null, which computes nothing: all losses are 0; unset EITP_BACKEND");
}

int model_has_tokenizer(const char *directory) {
    return files_is_gguf(directory) || files_is_file(directory, "tokenizer.json") ||
           files_is_file(directory, "vocab.txt") ||
           (files_is_file(directory, "vocab.json") && files_is_file(directory, "merges.txt"));
}

static eitp_status load_found_tokenizer(void *tokenizer, const char *directory, eitp_error *error) {
    const eitp_host host = command_host();
    return eitp_tokenizer_load(&host, directory, (eitp_tokenizer **)tokenizer, error);
}

int model_is_bytes(const char *tokenizer) {
    return !strcmp(tokenizer, "bytes");
}

eitp_status model_load_tokenizer(const char *given, const char *directory, eitp_tokenizer **tokenizer,
                                 eitp_error *error) {
    const eitp_host host = command_host();
    const int is_directory = given && files_info(given).kind == EITP_PATH_DIRECTORY;
    char *found = NULL;
    eitp_status status = EITP_OK;
    *tokenizer = NULL;
    if (given && model_is_bytes(given))
        return eitp_tokenizer_create_bytes(&host, tokenizer, error);
    if (given && files_info(given).kind == EITP_PATH_MISSING)
        return command_fail(error, EITP_ERROR_ARGUMENT, "no tokenizer at '%s'; pass a directory or a tokenizer.json",
                            given);
    /* The tokenizers of an output directory are in its checkpoints. */
    if (is_directory && !model_has_tokenizer(given))
        status = model_read_directory(given, &found, load_found_tokenizer, tokenizer, error);
    if (given && !found)
        status = eitp_tokenizer_load(&host, given, tokenizer, error);
    else if (directory && model_has_tokenizer(directory))
        status = eitp_tokenizer_load(&host, directory, tokenizer, error);
    free(found);
    return status;
}

eitp_status model_create_directory(const option_set *o, option_id id,
                                   eitp_status (*fill)(void *user, const char *directory, eitp_error *error),
                                   void *user, eitp_error *error) {
    /* A tokenizer can be loaded from any of these lists of files. The last two make a directory a model. */
    static const char *const names[] = {
        "tokenizer_config.json",  "tokenizer.json", "vocab.json",       "merges.txt", "vocab.txt",
        "generation_config.json", "config.json",    "model.safetensors"};
    enum { OF_TOKENIZER = 5 };
    const eitp_host host = command_host();
    eitp_directory_config config;
    eitp_status status;
    config.fill = fill;
    config.user = user;
    config.names = names;
    config.name_count = id == OPTION_OUTPUT_DIR ? COMMAND_COUNT(names) : OF_TOKENIZER;
    status = eitp_directory_create(&host, options_text(o, id), &config, error);
    if (status == EITP_ERROR_ARGUMENT && strstr(error->message, "choose another")) {
        const size_t used = strlen(error->message);
        snprintf(error->message + used, sizeof error->message - used, " (--%s)", options_name(id));
    }
    return status;
}

eitp_status model_check_language(const eitp_transformer_config *config, const char *name, eitp_error *error) {
    const char *type = eitp_architecture_name(config->architecture);
    if (eitp_head_has_labels(config->head))
        return command_fail(error, EITP_ERROR_UNSUPPORTED,
                            "'%s' is a %s classifier, expected a language model; use 'eitp predict' for its labels",
                            name, type);
    if (config->bidirectional)
        return command_fail(
            error, EITP_ERROR_UNSUPPORTED,
            "'%s' is a %s model, which does not predict the next token; use a causal model such as gpt2", name, type);
    return EITP_OK;
}

eitp_status model_use_bytes(eitp_tokenizer **tokenizer, eitp_error *error) {
    const eitp_host host = command_host();
    output_info("no tokenizer: the tokens are bytes (0 to 255) and end-of-text (256)");
    return eitp_tokenizer_create_bytes(&host, tokenizer, error);
}

eitp_status model_check_tokenizer(const eitp_tokenizer *tokenizer, const eitp_sample_file *file, int64_t vocabulary,
                                  eitp_error *error) {
    eitp_sample_file_info info;
    if (eitp_tokenizer_size(tokenizer) > vocabulary)
        return command_fail(
            error, EITP_ERROR_ARGUMENT,
            "the tokenizer has %d tokens, more than the model's vocabulary of %lld; use the model's own tokenizer, or "
            "with --init set --vocab-size %d",
            (int)eitp_tokenizer_size(tokenizer), (long long)vocabulary, (int)eitp_tokenizer_size(tokenizer));
    if (!file)
        return EITP_OK;
    info = eitp_sample_file_get_info(file);
    if (info.kind == EITP_SAMPLE_FILE_TOKENS && info.tokenizer_fingerprint != eitp_tokenizer_fingerprint(tokenizer))
        return command_fail(
            error, EITP_ERROR_ARGUMENT,
            "the token file was packed with another tokenizer; pack it again, or name its own with --tokenizer");
    /* The tokenizers are the same except for their end-of-text. */
    if (info.kind == EITP_SAMPLE_FILE_TOKENS && info.end_of_text != eitp_tokenizer_end_of_text(tokenizer))
        output_warning("the token file ends documents with token %d, but the tokenizer's end-of-text is %d (-1: none); "
                       "pack the text again to use the tokenizer's",
                       (int)info.end_of_text, (int)eitp_tokenizer_end_of_text(tokenizer));
    return EITP_OK;
}

int64_t model_block_size(const option_set *o, const char *directory, int64_t positions) {
    const eitp_host host = command_host();
    eitp_checkpoint_info info;
    int64_t size = 64;
    if (options_has(o, OPTION_BLOCK_SIZE))
        size = options_integer(o, OPTION_BLOCK_SIZE);
    else if (directory && files_is_file(directory, "trainer_state.json") &&
             !eitp_checkpoint_read_info(&host, directory, &info, NULL))
        size = info.rows;
    else if (size > positions)
        size = positions;
    return size ? size : positions;
}

eitp_status model_check_block_size(const option_set *o, int64_t positions, eitp_error *error) {
    if (options_integer(o, OPTION_BLOCK_SIZE) <= positions)
        return EITP_OK;
    return command_fail(error, EITP_ERROR_ARGUMENT,
                        "--block-size must be from 1 to the model's %lld positions (got %lld)", (long long)positions,
                        (long long)options_integer(o, OPTION_BLOCK_SIZE));
}
