/* Keys of config.json. Each has the same meaning as in transformers, or is refused by name. Keys that eitp does not
   use are kept. */
#define GOLDEN "tests/golden/"
#include "tests/support/golden_models.h"

/* ---- Changed configurations ---- */

static int has_text(const eitp_json *list, const eitp_json *member) {
    for (const eitp_json *text = list->first_child; text; text = text->next) {
        if (text->text_size == member->name_size && !memcmp(text->text, member->name, text->text_size))
            return 1;
    }
    return 0;
}

static void add_member(eitp__buffer *text, const eitp_json *member) {
    eitp__buffer_add_text(text, text->size > 1 ? ", " : "");
    eitp__json_write_text(text, member->name, member->name_size);
    eitp__buffer_add_text(text, ": ");
    eitp__json_write_value(text, member);
}

static eitp_json_document *read_json(const char *path) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document = NULL;
    CHECK_THAT(!eitp_json_read_file(&host, path, 1 << 20, &document, &error_), "%s", error_.message);
    return document;
}

static void copy_file(const char *from, const char *to) {
    const eitp_host host = eitp_host_default();
    eitp__buffer bytes;
    eitp__buffer_init(&bytes, &host);
    CHECK_THAT(!eitp__read_file(&host, from, 1 << 20, &bytes, &error_), "%s", error_.message);
    CHECK_THAT(!eitp__write_file(&host, to, bytes.data, bytes.size, &error_), "%s", error_.message);
    eitp__buffer_release(&bytes);
}

/* Writes the model of a case into a directory, with the case's config.json. */
static void write_case(const eitp_json *test, const char *directory) {
    const eitp_host host = eitp_host_default();
    const char *model = eitp_json_member(test, "model")->text;
    const eitp_json *set = eitp_json_member(test, "set"), *removed = eitp_json_member(test, "removed");
    eitp_json_document *config;
    eitp__buffer text;
    char path[300];
    snprintf(path, sizeof path, GOLDEN "%s/model.safetensors", model);
    copy_file(path, scratch_path(directory, "model.safetensors"));
    snprintf(path, sizeof path, GOLDEN "%s/config.json", model);
    config = read_json(path);
    eitp__buffer_init(&text, &host);
    eitp__buffer_add_text(&text, "{");
    for (const eitp_json *member = eitp_json_root(config)->first_child; member; member = member->next) {
        if (!has_text(removed, member) && !eitp_json_member(set, member->name))
            add_member(&text, member);
    }
    for (const eitp_json *member = set->first_child; member; member = member->next)
        add_member(&text, member);
    eitp__buffer_add_text(&text, "}");
    CHECK(!eitp__write_file(&host, scratch_path(directory, "config.json"), text.data, text.size, &error_));
    eitp__buffer_release(&text);
    eitp_json_release(config);
}

/* Checks the loss of the model in a directory on the batch of a golden model. */
static void check_loss(const char *directory, const char *model, double expected, const char *what) {
    golden g;
    pass p;
    float loss = 0;
    REQUIRE(open_model(&g, directory, model, NULL));
    REQUIRE(make_pass(&g, &p, 0));
    run_pass(&g, &p);
    CHECK(!eitp_plan_read(p.plan, p.loss, &loss, sizeof loss, &error_));
    CHECK_THAT(fabs((double)loss / expected - 1) < 1e-5, "%s: loss %.6f, not %.6f", what, (double)loss, expected);
    release_pass(&p);
    close_golden(&g);
}

static void check_saved_loss(const char *directory, const char *model, double expected, const char *what) {
    char saved[512];
    golden g;
    REQUIRE(scratch_make(saved));
    REQUIRE(open_model(&g, directory, model, NULL));
    REQUIRE_OK(eitp_model_save(g.model, saved, &error_), error_);
    close_golden(&g);
    check_loss(saved, model, expected, what);
    scratch_remove(saved);
}

