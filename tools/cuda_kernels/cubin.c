/*
 * Reads the kernels of a cubin: an ELF file with a section ".text.<kernel>" for each kernel. The size of
 * ".nv.shared.<kernel>" is its static shared memory, and since sm_90 also the memory that the system takes. Attributes
 * in ".nv.info" give the registers and the stack per thread. An instruction has 16 bytes, and its lower 12 bits are the
 * opcode. The results agree with cuobjdump.
 */
#include "cuda_kernels.h"

#include <elf.h>

enum {
    ATTRIBUTE_WITH_SIZE = 4,    /* format of an attribute: its size, then that many bytes */
    ATTRIBUTE_STACK = 0x11,     /* symbol number of a function, and its stack in bytes */
    ATTRIBUTE_REGISTERS = 0x2f, /* symbol number of a function, and its registers */
    SYSTEM_SHARED = 1024,       /* bytes that the system takes, in files with a section ".nv.shared.reserved.0" */
    INSTRUCTION = 16,
    INSTRUCTION_HMMA = 0x23c
};

/* A file in memory, aligned for any ELF struct. */
typedef struct cubin {
    const char *path;
    char *data;
    size_t size;
    const Elf64_Shdr *sections;
    int section_count;
    const char *names;
} cubin;

static const void *cubin_at(const cubin *c, uint64_t offset, uint64_t size) {
    if (offset > c->size || size > c->size - offset)
        stop("%s is truncated", c->path);
    return c->data + offset;
}

static void read_file(cubin *c) {
    FILE *file = fopen(c->path, "rb");
    long size;
    if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0)
        stop("cannot read %s", c->path);
    rewind(file);
    c->size = (size_t)size;
    c->data = (char *)malloc(c->size + 1);
    if (!c->data || fread(c->data, 1, c->size, file) != c->size)
        stop("cannot read %s", c->path);
    fclose(file);
}

static cubin open_cubin(const char *path) {
    const Elf64_Ehdr *header;
    cubin c = EITP__ZERO;
    c.path = path;
    read_file(&c);
    header = (const Elf64_Ehdr *)cubin_at(&c, 0, sizeof *header);
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_machine != EM_CUDA)
        stop("%s is not a cubin", path);
    c.section_count = header->e_shnum;
    c.sections = (const Elf64_Shdr *)cubin_at(&c, header->e_shoff, (uint64_t)header->e_shnum * sizeof *c.sections);
    c.names = (const char *)cubin_at(&c, c.sections[header->e_shstrndx].sh_offset, 0);
    return c;
}

static const char *section_name(const cubin *c, int i) {
    return c->names + c->sections[i].sh_name;
}

/* Returns the section named "<prefix><name>", or NULL. */
static const Elf64_Shdr *find_section(const cubin *c, const char *prefix, const char *name) {
    const size_t length = strlen(prefix);
    for (int i = 0; i < c->section_count; i++)
        if (!strncmp(section_name(c, i), prefix, length) && !strcmp(section_name(c, i) + length, name))
            return &c->sections[i];
    return NULL;
}

/* True if symbol `number` has this name. */
static int is_symbol(const cubin *c, uint32_t number, const char *name) {
    const Elf64_Shdr *table = find_section(c, ".symtab", ""), *texts = find_section(c, ".strtab", "");
    const Elf64_Sym *symbol;
    if (!table || !texts)
        stop("%s has no symbols", c->path);
    symbol = (const Elf64_Sym *)cubin_at(c, table->sh_offset + number * sizeof *symbol, sizeof *symbol);
    return !strcmp((const char *)cubin_at(c, texts->sh_offset + symbol->st_name, 1), name);
}

/* Returns an attribute of a kernel. */
static uint32_t attribute_of(const cubin *c, int attribute, const char *kernel) {
    const Elf64_Shdr *info = find_section(c, ".nv.info", "");
    const unsigned char *at = info ? (const unsigned char *)cubin_at(c, info->sh_offset, info->sh_size) : NULL;
    const unsigned char *end = info ? at + info->sh_size : NULL;
    while (at && at + 4 <= end) {
        const int is_sized = at[0] == ATTRIBUTE_WITH_SIZE;
        const size_t size = is_sized ? (size_t)at[2] | (size_t)at[3] << 8 : 0;
        uint32_t values[2];
        if (is_sized && at[1] == attribute && size == sizeof values && at + 4 + size <= end) {
            memcpy(values, at + 4, sizeof values);
            if (is_symbol(c, values[0], kernel))
                return values[1];
        }
        at += 4 + size;
    }
    stop("%s has no attribute 0x%x for %s", c->path, (unsigned)attribute, kernel);
}

static int count_products(const cubin *c, const Elf64_Shdr *text) {
    const unsigned char *code = (const unsigned char *)cubin_at(c, text->sh_offset, text->sh_size);
    int count = 0;
    for (uint64_t i = 0; i + INSTRUCTION <= text->sh_size; i += INSTRUCTION)
        count += ((code[i] | code[i + 1] << 8) & 0xfff) == INSTRUCTION_HMMA;
    return count;
}

static cubin_kernel kernel_of(const cubin *c, const Elf64_Shdr *text, const char *name) {
    const Elf64_Shdr *shared = find_section(c, ".nv.shared.", name);
    const size_t system = find_section(c, ".nv.shared.", "reserved.0") ? SYSTEM_SHARED : 0;
    cubin_kernel kernel = EITP__ZERO;
    snprintf(kernel.name, sizeof kernel.name, "%s", name);
    kernel.registers = (int)attribute_of(c, ATTRIBUTE_REGISTERS, name);
    kernel.stack = attribute_of(c, ATTRIBUTE_STACK, name);
    kernel.shared = shared && shared->sh_size >= system ? (size_t)shared->sh_size - system : 0;
    kernel.products = count_products(c, text);
    return kernel;
}

int cubin_read(const char *path, cubin_kernel kernels[MOST_KERNELS]) {
    static const char prefix[] = ".text.";
    const cubin c = open_cubin(path);
    int count = 0;
    for (int i = 0; i < c.section_count; i++) {
        if (strncmp(section_name(&c, i), prefix, sizeof prefix - 1) != 0)
            continue;
        if (count == MOST_KERNELS)
            stop("%s has more than %d kernels", path, MOST_KERNELS);
        kernels[count++] = kernel_of(&c, &c.sections[i], section_name(&c, i) + sizeof prefix - 1);
    }
    free(c.data);
    return count;
}
