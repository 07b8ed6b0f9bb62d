/* gdbm_errno: gdbm's codes of errors and their texts, for the thread and for each database.
 *
 * Codes and texts are gdbm's, since programs compare and print them. Source: the gdbm manual, "Error codes". */
#include "gdbm_errno.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static __thread int last;
static __thread bool of_foreign_file;

int *gdbm_errno_location(void) { return &last; }

const char *const gdbm_errlist[_GDBM_MAX_ERRNO + 1] = {
    [GDBM_NO_ERROR] = "No error",
    [GDBM_MALLOC_ERROR] = "Malloc error",
    [GDBM_BLOCK_SIZE_ERROR] = "Block size error",
    [GDBM_FILE_OPEN_ERROR] = "File open error",
    [GDBM_FILE_WRITE_ERROR] = "File write error",
    [GDBM_FILE_SEEK_ERROR] = "File seek error",
    [GDBM_FILE_READ_ERROR] = "File read error",
    [GDBM_BAD_MAGIC_NUMBER] = "Bad magic number",
    [GDBM_EMPTY_DATABASE] = "Empty database",
    [GDBM_CANT_BE_READER] = "Can't be reader",
    [GDBM_CANT_BE_WRITER] = "Can't be writer",
    [GDBM_READER_CANT_DELETE] = "Reader can't delete",
    [GDBM_READER_CANT_STORE] = "Reader can't store",
    [GDBM_READER_CANT_REORGANIZE] = "Reader can't reorganize",
    [GDBM_UNKNOWN_ERROR] = "Should not happen: unused error code",
    [GDBM_ITEM_NOT_FOUND] = "Item not found",
    [GDBM_REORGANIZE_FAILED] = "Reorganize failed",
    [GDBM_CANNOT_REPLACE] = "Cannot replace",
    [GDBM_MALFORMED_DATA] = "Malformed data",
    [GDBM_OPT_ALREADY_SET] = "Option already set",
    [GDBM_OPT_BADVAL] = "Bad option value",
    [GDBM_BYTE_SWAPPED] = "Byte-swapped file",
    [GDBM_BAD_FILE_OFFSET] = "File header assumes wrong off_t size",
    [GDBM_BAD_OPEN_FLAGS] = "Bad file flags",
    [GDBM_FILE_STAT_ERROR] = "Cannot stat file",
    [GDBM_FILE_EOF] = "Unexpected end of file",
    [GDBM_NO_DBNAME] = "Database name not given",
    [GDBM_ERR_FILE_OWNER] = "Failed to restore file owner",
    [GDBM_ERR_FILE_MODE] = "Failed to restore file mode",
    [GDBM_NEED_RECOVERY] = "Database needs recovery",
    [GDBM_BACKUP_FAILED] = "Failed to create backup copy",
    [GDBM_DIR_OVERFLOW] = "Bucket directory overflow",
    [GDBM_BAD_BUCKET] = "Malformed bucket header",
    [GDBM_BAD_HEADER] = "Malformed database file header",
    [GDBM_BAD_AVAIL] = "Malformed avail_block",
    [GDBM_BAD_HASH_TABLE] = "Malformed hash table",
    [GDBM_BAD_DIR_ENTRY] = "Invalid directory entry",
    [GDBM_FILE_CLOSE_ERROR] = "Error closing file",
    [GDBM_FILE_SYNC_ERROR] = "Error synchronizing file",
    [GDBM_FILE_TRUNCATE_ERROR] = "Error truncating file",
    [GDBM_BUCKET_CACHE_CORRUPTED] = "Bucket cache corrupted",
    [GDBM_BAD_HASH_ENTRY] = "Malformed bucket hash entry",
    [GDBM_ERR_SNAPSHOT_CLONE] = "Reflink failed",
    [GDBM_ERR_REALPATH] = "Failed to resolve real path name",
    [GDBM_ERR_USAGE] = "Function usage error",
};

static const char OF_GDBM[] = "Bad magic number: a file of GNU dbm, which `splitpoint load` reads";

int const gdbm_syserr[_GDBM_MAX_ERRNO + 1] = {
    [GDBM_FILE_OPEN_ERROR] = 1,     [GDBM_FILE_WRITE_ERROR] = 1, [GDBM_FILE_SEEK_ERROR] = 1,
    [GDBM_FILE_READ_ERROR] = 1,     [GDBM_FILE_STAT_ERROR] = 1,  [GDBM_BACKUP_FAILED] = 1,
    [GDBM_FILE_CLOSE_ERROR] = 1,    [GDBM_FILE_SYNC_ERROR] = 1,  [GDBM_FILE_TRUNCATE_ERROR] = 1,
    [GDBM_ERR_SNAPSHOT_CLONE] = 1,  [GDBM_ERR_REALPATH] = 1,     [GDBM_ERR_USAGE] = 1,
};

static bool is_known(gdbm_error error) { return error >= _GDBM_MIN_ERRNO && error <= _GDBM_MAX_ERRNO; }

int gdbm_check_syserr(gdbm_error error) { return is_known(error) && gdbm_syserr[error]; }

void bad_magic_is_of_gdbm(bool is) { of_foreign_file = is; }

const char *gdbm_strerror(gdbm_error error)
{
    if (error == GDBM_BAD_MAGIC_NUMBER && of_foreign_file)
        return OF_GDBM;
    return gdbm_errlist[is_known(error) ? error : GDBM_UNKNOWN_ERROR];
}

void gdbm_set_errno(GDBM_FILE db, gdbm_error error, int fatal)
{
    struct gdbm_fault *fault = fault_of_database(db);
    if (fault) {
        free(fault->text);
        fault->text = NULL;
        fault->error = error;
        fault->number = gdbm_check_syserr(error) ? errno : 0;
        fault->needs_recovery = fatal;
    }
    last = error;
}

void gdbm_clear_error(GDBM_FILE db)
{
    struct gdbm_fault *fault = fault_of_database(db);
    if (fault) {
        free(fault->text);
        fault->text = NULL;
        fault->error = GDBM_NO_ERROR;
        fault->number = 0;
    }
}

static int refused(void)
{
    errno = EINVAL;
    return -1;
}

gdbm_error gdbm_last_errno(GDBM_FILE db) { return db ? fault_of_database(db)->error : refused(); }

int gdbm_last_syserr(GDBM_FILE db) { return db ? fault_of_database(db)->number : refused(); }

int gdbm_needs_recovery(GDBM_FILE db) { return db && fault_of_database(db)->needs_recovery; }

const char *gdbm_db_strerror(GDBM_FILE db)
{
    struct gdbm_fault *fault = fault_of_database(db);
    const char *error = gdbm_strerror(fault ? fault->error : GDBM_ERR_USAGE);
    if (!fault || !fault->number || fault->text)
        return fault && fault->text ? fault->text : error;
    const char *system = strerror(fault->number);
    fault->text = malloc(strlen(error) + strlen(system) + 3);
    if (!fault->text)
        return error;
    strcpy(fault->text, error);
    strcat(strcat(fault->text, ": "), system);
    return fault->text;
}
