/* gdbm_errno: what gdbm.c and gdbm_errno.c have in common, the last error of a database. */
#ifndef SPLITPOINT_COMPAT_GDBM_ERRNO_H
#define SPLITPOINT_COMPAT_GDBM_ERRNO_H

#include "include/gdbm.h"
#include <stdbool.h>

struct gdbm_fault {
    gdbm_error error;
    int number; /* errno, where it belongs to the error; or 0 */
    char *text; /* of gdbm_db_strerror; NULL before it was asked for */
    bool needs_recovery;
};

/* In gdbm.c; NULL for NULL. */
struct gdbm_fault *fault_of_database(GDBM_FILE db);

/* Whether this thread's GDBM_BAD_MAGIC_NUMBER is about a file of gdbm: its text then says what reads it. */
void bad_magic_is_of_gdbm(bool is);

#endif
