/* gdbm_dump: the two formats in which gdbm_dump and gdbm_load exchange databases, and Berkeley DB's, for reading.
 *
 *   binary  four lines that begin with "!"; then for each record key and value, each after its length as an unsigned
 *           long whose first 32 bits, in network order, count
 *   ASCII   lines "#:name=value,name=value"; then for each record key and value, each as a line "#:len=N" and base64 in
 *           lines of 76 characters; then "#:count=N"
 *   "V"     of db_dump: a header up to HEADER=END, then keys and values in hexadecimal
 *
 * Dumps are untrusted: lengths are checked against what the file has, and memory grows with what was read. Uses the
 * functions of gdbm.h alone. Differs from gdbm 1.23: empty values can be loaded. */
#define _GNU_SOURCE /* getline, O_CLOEXEC in C99 */
#include "include/gdbm.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_LEN 76

/* Bytes read at once: a length that is not true allocates no more. */
#define STEP (64 * 1024)

static int fail(gdbm_error error)
{
    int number = errno;
    gdbm_set_errno(NULL, error, 0);
    errno = number;
    return -1;
}

/* --- memory that grows --- */

struct bytes {
    char *at;
    size_t len, capacity;
};

/* Room for `more` bytes behind what is there, and a zero. */
static gdbm_error make_room(struct bytes *bytes, size_t more)
{
    size_t needed = bytes->len + more + 1;
    if (needed <= bytes->capacity)
        return GDBM_NO_ERROR;
    size_t capacity = needed + needed / 2;
    char *at = realloc(bytes->at, capacity);
    if (!at)
        return GDBM_MALLOC_ERROR;
    bytes->at = at;
    bytes->capacity = capacity;
    return GDBM_NO_ERROR;
}

static gdbm_error append(struct bytes *bytes, const char *from, size_t len)
{
    gdbm_error error = make_room(bytes, len);
    if (error)
        return error;
    memcpy(bytes->at + bytes->len, from, len);
    bytes->len += len;
    return GDBM_NO_ERROR;
}

/* What may be stored: of length 0, too, it is not NULL. */
static datum datum_of(const struct bytes *bytes)
{
    static char nothing[1];
    return (datum){bytes->at ? bytes->at : nothing, (int)bytes->len};
}

/* --- writing --- */

typedef int (*write_datum)(FILE *file, datum written);

static int write_binary(FILE *file, datum written)
{
    unsigned char len[sizeof(unsigned long)] = {0};
    /* As htonl gives it to an unsigned long, in the byte order of this machine. */
    static const uint16_t ONE = 1;
    unsigned char *number = len + (*(const unsigned char *)&ONE ? 0 : sizeof len - 4);
    for (int i = 0; i < 4; i++)
        number[i] = (unsigned char)((unsigned)written.dsize >> (24 - 8 * i));
    size_t bytes = (size_t)written.dsize;
    return fwrite(len, sizeof len, 1, file) == 1 && fwrite(written.dptr, 1, bytes, file) == bytes ? 0 : -1;
}

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int write_ascii(FILE *file, datum written)
{
    const unsigned char *from = (const unsigned char *)written.dptr;
    size_t left = (size_t)written.dsize, column = 0;
    fprintf(file, "#:len=%zu\n", left);
    while (left > 0) {
        size_t now = left < 3 ? left : 3;
        unsigned group = (unsigned)from[0] << 16 | (now > 1 ? (unsigned)from[1] << 8 : 0) | (now > 2 ? from[2] : 0u);
        fputc(DIGITS[group >> 18], file);
        fputc(DIGITS[group >> 12 & 63], file);
        fputc(now > 1 ? DIGITS[group >> 6 & 63] : '=', file);
        fputc(now > 2 ? DIGITS[group & 63] : '=', file);
        from += now;
        left -= now;
        column += 4;
        if (column == LINE_LEN || left == 0) {
            fputc('\n', file);
            column = 0;
        }
    }
    return ferror(file) ? -1 : 0;
}

