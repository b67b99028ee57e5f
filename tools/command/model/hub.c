#include "model/hub.h"

#include "files.h"

/* Model families whose owner may be omitted, by the prefix of their names. The longest prefix comes first. */
static const struct {
    const char *prefix, *owner;
} owners[] = {
    {"distilbert-", "distilbert"}, {"distilgpt2", "distilbert"}, {"roberta-", "FacebookAI"},
    {"gpt2", "openai-community"},  {"bert-", "google-bert"},     {"all-", "sentence-transformers"},
};

/* True for "owner/name" or "name" that is not a path here. */
static int is_hub_name(const char *name) {
    const char *slash = strchr(name, '/');
    return *name && *name != '.' && *name != '/' && *name != '-' && strlen(name) < 100 &&
           (!slash || (slash[1] && !strchr(slash + 1, '/')));
}

static const char *owner_of(const char *name) {
    for (size_t i = 0; i < COMMAND_COUNT(owners) && !strchr(name, '/'); i++) {
        if (!strncmp(name, owners[i].prefix, strlen(owners[i].prefix)))
            return owners[i].owner;
    }
    return NULL;
}

/* ---- The cache ---- */

static char *join_three(const char *a, const char *b, const char *c) {
    char *first = files_join(a, b), *all = files_join(first, c);
    free(first);
    return all;
}

static char *cache_directory(void) {
    const char *cache = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME");
    if (cache && *cache)
        return command_copy(cache);
    if (home && *home)
        return files_join(home, "hub");
    cache = getenv("XDG_CACHE_HOME");
    if (cache && *cache)
        return files_join(cache, "huggingface/hub");
    home = getenv("HOME");
    return home && *home ? files_join(home, ".cache/huggingface/hub") : NULL;
}

/* Returns the snapshot of a repository's main branch, or NULL. */
static char *find_snapshot(const char *cache, const char *owner, const char *name) {
    char folder[300], *slash, *reference, *snapshots, *found = NULL;
    text_buffer commit = {NULL, 0, 0};
    eitp_error ignored;
    snprintf(folder, sizeof folder, "models--%s%s%s", owner ? owner : "", owner ? "--" : "", name);
    slash = strchr(folder, '/');
    if (slash) {
        memmove(slash + 2, slash + 1, strlen(slash + 1) + 1);
        memcpy(slash, "--", 2);
    }
    reference = join_three(cache, folder, "refs/main");
    snapshots = join_three(cache, folder, "snapshots");
    if (!files_read(reference, 200, &commit, &ignored) && commit.size && strcspn(commit.data, "/") == commit.size) {
        commit.data[strcspn(commit.data, "\r\n ")] = 0;
        found = files_join(snapshots, commit.data);
    }
    if (found && !files_is_file(found, "config.json")) {
        free(found);
        found = NULL;
    }
    text_release(&commit);
    free(reference);
    free(snapshots);
    return found;
}

char *hub_find(const char *name) {
    char *cache = is_hub_name(name) ? cache_directory() : NULL, *found = NULL;
    const char *owner = owner_of(name);
    if (cache)
        found = find_snapshot(cache, NULL, name);
    if (cache && !found && owner)
        found = find_snapshot(cache, owner, name);
    free(cache);
    return found;
}

/* ---- Downloading ---- */

void hub_add_hint(const char *name, eitp_error *error) {
    const char *owner = owner_of(name), *slash = strchr(name, '/');
    const size_t size = strlen(error->message);
    if (is_hub_name(name))
        snprintf(error->message + size, sizeof error->message - size,
                 ", or download one: 'pip install huggingface_hub', then 'hf download %s%s%s --local-dir %s'",
                 owner ? owner : "", owner ? "/" : "", name, slash ? slash + 1 : name);
}
