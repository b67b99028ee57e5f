/*
 * eitp: train Transformers inside the memory a machine really has. One C header.
 *
 * Do this in one C file of its own, say eitp.c, to create the implementation:
 *
 *     #define EITP_IMPLEMENTATION
 *     #include "eitp.h"
 *
 * Everywhere else, #include "eitp.h" alone. Then compile and link:
 *
 *     cc -O2 -c eitp.c                          once
 *     cc -O2 file.c eitp.o -lm
 *
 * For threads, add -fopenmp to both lines. -O2 is enough: kernels for AVX2, AVX-512, AVX512-BF16 and AMX are compiled
 * in, and the best that the processor supports is chosen at run time. Do not add -march or -ffast-math.
 *
 * Needs: Linux (other POSIX systems are untested), gcc or clang, C11 or C++11 or later, the C library and -lm.
 * Licence: MIT, at the end of the file.
 *
 * A WHOLE PROGRAM: save it as file.c beside eitp.h, compile it as above, and run it there. It takes seconds.
 *
 * ```c
 * #include "eitp.h"
 * #include <stdio.h>
 *
 * int main(void) { // a small GPT-2 learns the text of eitp.h, byte by byte
 *     const char *path = "eitp.h";
 *     eitp_context_config settings = eitp_context_config_default();
 *     eitp_trainer_config training = eitp_trainer_config_default();
 *     eitp_pack_config pack = eitp_pack_config_default();
 *     eitp_language_config language = eitp_language_config_default();
 *     eitp_transformer_config shape = eitp_transformer_config_default();
 *     eitp_sample_file_info info;
 *     eitp_token_range train, held_out;
 *     eitp_context *context = NULL;
 *     eitp_tokenizer *tokenizer = NULL;
 *     eitp_sample_file *tokens = NULL;
 *     eitp_trainer *trainer = NULL;
 *     eitp_task task = {0};
 *     eitp_step_report step = {0};
 *     eitp_error error;
 *     pack.texts.paths = &path;
 *     pack.texts.path_count = 1;
 *     language.block_size = 64;      // tokens in a sequence
 *     training.batch_size = 4;       // sequences in a micro-batch; a step has grad_accum (4) micro-batches
 *     training.schedule.peak = 1e-3; // learning rate
 *     // EITP_OK is 0: || stops at the first call that fails, and `error` says why it failed.
 *     int failed = eitp_context_create(&settings, &context, &error) ||
 *                  eitp_tokenizer_create_bytes(&settings.host, &tokenizer, &error) ||
 *                  eitp_pack(&settings.host, tokenizer, &pack, "text.tok", &info, &error) ||
 *                  eitp_sample_file_open(&settings.host, "text.tok", 0, &tokens, &error) ||
 *                  eitp_split_tokens(info.token_count, 0, language.block_size, &train, &held_out, &error) ||
 *                  eitp_transformer_config_named("tiny", &shape, &error);
 *     shape.vocabulary = 257; // 256 bytes and the end-of-text token
 *     language.tokenizer = tokenizer;
 *     language.training = eitp_sample_file_token_source(tokens, train);
 *     failed = failed || eitp_model_create(context, &shape, &language.model, &error) ||
 *              eitp_model_initialize(language.model, 1, &error) || eitp_language_task(&language, &task, &error) ||
 *              eitp_trainer_create(&task, &training, &trainer, &error);
 *     while (!failed && step.step < 80) {
 *         failed = eitp_trainer_step(trainer, &step, &error) != EITP_OK;
 *         if (!failed && step.step % 10 == 0)
 *             printf("step %2d: loss %.3f nats per byte\n", (int)step.step, step.loss);
 *     }
 *     failed = failed || eitp_trainer_save(trainer, "out", &error); // writes out/checkpoint-80
 *     if (failed)
 *         fprintf(stderr, "%s\n", error.message);
 *     else
 *         printf("for comparison, the frequencies of bytes alone: %.3f nats per byte\n", info.unigram_entropy);
 *     eitp_trainer_destroy(trainer); // destroy in the opposite order of creation
 *     eitp_task_release(&task);
 *     eitp_model_destroy(language.model);
 *     eitp_sample_file_close(tokens);
 *     eitp_tokenizer_destroy(tokenizer);
 *     eitp_context_destroy(context);
 *     return failed;
 * }
 * ```
 *
 * The directory out/checkpoint-80 opens in Hugging Face's transformers and in `eitp generate`. More programs are in
 * examples/: a model of your own, a run that survives being killed, generation, a custom allocator.
 *
 * WHAT EITP DOES
 *     - trains GPT-2 models, from random weights or from a Hugging Face directory, and writes such directories
 *     - trains models of your own, built from tensor ops and Transformer blocks; gradients are tensors and can be
 *       differentiated again
 *     - trains tasks of your own: samples, weighted loss terms, metrics
 *     - reads Hugging Face's tokenizers (byte-level BPE, BPE with byte fallback, WordPiece) with identical ids, and
 *       learns the first from text
 *     - packs text of any size into a token file once, and reads it in windows; packs labelled texts into a labelled
 *       file, and reads samples of it
 *     - AdamW with f32 or compact states, a factored optimizer with almost no state, SGD with momentum; gradient
 *       accumulation, clipping by global norm, schedules, dropout; LoRA adapters and frozen layers
 *     - fits a run into a memory budget before anything is loaded; can offload variables to a file, and shrink a run
 *       while it trains
 *     - describes a run in one struct, or JSON, and plans, trains and resumes it (eitp_recipe, examples/recipe.c)
 *     - whole runs: resume, evaluation, checkpoints, best checkpoint, early stopping, records
 *     - bit-identical results for any number of threads, and across stop and resume
 *     - generates text with a key-value cache, temperature, top-k and top-p
 *     - classifies texts, and turns them into embeddings, packed without padding
 *
 * WHAT EITP DOES NOT DO
 *     - print, exit, abort, install signal handlers, or keep global state
 *     - access the network: model directories and texts are local files
 *     - allocate memory while a plan executes or a trainer makes a step
 *     - run on Windows, or compile with anything but gcc and clang: it needs POSIX files and GNU attributes
 *
 * NOT YET
 *     - training on several GPUs or machines; the CUDA backend was never run on a GPU
 *     - architectures other than GPT-2, Llama, Mistral, Qwen, Gemma, BERT, RoBERTa and DistilBERT
 *     - tokenizers other than BPE, of bytes or with byte fallback, and WordPiece
 *     - kernels for processors other than x86-64: those run the portable C kernels
 *
 * STEP BY STEP, in the order of the calls
 *   The short way: eitp_recipe_default, then set its members or eitp_recipe_read them from JSON; eitp_training_open,
 *   eitp_training_run, eitp_training_close. The program at the top of README.md and examples/recipe.c do this.
 *   eitp_training_open_trained opens the trained model again, to evaluate it or to use it: see docs/recipes.md.
 *   Train a language model:
 *     1. eitp_context_config_default, eitp_context_create: device, threads, precision, memory, log. The context owns
 *        the parameters.
 *     2. eitp_tokenizer_load; or eitp_tokenizer_train and eitp_tokenizer_save; or eitp_tokenizer_create_bytes.
 *     3. eitp_pack creates a token file, eitp_sample_file_open opens it, eitp_split_tokens splits it into training and
 *        validation.
 *     4. eitp_model_load for a Hugging Face directory. For random weights: eitp_transformer_config_named,
 *        eitp_transformer_config_read or your own eitp_transformer_config, then eitp_model_create and
 *        eitp_model_initialize.
 *     5. eitp_language_task describes the data: eitp_sample_file_token_source, eitp_token_memory_source, or a callback.
 *        eitp_trainer_config_default, eitp_trainer_create: allocates everything that training needs. To continue from a
 *        checkpoint: eitp_checkpoint_recover, eitp_trainer_resume.
 *     6. In your loop: eitp_trainer_step; from time to time eitp_trainer_evaluate, eitp_trainer_save,
 *        eitp_checkpoint_prune. A failed step changes nothing, unless eitp_trainer_is_torn returns 1: then resume from
 *        the last checkpoint. Instead of a loop of your own you can use a run (below).
 *     7. eitp_model_save writes a model directory without the training state.
 *     8. Destroy everything in the opposite order of creation.
 *   Run: eitp_run_config_default sets directory, steps, and when to evaluate, save and stop early. eitp_run_open
 *   locks the directory and finds the checkpoint to resume from. eitp_run_train trains the trainer of step 5 to the end
 *   and reports events to a listener, or to the log. eitp_run_request_stop and eitp_run_request_save may be called from
 *   signal handlers. Close the run last. See examples/run.c.
 *   Your own loop with what a run records and guards: eitp_watch_open after step 5, then eitp_watch_step and
 *   eitp_watch_evaluate instead of eitp_trainer_step and eitp_trainer_evaluate, and eitp_watch_save. Close the watch
 *   before the trainer is destroyed. See examples/own_loop.c.
 *   Look at a run while it trains or afterwards: eitp_history_open, eitp_history_update, eitp_run_process_read. See
 *   examples/history.c.
 *   Generate: eitp_generator_create, then eitp_generate_text continues a prompt, and passes the text on in pieces as it
 *   comes. For tokens, or a conversation, alternate eitp_generator_feed and eitp_generator_sample: each conversation
 *   with a model is a generator. See examples/generate.c.
 *   Predict: eitp_classify_text gives the likeliest label of one text. For many texts, other scores or embeddings:
 *   eitp_predictor_config_default, eitp_predictor_create, then eitp_predict. eitp_embedding_config_read reads the files
 *   of sentence-transformers.
 *   Several threads with one copy of the weights: eitp_model_share gives each a model in a context of its own. See
 *   examples/threads.c.
 *   Models and tasks of your own: fill in an eitp_task. Its `build` adds inputs (eitp_pass_row_input), parameters
 *   (eitp_parameter), ops, Transformer blocks (eitp_block), loss terms (eitp_pass_term) and metrics
 *   (eitp_pass_metric) to a graph; its `read` fills in a sample. Trainer, planner and run work with it unchanged. See
 *   examples/hello.c.
 *   Compute without a trainer: eitp_graph_create, eitp_input, eitp_parameter, ops, eitp_output; eitp_gradients,
 *   eitp_jacobian_product, or eitp_minimize for an optimizer step; eitp_plan_create; then repeat eitp_plan_write for
 *   every input (inputs marked by eitp_keep_input once), eitp_plan_execute, eitp_plan_read. Building a graph computes
 *   nothing. eitp_graph_format lists a graph and what its plan does with it, with the names of eitp_tensor_set_name.
 *   See examples/graph.c.
 *   eitp_variables_save and eitp_variables_load store the parameters.
 *
 * MEMORY
 *   All memory comes from eitp_host.allocator, by default the C library's. A context has two large parts: variables
 *   (parameters, optimizer state, gradients: eitp_context_variable_bytes), and the arena, which its plans share and
 *   which is as large as the largest plan needs (eitp_context_arena_bytes; eitp_plan_statistics for one plan). Both are
 *   allocated when a plan or a trainer is created. After that eitp_plan_execute, eitp_trainer_step and
 *   eitp_trainer_evaluate allocate nothing. Packing text and training a tokenizer need a bounded amount.
 *   To fit a run into a budget: eitp_memory_info_read and eitp_memory_budget_default give the budget, eitp_fit_choose
 *   chooses the length of sequences, the optimizer, the micro-batches per pass and the plans' memory, and
 *   eitp_fit_measure reports its bytes and arithmetic by component (all in src/train/planner.h below). Then set
 *   eitp_context_config.parameters from eitp_optimizer_get, .precision and .offload as chosen, and copy
 *   micro_batches_per_pass and plan to the eitp_trainer_config, and the optimizer to its optimizer_config.
 *   eitp_plan_create_with limits a single plan.
 *   eitp_context_config.offload keeps variables in a file except while a plan uses them. When other programs take
 *   memory during training (eitp_memory_is_short), eitp_trainer_shrink reduces the run between two steps.
 *
 * CONFIGURATIONS AND NAMES
 *   A struct of options starts from <struct>_default(), which returns the values that are used if you change nothing;
 *   then set what differs. That holds for every eitp_*_config, eitp_sampling, eitp_schedule, eitp_fit, eitp_recipe,
 *   eitp_host and the inputs of attention and blocks. For programs that list or parse options, eitp_settings_of returns
 *   a table of a struct's members with names, defaults and bounds. Other structs (texts, ranges, arrays, and sets of
 *   callbacks such as tasks, sources and sinks) start as {0}.
 *   Functions come in pairs: create and destroy for an object in memory, open and close for one that keeps a file open,
 *   load and save for an object with its values, read and write for a file or values alone. `init` fills in a struct of
 *   the program that needs no release; `release` frees what such a struct has. eitp_directory_create and
 *   eitp_checkpoint_create create directories on disk. A function that ends in _with is the one without the ending, and
 *   takes a configuration too. A property is a noun (eitp_plan_statistics), after get_ where the noun is a type
 *   (eitp_sample_file_get_info).
 *   A choice is an enum. It is a string if its values depend on the machine or the build (device, isa, products,
 *   precision) or are names in a table or a model (shapes, optimizers in JSON, metrics, layers).
 *
 * VERSIONS
 *   EITP_VERSION_STRING is the version of this file, eitp_version() that of the linked implementation. Public structs
 *   may grow with the major or minor version, so declarations and implementation must have the same. Functions that
 *   every program needs carry it in their names for the linker: eitp_context_create is eitp_context_create_0_1 there.
 *   A program that is linked with the implementation of another version fails to link, and the linker prints such a
 *   name: compile both with one eitp.h. Bindings that look functions up by name, as with dlsym, need these names; the
 *   functions are those defined with EITP__VERSIONED.
 *
 * PRECISION
 *   eitp_context_config.precision is "fp32", "bf16", "fp16" or "auto": bf16 if the processor has instructions for it,
 *   else fp32. The default is fp32; the command's is auto. In 16 bits, matrices and activations of models are stored in
 *   16 bits; sums, norms, softmax, losses, biases, parameter gradients and the optimizer are f32. With EITP_ADAMW and
 *   EITP_SGD the low bits of each 16-bit parameter's f32 value are stored separately, so updates and files are exact.
 *   In fp16 losses are scaled, and a step that overflows is skipped.
 *
 * ERRORS
 *   A function that can fail returns an eitp_status, 0 (EITP_OK) on success, and fills in an eitp_error: one line that
 *   says what is wrong, where, and what to do. NULL may be passed for it. After a failure outputs are NULL or
 *   unchanged, and nothing is half created. A failed allocation is an error like any other. Ops return tensors instead:
 *   NULL on failure, and for NULL operands; eitp_graph_status and eitp_plan_create report the first failure. Passing
 *   NULL for a required object is an error (EITP_ERROR_ARGUMENT); functions without a status return zeros for it, and
 *   destroying NULL does nothing.
 *
 * THREADS
 *   A context and everything created from it belong to one thread at a time. Different contexts are independent.
 *   Tokenizers and open files of samples may be shared between threads. Callbacks (allocator, files, log,
 *   progress, tasks, sinks) are called from the thread that called eitp, with two exceptions: some functions of files,
 *   which eitp_files lists, and with eitp_trainer_config.data_workers a task's `read` and the file functions that it
 *   calls, are called from threads of eitp's own. With OpenMP a context computes with config.threads
 *   threads.
 *
 * SWITCHES: define them before the #include, or with -D
 *   EITP_IMPLEMENTATION    undefined   creates the implementation; in exactly one file.
 *   EITP_API               extern      linkage of the public functions; the same in every file. `static` makes all of
 *                                      eitp private to one file.
 *   EITP_SHARED            0           1 exports the public functions of a library built with -fvisibility=hidden.
 *   EITP_PART              undefined   1 to 6: the implementation in six files, side by side, each with another number
 *                                      and the same options: reference kernels; AVX2; AVX-512 and AMX; the rest.
 *   EITP_WITHOUT_AVX2, EITP_WITHOUT_AVX512, EITP_WITHOUT_AVX512BF16, EITP_WITHOUT_AMX, EITP_WITHOUT_CUDA
 *                          0           1 leaves these kernels out; where the implementation is. It compiles faster.
 *   EITP_WITHOUT_RECIPES, EITP_WITHOUT_REPORTING (records beyond JSON lines), EITP_WITHOUT_RUNS, EITP_WITHOUT_TRAINER,
 *   EITP_WITHOUT_OBJECTIVE, EITP_WITHOUT_LATENT (their task), EITP_WITHOUT_TASKS, EITP_WITHOUT_TEMPLATES (of chats),
 *   EITP_WITHOUT_TEXT, EITP_WITHOUT_MODEL_FILES
 *                          0           1 leaves these functions out, and what needs them; the same in every file.
 *   EITP_FILE              its name    the name of this file in quotes, if you rename it and compile with gcc 11,
 *                                      clang 8 or older; newer compilers know it.
 *   -fopenmp               off         divides work among threads; where the implementation is, and when linking.
 *
 * ENVIRONMENT VARIABLES
 *   EITP_ISA               ref, avx2, avx512, avx512bf16 or amx: the kernels to use, instead of the best that the
 *                          processor supports. One that it does not support is an error.
 *   EITP_PRODUCTS          own (the default) or openblas: who computes matrix products in fp32. OpenBLAS is opened when
 *                          a context is created that asks for it, and stays open. eitp sets it to one thread, for the
 *                          whole process, because eitp divides the work itself. Programs for glibc before 2.34 need
 *                          -Wl,-no-as-needed -ldl; static programs cannot open it. OPENBLAS_NUM_THREADS=1 prevents
 *                          threads of its own. Where limits on addresses (ulimit -v) have no room for them, it is not
 *                          opened, since the process would never end; where one cannot start for another reason
 *                          (ulimit -u), OpenBLAS ends the process.
 *   EITP_LIBOPENBLAS       the name or path of OpenBLAS; default: libopenblas.so.0, then libopenblas.so
 *   EITP_BACKEND           the device if eitp_context_config.device is "auto" or NULL: cpu, or null, which computes
 *                          nothing
 *   EITP_LOCK_FD           the number of an inherited descriptor that has the lock of the output directory (flock): a
 *                          supervisor that holds the lock lets the process in; set by eitp safe-train
 *   OMP_NUM_THREADS        the number of threads if the program asks for 0; default: one for each processor that the
 *                          process may use (eitp_processor_info.usable): affinity, OMP_PLACES and the quota of control
 *                          groups, rounded up, count
 *   GOMP_SPINCOUNT         1000 makes idle threads of gcc's OpenMP sleep soon; the command sets it
 *   OMP_WAIT_POLICY        passive lets waiting threads sleep: much faster if other programs run on the same processors
 *
 * FINDING YOUR WAY
 *   This file is generated: to change it, change the modules in the repository. Each module begins with a line that has
 *   ">>" and its path, and ends with one that has "<<" and its path: search for ">>" for a table of contents. Below is
 *   an index with a line for each public type and function. The public headers come first (base, tensor, model, optim,
 *   text, data, io, task, train, run) and document every function; then the private headers; then the implementation.
 *   Public names begin with eitp_ or EITP_. Names that begin with eitp__ or EITP__ are private. Without
 *   EITP_IMPLEMENTATION only the public part is compiled.
 */