/* All records; the number of them, or -1. */
static long write_records(GDBM_FILE db, FILE *file, write_datum write)
{
    long count = 0;
    datum key = gdbm_firstkey(db);
    while (key.dptr) {
        datum value = gdbm_fetch(db, key);
        int failed = !value.dptr ? -1 : write(file, key) || write(file, value);
        if (failed && value.dptr)
            fail(GDBM_FILE_WRITE_ERROR);
        free(value.dptr);
        if (failed) {
            free(key.dptr);
            return -1;
        }
        datum next = gdbm_nextkey(db, key);
        free(key.dptr);
        key = next;
        count++;
    }
    if (gdbm_last_errno(db) != GDBM_ITEM_NOT_FOUND)
        return -1;
    gdbm_clear_error(db);
    gdbm_errno = GDBM_NO_ERROR;
    return count;
}

/* Whether `db` can be asked; gdbm_errno says why not. */
static bool usable(GDBM_FILE db)
{
    gdbm_count_t count;
    return gdbm_count(db, &count) == 0;
}

int gdbm_export_to_file(GDBM_FILE db, FILE *file)
{
    if (!usable(db))
        return -1;
    if (fprintf(file, "!\r\n! GDBM FLAT FILE DUMP -- THIS IS NOT A TEXT FILE\r\n! %s\r\n!\r\n", gdbm_version) < 0)
        return fail(GDBM_FILE_WRITE_ERROR);
    long count = write_records(db, file, write_binary);
    return count > INT_MAX ? INT_MAX : (int)count;
}

static gdbm_error write_header(GDBM_FILE db, FILE *file)
{
    struct stat found;
    char *name = NULL, stamp[32];
    int format = 0;
    time_t now = time(NULL);
    if (fstat(gdbm_fdesc(db), &found))
        return GDBM_FILE_STAT_ERROR;
    if (gdbm_setopt(db, GDBM_GETDBNAME, &name, sizeof name) ||
        gdbm_setopt(db, GDBM_GETDBFORMAT, &format, sizeof format))
        return gdbm_last_errno(db);
    const struct passwd *user = getpwuid(found.st_uid);
    const struct group *group = getgrgid(found.st_gid);
    fprintf(file, "# GDBM dump file created by %s on %s", gdbm_version,
            ctime_r(&now, stamp) ? stamp : "an unknown date\n");
    fprintf(file, "#:version=1.1\n#:file=%s\n#:uid=%lu,", name, (unsigned long)found.st_uid);
    if (user)
        fprintf(file, "user=%s,", user->pw_name);
    fprintf(file, "gid=%lu,", (unsigned long)found.st_gid);
    if (group)
        fprintf(file, "group=%s,", group->gr_name);
    fprintf(file, "mode=%03o\n#:format=%s\n# End of header\n", (unsigned)found.st_mode & 0777,
            format == GDBM_NUMSYNC ? "numsync" : "standard");
    free(name);
    return GDBM_NO_ERROR;
}

static int dump_ascii(GDBM_FILE db, FILE *file)
{
    if (!usable(db))
        return -1;
    gdbm_error error = write_header(db, file);
    if (error)
        return fail(error);
    long count = write_records(db, file, write_ascii);
    if (count >= 0)
        fprintf(file, "#:count=%ld\n# End of data\n", count);
    return count < 0 ? -1 : 0;
}

int gdbm_dump_to_file(GDBM_FILE db, FILE *file, int format)
{
    int result;
    if (!file || (format != GDBM_DUMP_FMT_BINARY && format != GDBM_DUMP_FMT_ASCII)) {
        fail(GDBM_BAD_OPEN_FLAGS);
        return EINVAL;
    }
    result = format == GDBM_DUMP_FMT_BINARY ? (gdbm_export_to_file(db, file) < 0 ? -1 : 0) : dump_ascii(db, file);
    return result == 0 && ferror(file) ? fail(GDBM_FILE_WRITE_ERROR) : result;
}

/* A new file to write to: GDBM_WRCREAT does not replace one, GDBM_NEWDB does. */
static FILE *create(const char *path, int flags, int mode)
{
    if (flags != GDBM_WRCREAT && flags != GDBM_NEWDB) {
        fail(GDBM_BAD_OPEN_FLAGS);
        return NULL;
    }
    int replace = flags == GDBM_WRCREAT ? O_EXCL : O_TRUNC;
    int descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | replace, (mode_t)mode);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (!file) {
        int number = errno;
        if (descriptor >= 0)
            close(descriptor);
        errno = number;
        fail(GDBM_FILE_OPEN_ERROR);
    }
    return file;
}

