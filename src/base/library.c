#include "base/library.h"

#include <dlfcn.h>
#if defined(__linux__) && defined(__LP64__)
#include <elf.h>
#include <sys/auxv.h>
#endif

/* Weak references, so that `cc file.c -lm` links with every C library: glibc has these functions since 2.34; elsewhere
   they are in -ldl, or missing from static programs. A weakref does not affect a program's own references. */
#if defined(__ELF__)
static void *eitp__dlopen(const char *name, int flags) __attribute__((weakref("dlopen")));
static void *eitp__dlsym(void *library, const char *name) __attribute__((weakref("dlsym")));
static char *eitp__dlerror(void) __attribute__((weakref("dlerror")));
#define EITP__HAS_DLOPEN (eitp__dlopen != NULL && eitp__dlsym != NULL && eitp__dlerror != NULL)
#else
#define eitp__dlopen dlopen
#define eitp__dlsym dlsym
#define eitp__dlerror dlerror
#define EITP__HAS_DLOPEN 1
#endif

/* A dynamically linked program names its loader. */
static int eitp__is_dynamic(void) {
#if defined(__linux__) && defined(__LP64__)
    const Elf64_Phdr *headers = (const Elf64_Phdr *)getauxval(AT_PHDR);
    unsigned long count = headers ? getauxval(AT_PHNUM) : 0;
    for (unsigned long i = 0; i < count; i++)
        if (headers[i].p_type == PT_INTERP)
            return 1;
    return !headers;
#else
    return 1;
#endif
}

EITP__PRIVATE int eitp__can_open_libraries(void) {
    return EITP__HAS_DLOPEN && eitp__is_dynamic();
}

EITP__PRIVATE void *eitp__open_library(const char *name, char *reason, size_t size) {
    void *library = EITP__HAS_DLOPEN ? eitp__dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    const char *failure = library ? NULL : EITP__HAS_DLOPEN ? eitp__dlerror() : "the program has no dlopen";
    snprintf(reason, size, "%s", failure ? failure : "");
    return library;
}

EITP__PRIVATE int eitp__is_library_open(const char *name) {
#ifdef RTLD_NOLOAD
    /* Another reference has no effect: libraries stay open. */
    return EITP__HAS_DLOPEN && eitp__dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) != NULL;
#else
    (void)name;
    return 0;
#endif
}

EITP__PRIVATE int eitp__find_function(void *library, const char *name, void *function) {
    void *address = EITP__HAS_DLOPEN ? eitp__dlsym(library, name) : NULL;
    /* ISO C cannot convert the address to a function pointer. */
    memcpy(function, &address, sizeof address);
    return address != NULL;
}