static void check_refused(const char *directory, const char *words, const char *what) {
    eitp_context *context = open_context(NULL, "fp32");
    eitp_model *model = NULL;
    const eitp_status status = eitp_model_load(context, directory, &model, &error_);
    CHECK_THAT(status == EITP_ERROR_UNSUPPORTED || status == EITP_ERROR_FORMAT || status == EITP_ERROR_ARGUMENT,
               "%s: status %d", what, (int)status);
    if (status)
        CHECK_THAT(strstr(error_.message, words) != NULL, "%s: %s", what, error_.message);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

static void keys_count_as_in_transformers(void) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *cases = read_json(GOLDEN "config_keys/cases.json");
    for (const eitp_json *test = eitp_json_root(cases)->first_child; test; test = test->next) {
        const eitp_json *refused = eitp_json_member(test, "refused"), *loss = eitp_json_member(test, "loss");
        const char *model = eitp_json_member(test, "model")->text;
        char directory[512], what[400];
        eitp__buffer text;
        REQUIRE(scratch_make(directory));
        eitp__buffer_init(&text, &host);
        eitp__json_write_value(&text, test);
        snprintf(what, sizeof what, "%.*s", (int)text.size, text.data);
        eitp__buffer_release(&text);
        write_case(test, directory);
        if (refused) {
            check_refused(directory, refused->text, what);
        } else {
            check_loss(directory, model, loss->number, what);
            check_saved_loss(directory, model, loss->number, what);
        }
        scratch_remove(directory);
    }
    eitp_json_release(cases);
}

/* ---- Preserved keys ---- */

static const char kept_case[] =
    "{\"model\": \"llama/llama-lm\", \"removed\": [], \"set\": {\"my_key\": {\"a\": [1, \"b\\n\"]}, "
    "\"use_cache\": false, \"is_causal\": true, \"quantization_config\": null, \"dtype\": \"float16\", "
    "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}}}";

/* Checks that a saved config.json has the members of kept_case. JSON with a repeated name cannot be parsed. */
static void check_kept(const char *directory) {
    eitp_json_document *document = read_json(scratch_path(directory, "config.json"));
    const eitp_json *root = eitp_json_root(document), *own = eitp_json_member(root, "my_key");
    const eitp_json *list = eitp_json_member(own, "a");
    REQUIRE(list && list->count == 2 && list->first_child->integer == 1);
    CHECK(!strcmp(list->first_child->next->text, "b\n"));
    CHECK(eitp_json_member(root, "use_cache") && !eitp_json_member(root, "use_cache")->boolean);
    CHECK(eitp_json_member(root, "is_causal") && eitp_json_member(root, "is_causal")->boolean);
    CHECK(eitp_json_member(root, "quantization_config") && eitp_json_member(root, "transformers_version"));
    CHECK(!eitp_json_member(root, "rope_parameters"));
    CHECK(!strcmp(eitp_json_member(root, "dtype")->text, "float32"));
    eitp_json_release(document);
}

/* Keys that eitp does not write itself are preserved, also when a model that shares the weights is saved. */
static void other_keys_are_kept(void) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document;
    eitp_model *shared;
    eitp_context *context = open_context(NULL, "fp32"), *other = open_context(NULL, "fp32");
    eitp_model *model;
    char directory[512], saved[512], again[512];
    REQUIRE(scratch_make(directory) && scratch_make(saved) && scratch_make(again));
    REQUIRE_OK(eitp_json_parse(&host, kept_case, strlen(kept_case), &document, &error_), error_);
    write_case(eitp_json_root(document), directory);
    eitp_json_release(document);
    REQUIRE_OK(eitp_model_load(context, directory, &model, &error_), error_);
    REQUIRE_OK(eitp_model_save(model, saved, &error_), error_);
    check_kept(saved);
    REQUIRE_OK(eitp_model_share(model, other, &shared, &error_), error_);
    REQUIRE_OK(eitp_model_save(shared, again, &error_), error_);
    check_kept(again);
    eitp_model_destroy(shared);
    eitp_model_destroy(model);
    eitp_context_destroy(other);
    eitp_context_destroy(context);
    scratch_remove(directory);
    scratch_remove(saved);
    scratch_remove(again);
}

/* ---- A head missing from the weights ---- */

static const char headless_case[] = "{\"model\": \"llama/qwen2-tied-lm\", \"removed\": [], "
                                    "\"set\": {\"tie_word_embeddings\": false}}";

static void a_missing_head_is_told(void) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document;
    eitp_context *context = open_context(NULL, "fp32"), *other = open_context(NULL, "fp32");
    eitp_model *model, *whole;
    char directory[512];
    REQUIRE(scratch_make(directory));
    REQUIRE_OK(eitp_json_parse(&host, headless_case, strlen(headless_case), &document, &error_), error_);
    write_case(eitp_json_root(document), directory);
    eitp_json_release(document);
    REQUIRE_OK(eitp_model_load(context, directory, &model, &error_), error_);
    CHECK_THAT(strstr(last_warning, "lack parameters of the head in config.json, which are random: lm_head.weight"),
               "%s", last_warning);
    CHECK(eitp_model_check_head(model, &error_) == EITP_ERROR_FORMAT);
    CHECK_THAT(strstr(error_.message, "config.json has a language head, but the weights lack"), "%s", error_.message);
    REQUIRE_OK(eitp_model_load(other, GOLDEN "llama/qwen2-tied-lm", &whole, &error_), error_);
    CHECK(!eitp_model_check_head(whole, &error_) && eitp_model_check_head(NULL, &error_) == EITP_ERROR_ARGUMENT);
    eitp_model_destroy(whole);
    eitp_model_destroy(model);
    eitp_context_destroy(other);
    eitp_context_destroy(context);
    scratch_remove(directory);
}