/* What the buffer still has may not fit on the disk. */
static int close_written(FILE *file, int result)
{
    return fclose(file) && result >= 0 ? fail(GDBM_FILE_WRITE_ERROR) : result;
}

int gdbm_export(GDBM_FILE db, const char *path, int flags, int mode)
{
    FILE *file = usable(db) ? create(path, flags, mode) : NULL;
    return file ? close_written(file, gdbm_export_to_file(db, file)) : -1;
}

int gdbm_dump(GDBM_FILE db, const char *path, int format, int flags, int mode)
{
    FILE *file = usable(db) ? create(path, flags, mode) : NULL;
    return file ? close_written(file, gdbm_dump_to_file(db, file, format)) : -1;
}

/* --- reading, binary --- */

/* A key or a value. `end` becomes true where the file ends before it. */
static gdbm_error read_binary(FILE *file, struct bytes *bytes, bool *end)
{
    unsigned char len[sizeof(unsigned long)];
    size_t got = fread(len, 1, sizeof len, file);
    uint64_t left = 0;
    *end = got == 0 && !ferror(file);
    if (*end)
        return GDBM_NO_ERROR;
    if (got < sizeof len)
        return GDBM_FILE_READ_ERROR;
    /* The zeros of an unsigned long of 64 bits come after the number, or before it where the highest byte is first. */
    for (size_t i = 0; i < sizeof len; i += 4) {
        uint64_t part = (uint64_t)len[i] << 24 | (uint64_t)len[i + 1] << 16 | (uint64_t)len[i + 2] << 8 | len[i + 3];
        if (part && left)
            return GDBM_MALFORMED_DATA;
        left |= part;
    }
    if (left > INT_MAX)
        return GDBM_MALFORMED_DATA;
    bytes->len = 0;
    while (left > 0) {
        size_t step = left < STEP ? (size_t)left : STEP;
        gdbm_error error = make_room(bytes, step);
        if (error)
            return error;
        if (fread(bytes->at + bytes->len, 1, step, file) != step)
            return GDBM_FILE_READ_ERROR;
        bytes->len += step;
        left -= step;
    }
    return GDBM_NO_ERROR;
}

/* Four lines, each with "!". */
static gdbm_error skip_binary_header(FILE *file)
{
    for (int marks = 0, lines = 0;;) {
        int c = fgetc(file);
        if (c == EOF)
            return GDBM_FILE_READ_ERROR;
        marks += c == '!' && marks < 4;
        if (c == '\n' && lines++ >= 3 && marks == 4)
            return GDBM_NO_ERROR;
        if (lines > 4)
            lines = 4;
    }
}

int gdbm_import_from_file(GDBM_FILE db, FILE *file, int replace)
{
    struct bytes key = {0}, value = {0};
    bool end = false, cut = false;
    int count = 0;
    if (!usable(db))
        return -1;
    gdbm_error error = skip_binary_header(file);
    while (!error && !end) {
        error = read_binary(file, &key, &end);
        if (error || end)
            break;
        error = read_binary(file, &value, &cut);
        if (!error && cut)
            error = GDBM_FILE_READ_ERROR;
        if (!error && gdbm_store(db, datum_of(&key), datum_of(&value), replace))
            error = gdbm_errno;
        count += !error && count < INT_MAX;
    }
    free(key.at);
    free(value.at);
    return error ? fail(error) : count;
}

/* A file to read; NULL with gdbm_errno set. */
static FILE *open_to_read(const char *path)
{
    FILE *file = path ? fopen(path, "re") : NULL;
    if (!file)
        fail(GDBM_FILE_OPEN_ERROR);
    return file;
}

int gdbm_import(GDBM_FILE db, const char *path, int replace)
{
    FILE *file = usable(db) ? open_to_read(path) : NULL;
    if (!file)
        return -1;
    int result = gdbm_import_from_file(db, file, replace);
    fclose(file);
    return result;
}

