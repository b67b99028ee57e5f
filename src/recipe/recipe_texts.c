/* The strings that a recipe owns. */
#include "base/setting_table.h"
#include "recipe/recipe_settings.h"

/* Memory blocks that are freed together; eitp_recipe.texts points to the first. */
typedef struct eitp__recipe_block {
    struct eitp__recipe_block *next;
    eitp_host host;
    size_t size; /* including this header */
} eitp__recipe_block;

EITP__PRIVATE void *eitp__recipe_allocate(const eitp_host *host, eitp_recipe *recipe, size_t size) {
    const size_t all = size + sizeof(eitp__recipe_block);
    eitp__recipe_block *block = all > size ? (eitp__recipe_block *)eitp__allocate(host, all) : NULL;
    if (!block)
        return NULL;
    block->next = (eitp__recipe_block *)recipe->texts;
    block->host = *host;
    block->size = all;
    recipe->texts = block;
    return block + 1;
}

EITP__PRIVATE const char *eitp__recipe_keep(const eitp_host *host, eitp_recipe *recipe, const char *text, size_t size) {
    char *copy = (char *)eitp__recipe_allocate(host, recipe, size + 1);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

EITP__PRIVATE eitp_status eitp__recipe_set_text(const eitp_host *host, eitp_recipe *recipe, const char **member,
                                                const char *text, eitp_error *error) {
    const char *copy = text ? eitp__recipe_keep(host, recipe, text, strlen(text)) : NULL;
    if (text && !copy)
        return eitp__fail_memory(error, strlen(text), "a string of a recipe");
    *member = copy;
    return EITP_OK;
}

static eitp_status eitp__recipe_copy_list(const eitp_host *host, eitp_recipe *copy, const eitp__recipe_walk *walk,
                                          eitp_error *error) {
    void *values = eitp__recipe_member(copy, walk);
    const eitp_text_list list = eitp__setting_texts(walk->setting, values);
    const char **texts = (const char **)eitp__recipe_allocate(host, copy, (list.count + 1) * sizeof *texts);
    if (!texts)
        return eitp__fail_memory(error, list.count * sizeof *texts, "the strings of a recipe");
    for (size_t i = 0; i < list.count; i++) {
        texts[i] = eitp__recipe_keep(host, copy, list.texts[i], strlen(list.texts[i]));
        if (!texts[i])
            return eitp__fail_memory(error, strlen(list.texts[i]), "a string of a recipe");
    }
    return eitp_setting_set_texts(walk->setting, texts, list.count, values, error);
}

static eitp_status eitp__recipe_copy_text(const eitp_host *host, eitp_recipe *copy, const eitp__recipe_walk *walk,
                                          eitp_error *error) {
    char *values = (char *)eitp__recipe_member(copy, walk);
    return eitp__recipe_set_text(host, copy, (const char **)(void *)(values + walk->setting->offset),
                                 eitp__setting_text(walk->setting, values), error);
}

EITP__PRIVATE eitp_status eitp__recipe_copy(const eitp_host *host, const eitp_recipe *recipe, eitp_recipe *copy,
                                            eitp_error *error) {
    eitp__recipe_walk walk = EITP__ZERO;
    eitp_status status = EITP_OK;
    *copy = *recipe;
    copy->texts = NULL;
    while (!status && eitp__recipe_next(&walk)) {
        if (walk.setting->kind == EITP_SETTING_TEXT)
            status = eitp__recipe_copy_text(host, copy, &walk, error);
        else if (walk.setting->kind == EITP_SETTING_TEXTS)
            status = eitp__recipe_copy_list(host, copy, &walk, error);
    }
    if (status)
        eitp_recipe_release(copy);
    return status;
}

void eitp_recipe_release(eitp_recipe *recipe) {
    eitp__recipe_block *block = recipe ? (eitp__recipe_block *)recipe->texts : NULL;
    while (block) {
        eitp__recipe_block *next = block->next;
        const eitp_host host = block->host;
        eitp__release(&host, block, block->size);
        block = next;
    }
    if (recipe)
        recipe->texts = NULL;
}
