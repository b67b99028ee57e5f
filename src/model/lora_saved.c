#include "model/lora_saved.h"

/* A module that can be trained in full. */
static const struct {
    unsigned bit;
    eitp__model_slot slot;
    const char *what;
} eitp__lora_saved_modules[] = {
    {EITP_LORA_SAVES_EMBEDDING, EITP__TOKEN_EMBEDDING, "token embedding"},
    {EITP_LORA_SAVES_HEAD, EITP__HEAD, "separate language head"},
};

/* Returns the row of a module's weight, or NULL. Unless `model` is NULL, the model must have it. */
static const eitp__parameter_row *eitp__lora_saved_row(const eitp_architecture *architecture,
                                                       const eitp_transformer_config *model, eitp__model_slot slot) {
    for (size_t i = 0; i < architecture->row_count; i++) {
        const eitp__parameter_row *row = &architecture->rows[i];
        if (row->slot == slot && row->part == EITP__WEIGHT && (!model || eitp__has_row(model, row)))
            return row;
    }
    return NULL;
}

/* Writes the full name of a module, such as "model.embed_tokens". Returns its length, or 0 if the architecture lacks
   it. */
static size_t eitp__lora_saved_name(const eitp_architecture *architecture, size_t module, char name[EITP__NAME_SIZE]) {
    const eitp__parameter_row *row = eitp__lora_saved_row(architecture, NULL, eitp__lora_saved_modules[module].slot);
    return row ? (size_t)snprintf(name, EITP__NAME_SIZE, "%s%.*s",
                                  row->place == EITP__IN_HEAD ? "" : architecture->prefix,
                                  (int)(strlen(row->name) - strlen(".weight")), row->name)
               : 0;
}

/* Returns the module that a word names, or 0. */
static unsigned eitp__lora_saved_named(const eitp_architecture *architecture, const char *word, size_t size) {
    char name[EITP__NAME_SIZE];
    for (size_t i = 0; i < EITP__COUNT(eitp__lora_saved_modules); i++) {
        const size_t length = eitp__lora_saved_name(architecture, i, name);
        if (length && eitp__lora_is_suffix(word, size, name, length))
            return eitp__lora_saved_modules[i].bit;
    }
    return 0;
}

eitp_status eitp_lora_saved_parse(const eitp_architecture *architecture, const char *names, unsigned *saved,
                                  eitp_error *error) {
    if (!names || !saved)
        return eitp__fail_null(error, "eitp_lora_saved_parse", "names and saved");
    const eitp_architecture *named = architecture ? architecture : eitp__architecture_at(0);
    unsigned found = 0;
    for (const char *word = names; *word; word += *word == ',') {
        const size_t size = strcspn(word, ",");
        unsigned bit = eitp__lora_saved_named(named, word, size);
        for (size_t i = 0; !architecture && !bit && eitp__architecture_at(i); i++)
            bit = eitp__lora_saved_named(eitp__architecture_at(i), word, size);
        if (!bit && !eitp__lora_is_of_classifier(named, word, size)) {
            char known[200] = "embed_tokens,lm_head, in GPT-2 wte";
            if (architecture)
                eitp_lora_saved_format(architecture, EITP__LORA_SAVED_ALL, known, sizeof known);
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown module to save '%.*s' (choose from %s)",
                              (int)(size < 60 ? size : 60), word, known);
        }
        found |= bit;
        word += size;
    }
    *saved = found;
    return EITP_OK;
}

size_t eitp_lora_saved_format(const eitp_architecture *architecture, unsigned saved, char *names, size_t size) {
    const eitp_architecture *named = architecture ? architecture : eitp__architecture_at(0);
    char name[EITP__NAME_SIZE];
    size_t length = 0;
    if (names && size)
        *names = 0;
    for (size_t i = 0; i < EITP__COUNT(eitp__lora_saved_modules); i++) {
        const size_t room = names && size > length ? size - length : 0;
        const char *last;
        if (!(saved & eitp__lora_saved_modules[i].bit) || !eitp__lora_saved_name(named, i, name))
            continue;
        last = strrchr(name, '.');
        length +=
            (size_t)snprintf(room ? names + length : NULL, room, "%s%s", length ? "," : "", last ? last + 1 : name);
    }
    return length;
}

EITP__PRIVATE int eitp__lora_trains(const eitp_transformer_config *model, unsigned saved,
                                    const eitp__parameter *parameter) {
    for (size_t i = 0; i < EITP__COUNT(eitp__lora_saved_modules); i++) {
        if ((saved & eitp__lora_saved_modules[i].bit) && parameter->row->slot == eitp__lora_saved_modules[i].slot)
            return 1;
    }
    return eitp_head_has_labels(model->head) && parameter->row->place == EITP__IN_HEAD;
}

EITP__PRIVATE eitp_status eitp__lora_saved_check(const eitp_transformer_config *model, unsigned saved,
                                                 eitp_error *error) {
    const eitp_architecture *architecture = eitp__architecture_of(model);
    char name[64];
    if (saved && model->bidirectional)
        return eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "embeddings and head can be trained in full alongside adapters only in decoders, not in %s models",
            architecture->model_type);
    for (size_t i = 0; i < EITP__COUNT(eitp__lora_saved_modules); i++) {
        if ((saved & eitp__lora_saved_modules[i].bit) &&
            !eitp__lora_saved_row(architecture, model, eitp__lora_saved_modules[i].slot))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "this %s model has no %s to train in full%s",
                              architecture->model_type, eitp__lora_saved_modules[i].what,
                              eitp__is_tied(model) ? "; its head is tied to the token embedding, name that instead"
                                                   : "");
    }
    /* PEFT keeps the weights tied if it recognizes the embedding by this name. Otherwise it trains a copy of one of
       them. */
    eitp_lora_saved_format(architecture, saved & EITP_LORA_SAVES_EMBEDDING, name, sizeof name);
    if (*name && eitp__is_tied(model) && strcmp(name, "embed_tokens"))
        return eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "%s of this %s model is tied to its head and cannot be trained in full alongside adapters: PEFT would "
            "treat it as two modules",
            name, architecture->model_type);
    return EITP_OK;
}