/* --- reading, ASCII --- */

/* The names that mean something. */
enum { FILE_NAME, UID, USER, GID, GROUP, MODE, FORMAT, LEN, NAME_COUNT };
static const char *const NAMES[NAME_COUNT] = {"file", "uid", "user", "gid", "group", "mode", "format", "len"};

struct dump {
    FILE *file;
    unsigned long line;
    char *text; /* the line, without its end */
    size_t len, capacity;
    bool held; /* the line is read again */
    bool end;
    char *values[NAME_COUNT]; /* of the lines "#:" since `forget`; NULL for what they do not have */
    size_t value_count;       /* with those whose names mean nothing */
    struct bytes base64;
};

static void forget(struct dump *dump)
{
    for (int i = 0; i < NAME_COUNT; i++) {
        free(dump->values[i]);
        dump->values[i] = NULL;
    }
    dump->value_count = 0;
}

/* The next line, or `end`. */
static gdbm_error next_line(struct dump *dump)
{
    if (dump->held) {
        dump->held = false;
        return GDBM_NO_ERROR;
    }
    errno = 0;
    ssize_t len = getline(&dump->text, &dump->capacity, dump->file);
    if (len < 0) {
        dump->end = true;
        return ferror(dump->file) ? GDBM_FILE_READ_ERROR : errno == ENOMEM ? GDBM_MALLOC_ERROR : GDBM_NO_ERROR;
    }
    dump->line++;
    dump->len = (size_t)len;
    if (dump->len > 0 && dump->text[dump->len - 1] == '\n')
        dump->text[--dump->len] = 0;
    return GDBM_NO_ERROR;
}

/* Takes the pairs of a line: `name=value,name="value"`. The first value of a name counts. */
static gdbm_error take_pairs(struct dump *dump, char *at)
{
    for (;;) {
        at += strspn(at, " \t,");
        if (!*at)
            return GDBM_NO_ERROR;
        char *name = at;
        at += strcspn(at, "=");
        if (!*at)
            return GDBM_MALFORMED_DATA;
        *at++ = 0;
        bool quoted = *at == '"';
        char *value = at += quoted;
        at += strcspn(at, quoted ? "\"" : ",");
        bool more = *at;
        *at = 0;
        at += more;
        dump->value_count++;
        for (int i = 0; i < NAME_COUNT; i++)
            if (!dump->values[i] && !strcmp(name, NAMES[i]) && !(dump->values[i] = strdup(value)))
                return GDBM_MALLOC_ERROR;
    }
}

/* Reads lines that begin with "#", up to one that does not, or behind a length: an empty value has no line before the
 * next length. */
static gdbm_error read_pairs(struct dump *dump)
{
    while (!dump->values[LEN]) {
        gdbm_error error = next_line(dump);
        if (error || dump->end)
            return error;
        if (dump->text[0] != '#') {
            dump->held = true;
            return GDBM_NO_ERROR;
        }
        if (dump->text[1] == ':' && (error = take_pairs(dump, dump->text + 2)))
            return error;
    }
    return GDBM_NO_ERROR;
}

/* A number that is nothing but digits; false for another text, and for NULL. */
static bool number_of(const char *text, int base, unsigned long *number)
{
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    *number = strtoul(text, &end, base);
    return !*end && !errno;
}

/* Lines up to one that begins with "#". */
static gdbm_error read_base64(struct dump *dump)
{
    dump->base64.len = 0;
    for (;;) {
        gdbm_error error = next_line(dump);
        if (error || dump->end)
            return error;
        if (dump->text[0] == '#') {
            dump->held = true;
            return GDBM_NO_ERROR;
        }
        if ((error = append(&dump->base64, dump->text, dump->len)))
            return error;
    }
}

static int digit_value(char digit)
{
    const char *found = digit ? strchr(DIGITS, digit) : NULL;
    return found ? (int)(found - DIGITS) : -1;
}

