/* Iteration over the settings of a recipe, and the strings that a recipe owns. */
#ifndef EITP_RECIPE_SETTINGS_H
#define EITP_RECIPE_SETTINGS_H

#include "base/json_tree.h"
#include "base/memory.h"
#include "recipe/recipe.h"

/* Starts as zeros. */
typedef struct eitp__recipe_walk {
    size_t group, next;
    size_t offset;               /* offset in the recipe of the struct that contains the setting */
    const eitp_setting *setting; /* the current one */
} eitp__recipe_walk;

/* Advances to the next setting. Returns 0 after the last. */
EITP__PRIVATE int eitp__recipe_next(eitp__recipe_walk *walk);

/* Returns the struct that contains the current setting. */
EITP__PRIVATE void *eitp__recipe_member(eitp_recipe *recipe, const eitp__recipe_walk *walk);
EITP__PRIVATE const void *eitp__recipe_values(const eitp_recipe *recipe, const eitp__recipe_walk *walk);

/* Return zeroed memory, and a copy of a string, that belong to the recipe. NULL if out of memory. */
EITP__PRIVATE void *eitp__recipe_allocate(const eitp_host *host, eitp_recipe *recipe, size_t size);
EITP__PRIVATE const char *eitp__recipe_keep(const eitp_host *host, eitp_recipe *recipe, const char *text, size_t size);

/* Sets a string of a recipe to a copy that belongs to it. `text` may be NULL. */
EITP__PRIVATE eitp_status eitp__recipe_set_text(const eitp_host *host, eitp_recipe *recipe, const char **member,
                                                const char *text, eitp_error *error);

/* Copies `recipe` with its strings. */
EITP__PRIVATE eitp_status eitp__recipe_copy(const eitp_host *host, const eitp_recipe *recipe, eitp_recipe *copy,
                                            eitp_error *error);

/* Fails if the recipe has no host, because it was not started from eitp_recipe_default. */
EITP__PRIVATE eitp_status eitp__recipe_check_host(const eitp_recipe *recipe, eitp_error *error);

/* Reads the member of a JSON object for the current setting, if there is one, into the recipe. */
EITP__PRIVATE eitp_status eitp__recipe_read_member(const eitp_host *host, const eitp_json *object,
                                                   const eitp__recipe_walk *walk, eitp_recipe *recipe,
                                                   eitp_error *error);

/* Appends the settings that have a value as members of a JSON object. */
EITP__PRIVATE void eitp__recipe_write(const eitp_recipe *recipe, eitp__buffer *text);

#endif
