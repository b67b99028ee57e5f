/* The version, and the entry points whose symbol names include it. */
#ifndef EITP_VERSION_H
#define EITP_VERSION_H

#define EITP_VERSION_MAJOR 0
#define EITP_VERSION_MINOR 1
#define EITP_VERSION_PATCH 0
#define EITP_VERSION_STRING "0.1.0"

/*
 * Structs that programs allocate may grow with the minor version. A program compiled with one version of eitp.h must
 * therefore not be linked with the implementation of another. If it is, the linker reports an undefined symbol such as
 * eitp_context_create_0_1, since every program calls one of these functions. A patch version changes no declaration.
 */
#define EITP__JOIN_VERSION(name, major, minor) name##_##major##_##minor
#define EITP__EXPAND_VERSION(name, major, minor) EITP__JOIN_VERSION(name, major, minor)
#define EITP__VERSIONED(name) EITP__EXPAND_VERSION(name, EITP_VERSION_MAJOR, EITP_VERSION_MINOR)

#define eitp_host_default EITP__VERSIONED(eitp_host_default)
#define eitp_context_config_default EITP__VERSIONED(eitp_context_config_default)
#define eitp_context_create EITP__VERSIONED(eitp_context_create)
#define eitp_tokenizer_load EITP__VERSIONED(eitp_tokenizer_load)
#define eitp_trainer_config_default EITP__VERSIONED(eitp_trainer_config_default)
#define eitp_trainer_create EITP__VERSIONED(eitp_trainer_create)
#define eitp_run_config_default EITP__VERSIONED(eitp_run_config_default)
#define eitp_run_open EITP__VERSIONED(eitp_run_open)
#define eitp_recipe_default EITP__VERSIONED(eitp_recipe_default)
#define eitp_training_open EITP__VERSIONED(eitp_training_open)
#define eitp_training_open_run EITP__VERSIONED(eitp_training_open_run)

#endif