static gdbm_error decode(const struct bytes *from, struct bytes *to)
{
    to->len = 0;
    gdbm_error error = make_room(to, from->len);
    if (error)
        return error;
    if (from->len % 4)
        return GDBM_MALFORMED_DATA;
    for (size_t i = 0; i < from->len; i += 4) {
        const char *group = from->at + i;
        bool last = i + 4 == from->len;
        int pad = !last ? 0 : group[3] != '=' ? 0 : group[2] != '=' ? 1 : 2;
        int values[4] = {0, 0, 0, 0};
        for (int j = 0; j < 4 - pad; j++)
            if ((values[j] = digit_value(group[j])) < 0)
                return GDBM_MALFORMED_DATA;
        to->at[to->len++] = (char)(values[0] << 2 | values[1] >> 4);
        if (pad < 2)
            to->at[to->len++] = (char)(values[1] << 4 | values[2] >> 2);
        if (pad < 1)
            to->at[to->len++] = (char)(values[2] << 6 | values[3]);
    }
    return GDBM_NO_ERROR;
}

/* A key or a value. `absent` becomes true where the dump ends before it. */
static gdbm_error read_ascii(struct dump *dump, struct bytes *bytes, bool *absent)
{
    unsigned long len;
    gdbm_error error = read_pairs(dump);
    *absent = !error && !dump->values[LEN];
    if (error || *absent)
        return error;
    if (!number_of(dump->values[LEN], 10, &len) || len > INT_MAX)
        return GDBM_MALFORMED_DATA;
    forget(dump);
    if ((error = read_base64(dump)) || (error = decode(&dump->base64, bytes)))
        return error;
    return bytes->len == len ? GDBM_NO_ERROR : GDBM_MALFORMED_DATA;
}

static gdbm_error load_records(struct dump *dump, GDBM_FILE db, int replace)
{
    struct bytes key = {0}, value = {0};
    bool end = false, cut = false;
    gdbm_error error = GDBM_NO_ERROR;
    while (!error) {
        error = read_ascii(dump, &key, &end);
        if (!error && end && !dump->end)
            error = GDBM_ITEM_NOT_FOUND;
        if (error || end)
            break;
        error = read_ascii(dump, &value, &cut);
        if (!error && cut)
            error = GDBM_ITEM_NOT_FOUND;
        if (!error && gdbm_store(db, datum_of(&key), datum_of(&value), replace))
            error = gdbm_errno;
    }
    free(key.at);
    free(value.at);
    return error;
}

/* The owner and the permissions that a header has. */
struct meta {
    bool has_user, has_group, has_mode;
    uid_t user;
    gid_t group;
    mode_t mode;
};

static struct meta meta_of(const struct dump *dump, int mask)
{
    struct meta meta = {0};
    unsigned long number;
    if (!(mask & GDBM_META_MASK_OWNER)) {
        const struct passwd *user = dump->values[USER] ? getpwnam(dump->values[USER]) : NULL;
        const struct group *group = dump->values[GROUP] ? getgrnam(dump->values[GROUP]) : NULL;
        meta.has_user = user || number_of(dump->values[UID], 10, &number);
        if (meta.has_user)
            meta.user = user ? user->pw_uid : (uid_t)number;
        meta.has_group = group || number_of(dump->values[GID], 10, &number);
        if (meta.has_group)
            meta.group = group ? group->gr_gid : (gid_t)number;
    }
    meta.has_mode = !(mask & GDBM_META_MASK_MODE) && number_of(dump->values[MODE], 8, &number);
    if (meta.has_mode)
        meta.mode = (mode_t)(number & 0777);
    return meta;
}

static gdbm_error restore(const struct meta *meta, int descriptor)
{
    /* -1 leaves an owner as it is. Only root may give files away. */
    uid_t user = meta->has_user ? meta->user : (uid_t)-1;
    gid_t group = meta->has_group ? meta->group : (gid_t)-1;
    if (getuid() == 0 && (meta->has_user || meta->has_group) && fchown(descriptor, user, group))
        return GDBM_ERR_FILE_OWNER;
    if (meta->has_mode && fchmod(descriptor, meta->mode))
        return GDBM_ERR_FILE_MODE;
    return GDBM_NO_ERROR;
}

