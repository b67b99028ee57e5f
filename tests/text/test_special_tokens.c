/* Special tokens in checkpoints come from the tokenizer, or else from the token file. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/test.h"

static eitp_error error_;
static char directory[512];

static const char *at(const char *name) {
    return scratch_path(directory, name);
}

static void put(const char *name, const char *text) {
    const eitp_host host = eitp_host_default();
    CHECK_THAT(!eitp__write_file(&host, at(name), text, strlen(text), &error_), "%s", error_.message);
}

/* True if a JSON file has these members. */
static int says(const char *name, const char *members) {
    const eitp_host host = eitp_host_default();
    eitp__buffer text;
    int found;
    eitp__buffer_init(&text, &host);
    found = !eitp__read_file(&host, at(name), 1 << 20, &text, &error_) && strstr(text.data, members) != NULL;
    if (!found)
        printf("    %s: %s\n", name, text.data ? text.data : error_.message);
    eitp__buffer_release(&text);
    return found;
}

/* Creates a byte tokenizer whose tokenizer_config.json names "~" (126) as end and "^" (94) as start of a text. */
static eitp_tokenizer *make_tokenizer(void) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer;
    CHECK(!eitp_tokenizer_create_bytes(&host, &tokenizer, &error_));
    CHECK(!eitp_tokenizer_save(tokenizer, at("tokenizer"), &error_));
    eitp_tokenizer_destroy(tokenizer);
    put("tokenizer/tokenizer_config.json",
        "{\"eos_token\": \"~\", \"bos_token\": \"^\", \"chat_template\": \"{{ x }}\"}");
    CHECK(!eitp_tokenizer_load(&host, at("tokenizer"), &tokenizer, &error_));
    return tokenizer;
}

static eitp_sample_file *pack(const eitp_tokenizer *tokenizer) {
    const eitp_host host = eitp_host_default();
    const char *path = at("text");
    eitp_pack_config config = eitp_pack_config_default();
    eitp_sample_file *file = NULL;
    char packed[600];
    put("text", "one and two and three and four and five and six and seven");
    config.texts.paths = &path;
    config.texts.path_count = 1;
    snprintf(packed, sizeof packed, "%s", at("text.tok"));
    CHECK(!eitp_pack(&host, tokenizer, &config, packed, NULL, &error_));
    CHECK(!eitp_sample_file_open(&host, packed, 0, &file, &error_));
    return file;
}

typedef struct run {
    eitp_context *context;
    eitp_model *model;
    eitp_task task;
    eitp_trainer *trainer;
} run;

/* Source of a run's configuration and weights: a model directory, or NULL for random weights. */
typedef struct origin {
    const char *config, *weights;
} origin;

static eitp_status begin(run *r, origin from, const eitp_sample_file *file, const eitp_tokenizer *tokenizer) {
    eitp_context_config context = eitp_context_config_default();
    eitp_trainer_config config = eitp_trainer_config_default();
    const eitp_host host = eitp_host_default();
    eitp_language_config language;
    eitp_token_range all;
    eitp_transformer_config shape;
    eitp_status status;
    memset(r, 0, sizeof *r);
    context.threads = 1;
    context.precision = "fp32";
    status = eitp_context_create(&context, &r->context, &error_);
    if (!status)
        status = from.config ? eitp_model_config_read(&host, from.config, &shape, &error_)
                             : eitp_transformer_config_named("tiny", &shape, &error_);
    if (!from.config) {
        shape.vocabulary = 257;
        shape.positions = shape.width = shape.inner = 8;
        shape.layers = shape.heads = 1;
    }
    if (!status)
        status = eitp_model_create(r->context, &shape, &r->model, &error_);
    if (!status)
        status = from.weights ? eitp_model_load_weights(r->model, from.weights, &error_)
                              : eitp_model_initialize(r->model, 1, &error_);
    all.first = 0;
    all.count = eitp_sample_file_get_info(file).token_count;
    config.grad_accum = 1;
    memset(&language, 0, sizeof language);
    language.model = r->model;
    language.training = eitp_sample_file_token_source(file, all);
    language.block_size = 8;
    language.tokenizer = tokenizer;
    if (!status)
        status = eitp_language_task(&language, &r->task, &error_);
    return status ? status : eitp_trainer_create(&r->task, &config, &r->trainer, &error_);
}

