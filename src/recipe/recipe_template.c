/* The chat template of a recipe, and the encoding of conversations with it. */
#include "base/checksum.h"
#include "base/files.h"
#include "recipe/training.h"
#include "text/template_file.h"

/* Reads the template that the recipe names: a file, or a built-in one. */
EITP__PRIVATE eitp_status eitp__training_set_chat_template(eitp_training *training, eitp_error *error) {
    const char *name = training->recipe.model.chat_template, *known = eitp__chat_template_named(name);
    eitp__buffer text;
    eitp_status status = EITP_OK;
    if (!name || !training->tokenizer ||
        (training->is_resumed && !training->trained && training->recipe.data.rereads[EITP_TRAINING] < 2 &&
         eitp_tokenizer_chat_template(training->tokenizer, NULL)))
        return EITP_OK;
    if (known)
        return eitp_tokenizer_set_chat_template(training->tokenizer, known, strlen(known), error);
    eitp__buffer_init(&text, &training->host);
    status = eitp__read_file(&training->host, name, (size_t)1 << 20, &text, error);
    if (!status)
        status = eitp_tokenizer_set_chat_template(training->tokenizer, text.size ? text.data : "", text.size, error);
    eitp__buffer_release(&text);
    return status ? eitp__fail_prefix(error, status, "chat_template") : EITP_OK;
}

EITP__PRIVATE int eitp__has_chat_setting(const eitp_training *training) {
    const eitp_recipe *recipe = &training->recipe;
    return recipe->model.chat_template || recipe->model.chat_values || recipe->task.train_on != EITP_CHAT_ANSWERS;
}

#if !EITP_WITHOUT_TEMPLATES
EITP__PRIVATE eitp_chat_config eitp__training_chat_config(const eitp_training *training) {
    eitp_chat_config config = eitp_chat_config_default();
    config.targets = training->recipe.task.train_on;
    config.values = training->recipe.model.chat_values;
    return config;
}
#endif

EITP__PRIVATE uint64_t eitp__chat_fingerprint(const eitp_training *training, uint64_t hash) {
    const int64_t targets = training->recipe.task.train_on;
    const char *values = training->recipe.model.chat_values;
    size_t size = 0;
    const char *text = eitp_tokenizer_chat_template(training->tokenizer, &size);
    hash = eitp__fnv1a(eitp__fnv1a(hash, &targets, sizeof targets), text, size);
    return values ? eitp__fnv1a(hash, values, strlen(values)) : hash;
}