static gdbm_error load_ascii(struct dump *dump, GDBM_FILE *db, int replace, int mask)
{
    GDBM_FILE opened = NULL;
    gdbm_error error = read_pairs(dump);
    if (error)
        return error;
    if (dump->value_count == 0)
        return GDBM_MALFORMED_DATA;
    int format = dump->values[FORMAT] && !strcmp(dump->values[FORMAT], "numsync") ? GDBM_NUMSYNC : 0;
    struct meta meta = meta_of(dump, mask);
    if (!*db) {
        if (!dump->values[FILE_NAME])
            return GDBM_NO_DBNAME;
        opened = gdbm_open(dump->values[FILE_NAME], 0, (replace ? GDBM_WRCREAT : GDBM_NEWDB) | format, 0600, NULL);
        if (!opened)
            return gdbm_errno;
    }
    GDBM_FILE target = *db ? *db : opened;
    if (format && gdbm_convert(target, format))
        error = gdbm_errno;
    if (!error)
        error = load_records(dump, target, replace);
    if (!error) {
        *db = target;
        return restore(&meta, gdbm_fdesc(target));
    }
    if (opened)
        gdbm_close(opened);
    return error;
}

/* --- reading, Berkeley DB's --- */

static int hex_value(char digit)
{
    static const char HEX[] = "0123456789abcdef";
    const char *found = digit ? strchr(HEX, digit) : NULL;
    return found ? (int)(found - HEX) : -1;
}

static gdbm_error decode_hex(const struct dump *dump, struct bytes *to)
{
    to->len = 0;
    gdbm_error error = make_room(to, dump->len / 2);
    /* After a space. */
    if (!error && dump->len % 2 == 0)
        error = GDBM_MALFORMED_DATA;
    for (size_t i = 1; !error && i < dump->len; i += 2) {
        int high = hex_value(dump->text[i]), low = hex_value(dump->text[i + 1]);
        if (high < 0 || low < 0)
            return GDBM_MALFORMED_DATA;
        to->at[to->len++] = (char)(high << 4 | low);
    }
    return !error && to->len > INT_MAX ? GDBM_MALFORMED_DATA : error;
}

static gdbm_error load_berkeley(struct dump *dump, GDBM_FILE db, int replace)
{
    struct bytes pair[2] = {{0}, {0}};
    gdbm_error error = next_line(dump);
    if (!error && (dump->end || strcmp(dump->text, "VERSION=3")))
        error = GDBM_MALFORMED_DATA;
    while (!error && !dump->end && strcmp(dump->text, "HEADER=END"))
        error = next_line(dump);
    if (!error && dump->end)
        error = GDBM_MALFORMED_DATA;
    int part = 0;
    while (!error && !(error = next_line(dump)) && !dump->end && dump->text[0] == ' ') {
        error = decode_hex(dump, &pair[part]);
        if (!error && part == 1 && gdbm_store(db, datum_of(&pair[0]), datum_of(&pair[1]), replace))
            error = gdbm_errno;
        part = !part;
    }
    if (!error && part == 1)
        error = GDBM_MALFORMED_DATA;
    free(pair[0].at);
    free(pair[1].at);
    return error;
}

int gdbm_load_from_file(GDBM_FILE *db, FILE *file, int replace, int meta_mask, unsigned long *line)
{
    struct dump dump = {.file = file};
    gdbm_error error;
    if (!db || !file)
        return EINVAL;
    int first = fgetc(file);
    ungetc(first, file);
    if (first == '!') {
        if (line)
            *line = 0;
        return !*db ? fail(GDBM_NO_DBNAME) : gdbm_import_from_file(*db, file, replace) < 0 ? -1 : 0;
    }
    if (first == 'V')
        error = !*db ? GDBM_NO_DBNAME : load_berkeley(&dump, *db, replace);
    else
        error = load_ascii(&dump, db, replace, meta_mask);
    forget(&dump);
    free(dump.text);
    free(dump.base64.at);
    if (!error)
        return 0;
    if (line)
        *line = dump.line;
    return fail(error);
}

int gdbm_load(GDBM_FILE *db, const char *path, int replace, int meta_mask, unsigned long *line)
{
    FILE *file = open_to_read(path);
    if (!file)
        return -1;
    int result = gdbm_load_from_file(db, file, replace, meta_mask, line);
    fclose(file);
    return result;
}