/* ---- docs/config-keys.md ---- */

/* Number of rows that the tables of all architectures start with. */
static size_t common_rows(void) {
    const eitp_architecture *first = eitp__architecture_at(0), *architecture;
    size_t count = first->key_count;
    for (size_t a = 1; (architecture = eitp__architecture_at(a)); a++) {
        size_t i = 0;
        while (i < count && i < architecture->key_count && !strcmp(first->keys[i].name, architecture->keys[i].name))
            i++;
        count = i;
    }
    return count;
}

static const char *key_of_field(const eitp_architecture *architecture, eitp__field field) {
    for (size_t i = 0; i < architecture->key_count; i++) {
        if (architecture->keys[i].field == field && architecture->keys[i].form != EITP__KEY_ALIAS)
            return architecture->keys[i].name;
    }
    return "";
}

static void describe_key(eitp__buffer *text, const eitp_architecture *architecture, const eitp__config_key *key) {
    const int is_refused = key->field == EITP__NO_FIELD && key->only;
    eitp__buffer_format(text, "| `%s` | ", key->name);
    if (is_refused)
        eitp__buffer_format(text, "refused unless `%s`%s", key->only,
                            key->form == EITP__KEY_OR_NULL ? " or `null`" : "");
    else if (key->form == EITP__KEY_ALIAS)
        eitp__buffer_format(text, "followed, and overrides `%s`", key_of_field(architecture, key->field));
    else if (key->form == EITP__KEY_IF_SET)
        eitp__buffer_add_text(text, "followed in training; written if it is not the default");
    else
        eitp__buffer_add_text(text, key->form == EITP__KEY_UNUSED ? "no effect" : "followed");
    eitp__buffer_add_text(text, " |\n");
}

/* Adds the rows of a table starting at `first`. A key that sets two fields has one row. */
static void describe_keys(eitp__buffer *text, const eitp_architecture *architecture, size_t first, size_t count) {
    eitp__buffer_add_text(text, "| key | eitp |\n|---|---|\n");
    for (size_t i = first; i < count; i++) {
        if (!i || strcmp(architecture->keys[i - 1].name, architecture->keys[i].name))
            describe_key(text, architecture, &architecture->keys[i]);
    }
}

/* After its introduction the document equals the tables. EITP_WRITE_DOCUMENT=1 writes it. */
static void the_document_has_the_tables(void) {
    static const char path[] = "docs/config-keys.md", begin[] = "## All architectures\n";
    const eitp_host host = eitp_host_default();
    const size_t common = common_rows();
    const eitp_architecture *architecture;
    eitp__buffer document, text;
    char *tables;
    eitp__buffer_init(&document, &host);
    eitp__buffer_init(&text, &host);
    REQUIRE_OK(eitp__read_file(&host, path, 1 << 20, &document, &error_), error_);
    tables = strstr(document.data, begin);
    REQUIRE(tables != NULL);
    eitp__buffer_format(&text, "%s\n", begin);
    describe_keys(&text, eitp__architecture_at(0), 0, common);
    for (size_t a = 0; (architecture = eitp__architecture_at(a)); a++) {
        eitp__buffer_format(&text, "\n## %s\n\n", architecture->model_type);
        describe_keys(&text, architecture, common, architecture->key_count);
    }
    if (getenv("EITP_WRITE_DOCUMENT")) {
        FILE *file = fopen(path, "wb");
        REQUIRE(file != NULL);
        fprintf(file, "%.*s%s", (int)(tables - document.data), document.data, text.data);
        fclose(file);
    } else {
        CHECK_THAT(!strcmp(tables, text.data),
                   "%s differs from the tables in src/model; write it with "
                   "EITP_WRITE_DOCUMENT=1",
                   path);
    }
    eitp__buffer_release(&document);
    eitp__buffer_release(&text);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(keys_count_as_in_transformers),
        TEST(other_keys_are_kept),
        TEST(a_missing_head_is_told),
        TEST(the_document_has_the_tables),
    };
    return RUN_TESTS(tests, argc, argv);
}