static void end(run *r) {
    eitp_trainer_destroy(r->trainer);
    eitp_task_release(&r->task);
    eitp_model_destroy(r->model);
    eitp_context_destroy(r->context);
}

static eitp_status step_and_save(run *r, const char *output) {
    eitp_step_report report;
    eitp_status status = eitp_trainer_step(r->trainer, &report, &error_);
    return status ? status : eitp_trainer_save(r->trainer, output, &error_);
}

static void checkpoints_have_the_tokenizers_special_tokens(void) {
    eitp_tokenizer *tokenizer;
    eitp_sample_file *file;
    origin from = EITP__ZERO;
    run r;
    REQUIRE(scratch_make(directory));
    tokenizer = make_tokenizer();
    file = pack(tokenizer);
    REQUIRE_OK(begin(&r, from, file, tokenizer), error_);
    REQUIRE_OK(step_and_save(&r, at("out")), error_);
    CHECK(says("out/checkpoint-1/config.json", "\"bos_token_id\": 94,\n  \"eos_token_id\": 126,\n"));
    CHECK(says("out/checkpoint-1/generation_config.json", "\"bos_token_id\": 94,\n  \"eos_token_id\": 126,\n"));
    CHECK(says("out/checkpoint-1/tokenizer_config.json", "\"eos_token\": \"~\",\n\"bos_token\": \"^\",\n"));
    CHECK(says("out/checkpoint-1/tokenizer_config.json", "\"chat_template\": \"{{ x }}\""));
    end(&r);
    eitp_sample_file_close(file);
    eitp_tokenizer_destroy(tokenizer);
    scratch_remove(directory);
}

/* The end-of-text id is known from a token file even without its tokenizer. GPT-2's 50256 is outside this
   vocabulary. */
static void checkpoints_have_the_token_files_end_of_text(void) {
    eitp_tokenizer *tokenizer;
    eitp_sample_file *file;
    origin from = EITP__ZERO;
    run r;
    REQUIRE(scratch_make(directory));
    tokenizer = make_tokenizer();
    file = pack(tokenizer);
    REQUIRE_OK(begin(&r, from, file, NULL), error_);
    REQUIRE_OK(step_and_save(&r, at("out")), error_);
    CHECK(says("out/checkpoint-1/config.json", "\"eos_token_id\": 126,\n"));
    CHECK(says("out/checkpoint-1/generation_config.json", "\"eos_token_id\": 126,\n"));
    end(&r);
    eitp_sample_file_close(file);
    eitp_tokenizer_destroy(tokenizer);
    scratch_remove(directory);
}

/* Settings in generation_config.json survive training from a model directory, and resuming. */
static void generation_settings_survive_training_and_resume(void) {
    static const char expected[] = "{\n  \"top_k\": 7,\n  \"bos_token_id\": 94,\n  \"eos_token_id\": [126, 10],\n";
    eitp_tokenizer *tokenizer;
    eitp_sample_file *file;
    origin from = EITP__ZERO;
    run r;
    REQUIRE(scratch_make(directory));
    tokenizer = make_tokenizer();
    file = pack(tokenizer);
    REQUIRE_OK(begin(&r, from, file, NULL), error_);
    REQUIRE_OK(eitp_model_save(r.model, at("model"), &error_), error_);
    end(&r);
    put("model/generation_config.json", "{\"eos_token_id\": [126, 10], \"top_k\": 7}");
    from.config = from.weights = at("model");
    REQUIRE_OK(begin(&r, from, file, tokenizer), error_);
    REQUIRE_OK(step_and_save(&r, at("out")), error_);
    end(&r);
    CHECK(says("out/checkpoint-1/generation_config.json", expected));
    /* Resume like the command, which loads the weights with the state. */
    from.config = at("out/checkpoint-1");
    from.weights = NULL;
    REQUIRE_OK(begin(&r, from, file, tokenizer), error_);
    REQUIRE_OK(eitp_trainer_resume(r.trainer, at("out/checkpoint-1"), &error_), error_);
    REQUIRE_OK(step_and_save(&r, at("out")), error_);
    end(&r);
    CHECK(says("out/checkpoint-2/generation_config.json", expected));
    eitp_sample_file_close(file);
    eitp_tokenizer_destroy(tokenizer);
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(checkpoints_have_the_tokenizers_special_tokens),
        TEST(checkpoints_have_the_token_files_end_of_text),
        TEST(generation_settings_survive_training_and_resume),
    };
    return RUN_TESTS(tests, argc, argv);
}
