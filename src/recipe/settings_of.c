/* The tables of settings of configuration structs, by name. */
#include "base/base.h"
#include "data/labelled_writer.h"
#include "data/table.h"
#include "data/text_paths.h"
#include "model/generate.h"
#include "model/lora.h"
#include "objective/emergence_state.h"
#include "run/internal.h"
#include "task/predictor_state.h"
#include "task/vae_settings.h"
#include "text/bpe_train.h"
#include "text/sequence.h"
#include "train/trainer_state.h"
#include "recipe/recipe.h"

#include <string.h>

const eitp_setting *eitp_settings_of(const char *config, size_t *count) {
    static const struct {
        const char *config;
        const eitp_setting *(*table)(size_t *count);
    } tables[] = {
#if !EITP_WITHOUT_OBJECTIVE
        {"eitp_emergence_config", eitp__emergence_setting_table},
#endif
        {"eitp_labelled_pack_config", eitp__labelled_pack_setting_table},
        {"eitp_lora_config", eitp__lora_setting_table},
        {"eitp_predictor_config", eitp__predictor_setting_table},
        {"eitp_run_config", eitp__run_setting_table},
        {"eitp_sampling", eitp__sampling_setting_table},
        {"eitp_sequence_config", eitp__sequence_setting_table},
        {"eitp_table_config", eitp__table_setting_table},
        {"eitp_text_files_config", eitp__text_files_setting_table},
        {"eitp_tokenizer_train_config", eitp__tokenizer_train_setting_table},
        {"eitp_trainer_config", eitp__trainer_setting_table},
#if !EITP_WITHOUT_LATENT
        {"eitp_vae_objective", eitp__vae_objective_setting_table},
#endif
    };
    if (count)
        *count = 0;
    for (size_t i = 0; config && i < EITP__COUNT(tables); i++)
        if (!strcmp(config, tables[i].config))
            return tables[i].table(count);
    return NULL;
}
